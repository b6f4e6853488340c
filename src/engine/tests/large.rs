//! A request with more than one turn of the writer thread: others are handled in between, and nothing else differs.

use tokio::sync::oneshot;

use crate::domain::{Kind, Value};
use crate::engine::signal::Job;
use crate::engine::tests::*;

const FILES: usize = 9;

/// Returns a list that is nearly as large as a file may be.
fn list(word: &str) -> Value {
    Value::List((0..5_000).map(|number| format!("{word} {number}").as_str().into()).collect())
}

fn key(number: usize) -> Key {
    Key::parse(&format!("c{number:02}")).unwrap()
}

/// Starts an engine on a repository with large files and one small file.
fn with_large_files(options: Options) -> (MemoryJournal, Running) {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yaml", &named("Posts"));
    let running = Running::with(&journal, options);
    for number in 0..FILES {
        let attributes = [("x-list".to_owned(), list("a"))];
        let collection = Collection::new(key(number), Kind::Document, attributes).unwrap();
        running.submit(Command::Create(collection)).unwrap();
    }
    (journal, running)
}

fn all_changed(name: &str) -> Vec<Command> {
    (0..FILES).map(|number| rename(key(number).as_str(), name)).collect()
}

fn submission(commands: Vec<Command>) -> Submission {
    Submission::of(Actor::anonymous(), commands)
}

type Answer = oneshot::Receiver<Result<SubmitAnswer, SubmitError>>;

/// Sends submissions at once, in this order, as concurrent clients do.
fn send(running: &Running, submissions: Vec<Submission>) -> Vec<Answer> {
    let send = |submission| {
        let (reply, answer) = oneshot::channel();
        let job = Job { asked_at: Instant::now(), span: tracing::Span::none(), submission, reply };
        running.engine.signals.blocking_send(Signal::Submit(job)).unwrap();
        answer
    };
    submissions.into_iter().map(send).collect()
}

fn revision_of(answer: Answer) -> Revision {
    block_on(answer).unwrap().unwrap().revision.unwrap()
}

/// Returns the position of a revision in the history, counted from the first commit.
fn place(journal: &MemoryJournal, revision: Revision) -> usize {
    journal.log().iter().rev().position(|it| it.revision == revision).unwrap()
}

#[test]
fn who_comes_after_a_large_request_is_answered_before_it() {
    let (journal, running) = with_large_files(options());
    let before = journal.log().len();
    let answers = send(
        &running,
        vec![
            submission(all_changed("Large")),
            submission(vec![rename("posts", "Small")]),
            submission(all_changed("Larger")),
            submission(vec![rename("posts", "Smaller")]),
        ],
    );
    let revisions: Vec<_> = answers.into_iter().map(revision_of).collect();
    let places: Vec<_> = revisions.into_iter().map(|revision| place(&journal, revision)).collect();
    let [large, small, larger, smaller] = places[..] else { panic!("{places:?}") };
    assert!(small <= smaller && smaller < large && large < larger, "{places:?}");
    assert_eq!(journal.log().len(), before + 4, "each is one commit");
    for number in 0..FILES {
        assert_eq!(running.shown(key(number).as_str()), Some(("Larger".to_owned(), false)));
    }
    running.stop();
}

#[test]
fn who_comes_after_many_requests_of_somebody_else_does_not_wait_for_all_of_them() {
    let (journal, running) = with_large_files(options());
    let of = |name: &str, command| Submission::of(Actor::new(name, ""), [command]);
    let mut asked: Vec<_> = all_changed("Large").into_iter().map(|command| of("Mara", command)).collect();
    asked.push(of("Ben", rename("posts", "Small")));
    let revisions = send(&running, asked).into_iter().map(revision_of);
    let mut places: Vec<_> = revisions.map(|revision| place(&journal, revision)).collect();
    let small = places.pop().unwrap();
    assert!(places.is_sorted(), "what one asks for is done in order: {places:?}");
    assert!(small <= places[FILES / 2], "{small} of {places:?}");
    running.stop();
}

#[test]
fn what_others_change_meanwhile_is_built_on() {
    let (journal, running) = with_large_files(options());
    let patch = Patch::new([("directory".to_owned(), "content/first".into())]);
    let first = Command::Update { key: key(0), kind: None, patch };
    let gone = Command::Delete { key: key(1), kind: None };
    let answers = send(
        &running,
        vec![
            submission(all_changed("Large")),
            submission(vec![first]),
            submission(all_changed("Larger")),
            submission(vec![gone]),
        ],
    );
    let refused = |answer: Answer| {
        let answer = block_on(answer).unwrap();
        matches!(
            answer,
            Err(SubmitError::Refused { index: 1, refusal: crate::domain::Refusal::UnknownKey(_) })
        )
    };
    let refused: Vec<_> = answers.into_iter().step_by(2).map(refused).collect();
    assert_eq!(refused, [true, true], "one of the files is gone by then");
    let patch = all_changed("Largest").into_iter().filter(|command| *command.key() != key(1));
    running.submit_all(patch).unwrap();
    let text = saved_text(&journal, "c00.yaml");
    assert!(text.contains("directory: content/first") && text.contains("name: Largest"), "{}", &text[..200]);
    running.stop();
}

#[test]
fn a_large_request_that_is_asked_for_twice_under_one_name_is_carried_out_once() {
    let (journal, running) = with_large_files(options());
    let before = journal.log().len();
    let named = |fingerprint: &[u8]| Submission {
        idempotency_key: Some(IdempotencyKey {
            key: "name".to_owned(),
            fingerprint: Fingerprint::of(&[fingerprint]),
        }),
        ..submission(all_changed("Large"))
    };
    let mut answers = send(&running, vec![named(b"request"), named(b"request"), named(b"another")]);
    assert!(matches!(block_on(answers.remove(2)).unwrap(), Err(SubmitError::KeyReused)));
    let revisions: Vec<_> = answers.into_iter().map(revision_of).collect();
    assert_eq!(revisions[0], revisions[1]);
    assert_eq!(journal.log().len(), before + 1);
    running.stop();
}

#[test]
fn a_stop_finishes_large_requests_that_wait() {
    let (journal, running) = with_large_files(options());
    let before = journal.log().len();
    let answers = send(
        &running,
        vec![
            submission(all_changed("Large")),
            submission(vec![rename("posts", "Small")]),
            submission(all_changed("Larger")),
        ],
    );
    running.stop();
    assert_eq!(answers.into_iter().map(revision_of).count(), 3);
    assert_eq!(journal.log().len(), before + 3);
}

#[test]
fn a_dry_run_of_a_large_request_shows_all_of_it() {
    let (journal, running) = with_large_files(options());
    let before = journal.log().len();
    let mut commands = all_changed("Large");
    commands.truncate(FILES - 1);
    commands.push(Command::Delete { key: key(FILES - 1), kind: None });
    let dry = Submission { dry_run: true, ..submission(commands) };
    let written = block_on(running.engine.handle.submit(dry)).unwrap();
    let [preview] = &written.preview.unwrap()[..] else { panic!("it is one commit") };
    assert_eq!(preview.files.len(), FILES);
    assert!(preview.files.iter().all(|file| file.before.as_ref().is_some_and(|it| it.len() > 40_000)));
    assert_eq!(preview.files.iter().filter(|file| file.after.is_none()).count(), 1);
    assert_eq!(journal.log().len(), before);
    running.stop();
}

#[test]
fn what_builds_on_more_than_may_be_is_refused_with_the_change_that_goes_beyond_it() {
    let options = options();
    let writer = WriterOptions { operations_bytes_max: 200_000, ..options.writer.clone() };
    let (journal, running) = with_large_files(Options { writer, ..options });
    let before = journal.log().len();
    let too_much = |commands: Vec<Command>, dry_run| {
        let asked = Submission { dry_run, ..submission(commands) };
        match block_on(running.engine.handle.submit(asked)) {
            Err(SubmitError::FilesTooLarge { index, bytes_max: 200_000 }) => index,
            other => panic!("{other:?}"),
        }
    };
    let size = journal.saved("c00.yaml").unwrap().len();
    assert_eq!(too_much(all_changed("Large"), false), 200_000 / size);
    let removed = |number| Command::Delete { key: key(number), kind: None };
    assert_eq!(too_much((0..FILES).map(removed).collect(), true), 200_000 / size);
    assert_eq!(journal.log().len(), before, "nothing was changed");
    running.submit_all((0..FILES).map(removed)).unwrap();
    running.stop();
}
