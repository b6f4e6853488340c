use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;

use crate::domain::{Collection, Kind, Patch};
use crate::format::message::*;
use crate::random::cases;

const ID: &str = "0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e";

fn id() -> Uuid {
    ID.parse().unwrap()
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn collection(name: &str, attributes: &[(&str, Value)]) -> Arc<Collection> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Arc::new(Collection::new(key(name), Kind::Document, attributes).unwrap())
}

fn updated(before: &Arc<Collection>, patch: &[(&str, Value)]) -> Event {
    let patch = Patch::new(patch.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Event::Updated { before: Arc::clone(before), after: Arc::new(before.patched(&patch).unwrap()) }
}

fn posts() -> Arc<Collection> {
    collection("posts", &[("name", "Posts".into())])
}

/// The output of `git interpret-trailers --parse` for a message.
fn git_trailers(message: &str) -> String {
    let mut git = Command::new("git")
        .args(["interpret-trailers", "--parse"])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
    String::from_utf8(git.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn an_update_is_told_as_the_design_shows_it() {
    let event = updated(&posts(), &[("name", "All posts".into()), ("recursive", true.into())]);
    let about =
        MessageDetails { reason: Some("Mara asked"), request_id: Some("7f1c"), ..MessageDetails::default() };
    let message = compose(&[(id(), &event)], &about);
    assert_eq!(
        message,
        format!(
            "Update posts: name, recursive\n\n\
             Mara asked\n\n\
             name: \"Posts\" -> \"All posts\"\n\
             recursive: (none) -> true\n\n\
             Collectory-Action: collection.updated\n\
             Collectory-Key: posts\n\
             Collectory-Event: {ID}\n\
             Request-Id: 7f1c\n"
        )
    );
    assert_eq!(
        parse(&message),
        Message {
            subject: "Update posts: name, recursive".into(),
            reason: Some("Mara asked".into()),
            text: "Update posts: name, recursive\n\nMara asked\n\nname: \"Posts\" -> \"All posts\"\nrecursive: (none) -> true".into(),
            events: vec![EventTrailers {
                key: key("posts"),
                action: Some("collection.updated".into()),
                id: Some(id())
            }],
            request_id: Some("7f1c".into()),
            origin: None,
            reverses: None,
        }
    );
}

#[test]
fn what_a_commit_takes_back_is_told_to_people_and_to_machines() {
    let event = updated(&posts(), &[("name", "All posts".into())]);
    let undoes = Reversal::Event("0197a6c2".into());
    let about = MessageDetails { reason: Some("Oh"), reverses: Some(&undoes), ..MessageDetails::default() };
    let message = compose(&[(id(), &event)], &about);
    assert!(message.starts_with("Update posts: name\n\nOh\n\nUndoes 0197a6c2\nname: "), "{message}");
    assert!(
        message.ends_with(&format!("Collectory-Event: {ID}\nCollectory-Undoes: 0197a6c2\n")),
        "{message}"
    );
    assert_eq!(parse(&message).reason.as_deref(), Some("Oh"));

    let same = Event::Updated { before: posts(), after: posts() };
    let since = Reversal::Since(crate::domain::Revision::new([0x9f; 20]));
    let about = MessageDetails { reason: Some("Oh"), reverses: Some(&since), ..MessageDetails::default() };
    let message = compose(&[(id(), &same)], &about);
    assert!(message.starts_with("Restore posts to 9f9f9f9\n\nOh\n\nAs it was at 9f9f9f9f9f"), "{message}");
    assert!(message.contains("\nCollectory-Restores: 9f9f9f9f9f"), "{message}");
    assert_eq!(parse(&message).reason.as_deref(), Some("Oh"), "though no attribute changed");
}

#[test]
fn a_reason_is_read_back_where_there_are_no_changes_to_tell() {
    let unread = [(id(), key("posts"))];
    let about = MessageDetails {
        reason: Some("It was broken"),
        unreadable_deletions: &unread,
        ..MessageDetails::default()
    };
    let message = compose(&[], &about);
    let start = "Delete posts\n\nIt was broken\n\n(no attributes)\n\nCollectory-Action: ";
    assert!(message.starts_with(start), "{message}");
    assert_eq!(parse(&message).reason.as_deref(), Some("It was broken"));

    let without =
        compose(&[], &MessageDetails { unreadable_deletions: &unread, ..MessageDetails::default() });
    assert!(without.starts_with("Delete posts\n\nCollectory-Action: "), "{without}");
    assert_eq!(parse(&without).reason, None);
}

#[test]
fn what_was_created_or_deleted_is_listed() {
    let created = compose(&[(id(), &Event::Created(posts()))], &MessageDetails::default());
    assert!(
        created.starts_with(
            "Create posts\n\ntype: \"document\"\nname: \"Posts\"\n\nCollectory-Action: collection.created\n"
        ),
        "{created}"
    );
    let deleted = compose(&[(id(), &Event::Deleted(posts()))], &MessageDetails::default());
    assert!(
        deleted.starts_with(
            "Delete posts\n\ntype: \"document\"\nname: \"Posts\"\n\nCollectory-Action: collection.deleted\n"
        ),
        "{deleted}"
    );
}

#[test]
fn a_batch_tells_each_event_in_the_order_of_the_keys() {
    let renamed = updated(&posts(), &[("name", "All".into())]);
    let created = Event::Created(collection("docs", &[]));
    let message = compose(&[(id(), &renamed), (id(), &created)], &MessageDetails::default());
    assert_eq!(
        message,
        format!(
            "Change 2 collections: docs, posts\n\n\
             docs: created\n  type: \"document\"\nposts: updated\n  name: \"Posts\" -> \"All\"\n\n\
             Collectory-Action: collection.created\nCollectory-Key: docs\nCollectory-Event: {ID}\n\
             Collectory-Action: collection.updated\nCollectory-Key: posts\nCollectory-Event: {ID}\n"
        )
    );
    let keys: Vec<_> = parse(&message).events.into_iter().map(|event| event.key).collect();
    assert_eq!(keys, [key("docs"), key("posts")]);
}

#[test]
fn a_long_subject_says_how_much_is_left_out() {
    let events: Vec<_> =
        (0..40).map(|n| Event::Created(collection(&format!("collection-{n:02}"), &[]))).collect();
    let events: Vec<_> = events.iter().map(|event| (id(), event)).collect();
    let message = compose(&events, &MessageDetails::default());
    assert_eq!(
        message.lines().next(),
        Some("Change 40 collections: collection-00, collection-01, and 38 more")
    );
    let long = "k".repeat(Key::BYTES_MAX);
    let event = updated(&collection(&long, &[]), &[("name", "x".into())]);
    assert_eq!(
        compose(&[(id(), &event)], &MessageDetails::default()).lines().next(),
        Some(&*format!("Update {long}"))
    );
}

#[test]
fn long_values_and_long_lists_of_changes_are_shortened() {
    let event = updated(&posts(), &[("name", "ä".repeat(500).as_str().into())]);
    let message = compose(&[(id(), &event)], &MessageDetails::default());
    let line = message.lines().nth(2).unwrap();
    assert!(line.ends_with('…') && line.chars().count() < 2 * VALUE_CHARS_MAX, "{line}");
    let many: Vec<_> = (0..LINES_MAX + 10).map(|n| (format!("x-{n:03}"), Value::Null)).collect();
    let many = Collection::new(key("many"), Kind::Media, many).unwrap();
    let message = compose(&[(id(), &Event::Created(Arc::new(many)))], &MessageDetails::default());
    assert!(message.contains("\n(and 11 more lines)\n\n"), "{message}");
}

#[test]
fn a_saved_file_is_told_as_edited_by_hand_even_if_it_is_broken() {
    let posts = key("posts");
    let about = MessageDetails {
        hand_edit: Some((&posts, HandEditAction::Edit, Some(id()))),
        ..MessageDetails::default()
    };
    let broken = compose(&[], &about);
    let trailers = |action: &str| {
        format!(
            "\n\nCollectory-Action: collection.{action}\nCollectory-Key: posts\nCollectory-Event: {ID}\n\
             Collectory-Origin: work-tree\n"
        )
    };
    assert_eq!(broken, format!("Edit posts by hand{}", trailers("updated")));
    let event = EventTrailers { key: posts.clone(), action: Some(UPDATED.to_owned()), id: Some(id()) };
    assert_eq!(parse(&broken).events, [event]);
    assert_eq!(parse(&broken).origin, Some(OriginTrailer::WorkTree));
    let gone = compose(
        &[],
        &MessageDetails {
            hand_edit: Some((&posts, HandEditAction::Delete, Some(id()))),
            ..MessageDetails::default()
        },
    );
    assert_eq!(gone, format!("Delete posts by hand{}", trailers("deleted")));
    let event = updated(&self::posts(), &[("name", "All".into())]);
    let message = compose(&[(id(), &event)], &about);
    assert!(
        message.starts_with("Edit posts by hand\n\nname: \"Posts\" -> \"All\"\n\nCollectory-Action: "),
        "{message}"
    );
    assert!(message.ends_with("Collectory-Origin: work-tree\n"), "{message}");
    assert_eq!(parse(&message).reason, None);
}

#[test]
fn an_edit_of_comments_alone_has_the_trailers_of_an_update_and_tells_no_change() {
    let posts = Arc::new(posts());
    let event = Event::Updated { before: Arc::clone(&posts), after: Arc::clone(&posts) };
    let message = compose(
        &[(id(), &event)],
        &MessageDetails {
            hand_edit: Some((posts.key(), HandEditAction::Edit, Some(id()))),
            ..MessageDetails::default()
        },
    );
    let trailers = format!(
        "Collectory-Action: collection.updated\nCollectory-Key: posts\nCollectory-Event: {}\nCollectory-Origin: work-tree\n",
        id()
    );
    assert_eq!(message, format!("Edit posts by hand\n\n{trailers}"));
    assert_eq!(parse(&message).reason, None);
}

#[test]
fn the_text_of_a_persons_commit_is_the_whole_message_without_trailers() {
    let read = |message| parse(message);
    let message = read(
        "Rename posts\n\nMara asked.\nTwice.\n\nAnd again: so.\n\nSigned-off-by: A <a@b>\nReviewed-by: B\n",
    );
    assert_eq!(message.text, "Rename posts\n\nMara asked.\nTwice.\n\nAnd again: so.");
    assert_eq!(message.subject, "Rename posts");
    assert_eq!(message.events, []);
    assert_eq!(read("Rename posts\n").text, "Rename posts");
    let signed =
        read("Rename posts\n\nIt is full,\n  says Mara.\nSigned-off-by: A <a@b>\nReviewed-by: B\n  and C\n");
    assert_eq!(signed.text, "Rename posts\n\nIt is full,\n  says Mara.");
    assert_eq!(
        read("Rename posts\n\nnot a trailer here\nKey: value\n").reason.as_deref(),
        Some("not a trailer here\nKey: value")
    );
    assert_eq!(read("Request-Id: 7\n").request_id, None);
    assert_eq!(read(""), Message::default());
}

#[test]
fn no_reason_is_taken_for_more_than_a_reason_by_git() {
    for reason in [
        "Collectory-Key: other",
        "Signed-off-by: x",
        "--- a",
        "---",
        "# comment",
        "Undoes 0197a6c2",
        "As it was at 9f9f9f9",
        "(cherry picked from commit 0123)",
        "x\n\nCollectory-Key: other\n",
        "x\u{2028}Signed-off-by: y\u{85}\r\nz\u{b}\u{c}\u{1c}",
        "From: Mallory <m@x>",
        "diff --git a/x b/x",
        "-",
        ">From x",
        "Collectory-Key : other",
    ] {
        let about = MessageDetails {
            reason: Some(reason),
            request_id: Some("a\nSigned-off-by: q"),
            ..MessageDetails::default()
        };
        let message = compose(&[(id(), &Event::Created(posts()))], &about);
        let (_, trailers) = message.trim_end().rsplit_once("\n\n").unwrap();
        assert_eq!(git_trailers(&message).trim_end(), trailers, "{message}");
        assert_eq!(trailers.lines().count(), 4, "{message}");
        assert_eq!(parse(&message).reason, Some(one_line(reason)), "{message}");
        assert!(message.lines().all(|line| !line.starts_with(['#', '-', '('])), "{message}");
    }
}

fn nasty() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "Collectory-Key: x",
        "Signed-off-by: y",
        "---",
        "\n",
        "\r",
        "\n\n",
        "\u{85}",
        "\u{2028}",
        "#",
        ":",
        " ",
        "a",
        "(cherry picked from commit ",
        "é",
        "\"",
        "-",
        "\u{0}",
        "\u{1f}",
        "Key",
        "\t",
        ": ",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat()), any::<String>()]
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn no_text_forges_a_line_or_a_trailer(reason in nasty(), request in nasty(), name in nasty(), member in nasty()) {
        let value = Value::Map([(member, name.as_str().into())].into());
        let before = posts();
        let event = updated(&before, &[("name", name.chars().take(900).collect::<String>().as_str().into()), ("x-\u{2028}a", value)]);
        let about = MessageDetails { reason: Some(&reason), request_id: Some(&request), ..MessageDetails::default() };
        let message = compose(&[(id(), &event)], &about);
        let parsed = parse(&message);
        prop_assert_eq!(parsed.reason.unwrap_or_default(), one_line(&reason));
        let kept: String = one_line(&request).chars().take(REQUEST_ID_CHARS_MAX).collect();
        prop_assert_eq!(parsed.request_id.unwrap_or_default(), kept.trim());
        prop_assert_eq!(parsed.events.len(), 1);
        let (_, trailers) = message.trim_end().rsplit_once("\n\n").unwrap();
        let seen = git_trailers(&message);
        prop_assert_eq!(seen.trim_end(), trailers);
        let stray = message.chars().find(|&c| (c.is_control() && c != '\n') || matches!(c, '\u{2028}' | '\u{2029}'));
        prop_assert_eq!(stray, None);
    }
}
