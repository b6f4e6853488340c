//! Queries of a history.

use crate::engine::history::follow::KnownKey;
use crate::engine::history::index::persist;
use crate::engine::history::query::filter::Bound;
use crate::engine::history::query::page::EventCursor;
use crate::engine::history::tests::*;
use crate::engine::{SyncToken, VisibleKeys, VisibleState};
use crate::store::git::testing::{CommitSpec, NewEntry};

fn small() -> (Repo, Vec<Revision>) {
    let repo = Repo::bare();
    let mut revisions = Vec::new();
    for (files, message) in [
        (vec![("posts.yaml", named("A"))], "one"),
        (vec![("pages.yaml", named("P")), ("media.yaml", "type: media\n".into())], "two"),
        (vec![("posts.yaml", named("B"))], "three"),
        (vec![("pages.yaml", String::new())], "four"),
        (vec![("posts.yaml", named("B") + "recursive: true\n")], "five"),
    ] {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        revisions.push(repo.add_commit(&files, message));
    }
    (repo, revisions)
}

fn filtered(view: &View, filter: &Filter) -> Vec<String> {
    let events = view.events(filter, &EventPageQuery::first(100)).unwrap().events;
    events.iter().map(|event| format!("{} {}", event.action.as_str(), event.key)).collect()
}

fn in_an_hour() -> std::time::Instant {
    std::time::Instant::now() + std::time::Duration::from_secs(3_600)
}

#[test]
fn pages_follow_each_other_both_ways_while_new_commits_come() {
    let (repo, _) = small();
    let view = read(&repo);
    let everything = ids(&view.events(&Filter::default(), &EventPageQuery::first(100)).unwrap());
    let first = view.events(&Filter::default(), &EventPageQuery::first(2)).unwrap();
    assert!(first.has_older && !first.has_newer);
    repo.add_commit(&[("new.yaml", &named("N"))], "six");
    let view = read(&repo);
    let at = PageStart::After(first.cursors[1].to_string().parse().unwrap());
    let second = view.events(&Filter::default(), &EventPageQuery { size: 2, at }).unwrap();
    assert_eq!(ids(&second), everything[2..4]);
    let at = PageStart::After(second.cursors[1]);
    let last = view.events(&Filter::default(), &EventPageQuery { size: 9, at }).unwrap();
    assert_eq!(ids(&last), everything[4..]);
    assert!(!last.has_older && last.has_newer);
    let back = view
        .events(&Filter::default(), &EventPageQuery { size: 2, at: PageStart::Before(last.cursors[0]) })
        .unwrap();
    assert_eq!(ids(&back), everything[2..4]);
    assert!(back.has_newer && back.has_older);
    let newest = view
        .events(&Filter::default(), &EventPageQuery { size: 9, at: PageStart::Before(first.cursors[0]) })
        .unwrap();
    assert_eq!(newest.events.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["new"]);
    assert!(!newest.has_newer);
}

#[test]
fn a_cursor_of_another_list_or_of_a_rewritten_history_is_refused() {
    let (repo, revisions) = small();
    let view = read(&repo);
    let cursor = of_key(&view, "posts", &EventPageQuery::first(1)).unwrap().cursors[0];
    let page = EventPageQuery { size: 5, at: PageStart::After(cursor) };
    assert!(of_key(&view, "posts", &page).is_ok());
    assert!(matches!(view.events(&Filter::default(), &page), Err(HistoryError::BadCursor)));
    for text in ["", "x", "-", &format!("{}-0-0-0", revisions[0]), &format!("{}-+0-00000000", revisions[0])] {
        assert!(text.parse::<EventCursor>().is_err(), "{text:?}");
    }
    repo.point("refs/heads/main", revisions[1]);
    assert!(matches!(of_key(&read(&repo), "posts", &page), Err(HistoryError::BadCursor)));
}

#[test]
fn filters_hold_all_at_once() {
    let (repo, revisions) = small();
    let view = read(&repo);
    let none = Filter::default();
    let posts = Filter { collections: vec![key("posts")], ..none.clone() };
    assert_eq!(filtered(&view, &posts), ["updated posts", "updated posts", "created posts"]);
    let created = Filter { actions: vec![Action::Created], ..posts };
    assert_eq!(filtered(&view, &created), ["created posts"]);
    let by = |actor: &str| Filter { actors: vec![actor.into()], ..none.clone() };
    assert_eq!(filtered(&view, &by("mara@example.org")).len(), 6);
    assert_eq!(filtered(&view, &by("Mara")).len(), 6);
    assert_eq!(filtered(&view, &by("mara")).len(), 0);
    let origin = |origin| Filter { origins: vec![origin], ..none.clone() };
    assert_eq!(filtered(&view, &origin(Origin::Git)).len(), 6);
    assert_eq!(filtered(&view, &origin(Origin::Api)).len(), 0);
    let bound = |at: usize| Some(Bound::Revision { asked: at.to_string(), revision: revisions[at] });
    let between = Filter { since: bound(0), until: bound(2), ..none.clone() };
    assert_eq!(filtered(&view, &between), ["updated posts", "created media", "created pages"]);
    let at = all(&view)[3].commit.at;
    let then = Filter { since: Some(Bound::Time(at)), until: Some(Bound::Time(at)), ..none };
    assert_eq!(filtered(&view, &then), ["updated posts"], "times are included");
    let never = of_key(&view, "never", &EventPageQuery::first(1));
    assert!(matches!(never, Err(HistoryError::UnknownKey(_))));
    assert_eq!(
        of_key(&view, "pages", &EventPageQuery::first(9)).unwrap().events.len(),
        2,
        "a deleted one's too"
    );
}

#[test]
fn a_time_means_the_commit_nearest_the_head_at_or_before_it() {
    let repo = Repo::bare();
    let mut made: Vec<Revision> = Vec::new();
    for (n, at) in [100, 300, 200, 400].into_iter().enumerate() {
        let text = NewEntry::File(named(&n.to_string()));
        let parents: Vec<_> = made.last().copied().into_iter().collect();
        let (parents, files) = (parents.as_slice(), &[("a.yaml", text)]);
        let who = ("x", "x@x");
        made.push(repo.make(&CommitSpec { parents, files, message: "x", author: who, committer: who, at }));
    }
    repo.point("refs/heads/main", made[3]);
    let view = read(&repo);
    let at = |text: &str| view.resolve(text).unwrap();
    assert_eq!(at("1970-01-01T00:06:40Z"), made[3]);
    assert_eq!(at("1970-01-01T00:06:39.9Z"), made[2], "though the one before is later");
    assert_eq!(at("1970-01-01T01:03:20+01:00"), made[2]);
    assert_eq!(at("1970-01-01T00:01:40Z"), made[0]);
    assert!(matches!(view.resolve("1970-01-01T00:01:39Z"), Err(HistoryError::BeforeFirst(_))));
    assert!(matches!(view.resolve("1970-13-01T00:01:39Z"), Err(HistoryError::BadRevision { .. })));
}

#[test]
fn a_commit_that_the_branch_does_not_reach_is_unknown_by_whatever_name() {
    let (repo, revisions) = small();
    repo.point("refs/heads/main", revisions[2]);
    repo.point("refs/tags/ahead", revisions[4]);
    let view = read(&repo);
    for text in [revisions[4].to_string(), revisions[4].to_string()[..9].to_owned(), "ahead".into()] {
        assert!(matches!(view.resolve(&text), Err(HistoryError::NotOnBranch(_))), "{text}");
    }
    assert_eq!(view.resolve("main").unwrap(), revisions[2]);
}

#[test]
fn parents_are_counted_from_wherever_a_name_stands_and_the_commit_that_they_lead_to_counts() {
    let (repo, revisions) = small();
    repo.point("refs/heads/main", revisions[2]);
    repo.point("refs/tags/ahead", revisions[4]);
    let view = read(&repo);
    for text in ["ahead^^".to_owned(), format!("{}~2", revisions[4]), format!("{}^", revisions[3])] {
        assert_eq!(view.resolve(&text).unwrap(), revisions[2], "{text}");
    }
    assert_eq!(view.resolve("ahead~4").unwrap(), revisions[0]);
    assert!(matches!(view.resolve("ahead~1"), Err(HistoryError::NotOnBranch(_))));
    assert!(matches!(view.resolve("ahead~5"), Err(HistoryError::UnknownRevision(_))));
}

#[test]
fn differences_are_by_collection_and_as_text_and_go_both_ways() {
    let (repo, revisions) = small();
    let view = read(&repo);
    let differences = |from: usize, to: usize| -> Vec<String> {
        let found = view.difference(revisions[from], revisions[to], &|_| true).unwrap();
        let line =
            |it: &CollectionDifference| format!("{} {} {}", it.action.as_str(), it.key, effect(&it.effect));
        found.iter().map(line).collect()
    };
    assert_eq!(
        differences(0, 2),
        ["created media type - media", "created pages type - document, name - P", "updated posts name A B"]
    );
    assert_eq!(differences(4, 3), ["updated posts recursive true -"]);
    assert_eq!(differences(2, 2), [""; 0]);
    let (from, to) = (Some(revisions[3]), Some(revisions[4]));
    assert_eq!(
        view.text_difference(from, to, &|_| true, in_an_hour()).unwrap(),
        "diff --git a/collections/posts.yaml b/collections/posts.yaml\n--- a/collections/posts.yaml\n+++ b/collections/posts.yaml\n@@ -1,3 +1,4 @@\n # kept\n type: document\n name: B\n+recursive: true\n"
    );
    assert_eq!(view.text_difference(from, to, &|it| *it == key("pages"), in_an_hour()).unwrap(), "");
}

#[test]
fn git_applies_the_text_of_a_difference() {
    let repo = Repo::new();
    let one = repo.add_commit(&[("a.yaml", "one\ntwo"), ("b.yaml", "x\n"), ("empty.yaml", "z\n")], "one");
    let two = repo.add_commit(&[("a.yaml", "two\nthree\n"), ("b.yaml", ""), ("c.yml", "new")], "two");
    let text = read(&repo).text_difference(Some(one), Some(two), &|_| true, in_an_hour()).unwrap();
    std::fs::write(repo.outside().join("patch"), text).unwrap();
    repo.git(&["read-tree", &one.to_string()]);
    repo.git(&["apply", "--cached", "../patch"]);
    assert_eq!(repo.git(&["write-tree"]), repo.git(&["rev-parse", &format!("{two}^{{tree}}")]));
}

#[test]
fn each_attribute_is_blamed_on_the_event_that_gave_it_its_value() {
    let (repo, revisions) = small();
    let blamed = |key_text: &str| -> Vec<(String, Revision)> {
        let blames = read(&repo).blame(&key(key_text), None, &|_| true).unwrap();
        blames.into_iter().map(|it| (it.attribute, it.event.commit.revision)).collect()
    };
    let expected = [("type", 0), ("name", 2), ("recursive", 4)];
    assert_eq!(blamed("posts"), expected.map(|(name, at)| (name.to_owned(), revisions[at])));
    assert!(
        matches!(read(&repo).blame(&key("pages"), None, &|_| true), Err(HistoryError::UnknownKey(_))),
        "it is gone"
    );
    repo.add_commit(&[("posts.yaml", "broken")], "six");
    assert_eq!(blamed("posts").len(), 3, "the last good version is blamed");
    repo.add_commit(&[("posts.yaml", "")], "seven");
    let again = repo.add_commit(&[("posts.yaml", &named("B"))], "eight");
    assert_eq!(blamed("posts"), [("type".to_owned(), again), ("name".to_owned(), again)], "a new life");
}

/// Returns the changes since a token, for a reader that may see all collections.
fn since(view: &View, token: &SyncToken) -> Result<Vec<(String, bool)>, HistoryError> {
    let served = view.snapshot_as_of(view.head().unwrap()).unwrap();
    let changes =
        view.changes_since(token, &VisibleState::of(&served, VisibleKeys::All), VisibleKeys::All)?;
    Ok(changes.into_iter().map(|it| (it.key.to_string(), it.now.is_none())).collect())
}

#[test]
fn a_revision_leads_to_what_commits_have_touched_since() {
    let (repo, revisions) = small();
    let view = read(&repo);
    let since = |token: &str| since(&view, &token.parse().unwrap()).unwrap();
    let [media, pages, posts] =
        [("media", false), ("pages", true), ("posts", false)].map(|(key, is_gone)| (key.to_owned(), is_gone));
    assert_eq!(since(&"0".repeat(40)), [media, pages, posts.clone()]);
    assert_eq!(since(&revisions[3].to_string()), [posts]);
    assert_eq!(since(&revisions[4].to_string()), []);
    for text in ["", "x", "~", &format!("{}~", "0".repeat(40))] {
        assert!(matches!(text.parse::<SyncToken>(), Err(HistoryError::BadToken)), "{text:?}");
    }
}

#[test]
fn a_token_leads_to_what_differs_or_to_nothing_at_all() {
    let (repo, revisions) = small();
    let tokens: Vec<SyncToken> = revisions
        .iter()
        .map(|revision| {
            let then = read(&repo).snapshot_as_of(*revision).unwrap();
            VisibleState::of(&then, VisibleKeys::All).token
        })
        .collect();
    for token in &tokens {
        assert_eq!(token.to_string().parse::<SyncToken>().unwrap(), *token);
        assert!(since(&read(&repo), token).is_ok(), "{token}");
    }
    let forged = tokens[2].to_string().replace(&revisions[2].to_string(), &revisions[3].to_string());
    let gone = |token: &SyncToken| assert!(matches!(since(&read(&repo), token), Err(HistoryError::Gone)));
    gone(&forged.parse().unwrap());
    repo.point("refs/heads/main", revisions[1]);
    gone(&tokens[4]);
}

#[test]
fn a_token_of_a_commit_that_came_in_by_a_merge_leads_on() {
    let repo = Repo::bare();
    let root = repo.add_commit(&[("posts.yaml", &named("A"))], "root");
    let ours = repo.add_commit(&[("posts.yaml", &named("B"))], "ours");
    let token = VisibleState::of(&read(&repo).snapshot_as_of(ours).unwrap(), VisibleKeys::All).token;
    repo.point("refs/heads/main", root);
    let theirs = repo.add_commit(&[("pages.yaml", &named("P"))], "theirs");
    let (parents, files) = ([theirs, ours], [("posts.yaml", NewEntry::File(named("B")))]);
    let (message, at) = ("theirs takes ours in", 1_800_000_000);
    let (parents, files) = (parents.as_slice(), files.as_slice());
    let merge = repo.make(&CommitSpec { parents, files, message, author: MARA, committer: MARA, at });
    repo.point("refs/heads/main", merge);
    assert_eq!(
        since(&read(&repo), &token).unwrap(),
        [("pages".to_owned(), false), ("posts".to_owned(), false)]
    );
}

#[test]
fn verification_finds_what_messages_say_wrongly() {
    let repo = Repo::bare();
    let mut id = uuid::Uuid::nil().as_u128();
    let mut trailer = |action: &str, key: &str| {
        id += 1;
        let id = uuid::Uuid::from_u128(id);
        format!(
            "x\n\nb\n\nCollectory-Action: collection.{action}\nCollectory-Key: {key}\nCollectory-Event: {id}\n"
        )
    };
    let mut head = None;
    let mut commit = |text: &str, message: &str, committer: (&str, &str)| {
        let parents: Vec<_> = head.into_iter().collect();
        let (parents, files) = (parents.as_slice(), &[("posts.yaml", NewEntry::File(text.to_owned()))]);
        head = Some(repo.make(&CommitSpec { parents, files, message, author: MARA, committer, at: 1 }));
        repo.point("refs/heads/main", head.unwrap());
    };
    commit(&named("A"), &trailer("created", "posts"), SERVICE);
    commit(&named("B"), "by hand", MARA);
    commit(&named("C"), &trailer("updated", "posts"), MARA);
    commit(&named("D"), &trailer("created", "posts"), SERVICE);
    commit(&named("E"), &trailer("updated", "pages"), SERVICE);
    commit(&named("F"), "nothing said", SERVICE);
    let view = read(&repo);
    let mut found = Vec::new();
    view.verify(None, None, &Rules::default(), &mut |verdict| {
        let faults: Vec<_> = verdict.disagreements.iter().map(ToString::to_string).collect();
        found.push((verdict.maker, faults.join("; ")));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let service = CommitOrigin::Service;
    assert_eq!(
        found,
        [
            (service, String::new()),
            (CommitOrigin::Person, String::new()),
            (CommitOrigin::Person, "it has the service's trailers, but mara@example.org committed it; if that is the service, give \
                 --committer-email mara@example.org"
                    .into()),
            (service, "its trailers say `collection.created` of `posts`, which was updated".into()),
            (
                service,
                "its trailers name `pages`, which it did not touch; it touched `posts`, which its trailers do not name".into()
            ),
            (service, "the service committed it without trailers".into()),
        ]
    );
}

#[test]
fn a_key_that_the_catalog_has_is_not_kept_a_second_time() {
    let (repo, _) = small();
    let catalog = key("posts");
    let known = catalog.clone();
    let known_key: KnownKey = Arc::new(move |text| (text == "posts").then(|| known.clone()));
    let options = Options { known_key, ..Options::new("collections") };
    let print = persist::fingerprint("collections", &options.committers);
    let view = History::read(repo.archive(), &options).unwrap();
    let is_shared = |index: &Index| {
        let number = index.find_key("posts").unwrap();
        std::ptr::eq(index.key(number).as_str(), catalog.as_str())
    };
    assert!(is_shared(&view.index), "as it is read from the commits");
    assert!(view.knows(&key("pages")), "a deleted one's text is the history's own");
    let again = persist::read(&persist::write(&view.index, &print), &print, &|it| view.shared.key(it));
    assert!(is_shared(&again.unwrap()), "and from the kept index");
}

#[test]
fn the_index_is_kept_beside_the_repository_and_made_anew_when_it_does_not_fit() {
    let (repo, revisions) = small();
    let view = read(&repo);
    let print = persist::fingerprint("collections", &view.shared.options.committers);
    let bytes = persist::write(&view.index, &print);
    let kept = |bytes: &[u8], print: &[u8; 32]| persist::read(bytes, print, &|text| Key::parse(text).ok());
    let again = kept(&bytes, &print).unwrap();
    let rows = |index: &Index| {
        let events: Vec<_> = (0..index.events_len()).map(|event| *index.event(event)).collect();
        (index.commits().copied().collect::<Vec<_>>(), events)
    };
    assert_eq!(rows(&again), rows(&view.index));
    assert!(kept(&bytes, &persist::fingerprint("other", &[])).is_none());
    for end in 0..bytes.len() {
        assert!(kept(&bytes[..end], &print).is_none());
    }
    repo.archive().write_cached("history-index", &bytes).unwrap();
    repo.add_commit(&[("posts.yaml", &named("Z"))], "six");
    assert_eq!(events(&read(&repo))[0], "updated posts (name B Z, recursive true -)");
    repo.point("refs/heads/main", revisions[2]);
    assert_eq!(read(&repo).head(), Some(revisions[2]), "a rewritten branch is followed");
    let mut wrong = bytes;
    wrong[100] ^= 1;
    repo.archive().write_cached("history-index", &wrong).unwrap();
    assert_eq!(read(&repo).commits_len(), 3);
}

#[test]
fn a_total_counts_what_the_pages_show_whatever_is_asked_for() {
    let repo = Repo::bare();
    let (mut made, who) = (Vec::new(), [("Mara", "m@x"), ("Noor", "n@x")]);
    for (n, at) in [100, 300, 200, 400, 400, 50].into_iter().enumerate() {
        let parents: Vec<_> = made.last().copied().into_iter().collect();
        let name = named(&format!("N{n}"));
        let files = [
            ("a.yaml", NewEntry::File(name.clone())),
            ("b.yaml", NewEntry::File(name)),
            ("README", NewEntry::Link),
        ];
        let (parents, files) = (parents.as_slice(), &files[..=n % 3]);
        let author = who[n % 2];
        made.push(repo.make(&CommitSpec { parents, files, message: "x", author, committer: author, at }));
    }
    repo.point("refs/heads/main", made[5]);
    let view = read(&repo);
    let time =
        |at: i64, ms| Some(Bound::Time(chrono::DateTime::from_timestamp_millis(at * 1000 + ms).unwrap()));
    let revision = |at: usize| Some(Bound::Revision { asked: at.to_string(), revision: made[at] });
    let bounds = [None, time(100, 0), time(200, 1), time(300, -1), time(400, 0), revision(1), revision(4)];
    let actors = [None, Some("Mara"), Some("nobody")];
    let keys = [None, Some(key("a"))];
    for (since, until) in bounds.iter().flat_map(|since| bounds.iter().map(move |until| (since, until))) {
        for (actor, collection) in actors.iter().flat_map(|actor| keys.iter().map(move |key| (actor, key))) {
            for action in [None, Some(Action::Created)] {
                let filter = Filter {
                    collections: collection.iter().cloned().collect(),
                    actors: actor.map(str::to_owned).into_iter().collect(),
                    actions: action.into_iter().collect(),
                    since: since.clone(),
                    until: until.clone(),
                    ..Filter::default()
                };
                let (page, total) = view.events_and_total(&filter, &EventPageQuery::first(3)).unwrap();
                let fits = |event: &&Arc<EventRecord>| {
                    let at = |revision| made.iter().position(|it| *it == revision).unwrap();
                    let after = |bound: &Option<Bound>| match bound {
                        None => (false, false),
                        Some(Bound::Time(time)) => (event.commit.at < *time, event.commit.at > *time),
                        Some(Bound::Revision { revision, .. }) => {
                            let at = (at(event.commit.revision), at(*revision));
                            (at.0 <= at.1, at.0 > at.1)
                        }
                    };
                    !after(since).0
                        && !after(until).1
                        && actor.is_none_or(|actor| event.commit.actor.name() == actor)
                        && collection.as_ref().is_none_or(|key| event.key == *key)
                        && action.is_none_or(|action| event.action == action)
                };
                let expected = all(&view).iter().filter(fits).count();
                assert_eq!(total, expected, "{filter:?}");
                assert_eq!((page.events.len(), page.has_older), (total.min(3), total > 3), "{filter:?}");
            }
        }
    }
}

#[test]
fn a_question_ends_when_nobody_waits_for_its_answer() {
    let repo = Repo::new();
    let first = repo.add_commit(&[("posts.yaml", &named("A"))], "one");
    let second = repo.add_commit(&[("posts.yaml", &named("B"))], "two");
    let asker = QueryClient::default();
    let view = read(&repo).asked_by(asker.clone());
    view.difference(first, second, &|_| true).unwrap();
    asker.leave();
    let view = read(&repo).asked_by(asker);
    let names = Filter { attributes: vec!["name".into()], ..Filter::default() };
    assert!(matches!(view.as_of(first), Err(HistoryError::Left)));
    assert!(matches!(view.difference(first, second, &|_| true), Err(HistoryError::Left)));
    assert!(matches!(view.blame(&key("posts"), None, &|_| true), Err(HistoryError::Left)));
    assert!(matches!(view.events(&names, &EventPageQuery::first(9)), Err(HistoryError::Left)));
    let text = view.text_difference(Some(first), Some(second), &|_| true, in_an_hour());
    assert!(matches!(text, Err(HistoryError::Left)));
}
