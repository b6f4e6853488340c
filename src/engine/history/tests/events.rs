//! Which events a history has.

use crate::engine::history::tests::*;
use crate::store::git::testing::{CommitSpec, NewEntry};

const ID: &str = "0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e";

fn trailers(action: &str, key: &str) -> String {
    format!(
        "Update it\n\nSpring clean-up\n\nname: 1 -> 2\n\nCollectory-Action: collection.{action}\nCollectory-Key: {key}\n\
         Collectory-Event: {ID}\nRequest-Id: r1\n"
    )
}

fn on(repo: &Repo, files: &[(&str, NewEntry)], message: &str, committer: (&str, &str)) -> Revision {
    let parents: Vec<_> = repo.archive().head().unwrap().into_iter().collect();
    let parents = parents.as_slice();
    let made = repo.make(&CommitSpec { parents, files, message, author: MARA, committer, at: 1_800_000_000 });
    repo.point("refs/heads/main", made);
    made
}

fn put(text: &str) -> NewEntry {
    NewEntry::File(text.to_owned())
}

#[test]
fn a_collections_life_is_told_newest_first() {
    let repo = Repo::bare();
    repo.add_commit(&[("posts.yaml", &named("A")), ("README.md", "x")], "one");
    repo.add_commit(&[("README.md", "y")], "nothing of ours");
    repo.add_commit(&[("posts.yaml", &named("B"))], "two");
    repo.add_commit(&[("posts.yaml", "type: document\nname: B\n")], "no comment");
    repo.add_commit(&[("posts.yaml", ""), ("posts.yml", "type: document\nname: B\n")], "renamed");
    repo.add_commit(&[("posts.yml", "type: document\nname: C\nname: D\n")], "broken");
    repo.add_commit(&[("posts.yml", &named("E"))], "mended");
    repo.add_commit(&[("posts.yml", "")], "gone");
    assert_eq!(
        events(&read(&repo)),
        [
            "deleted posts (type document -, name E -)",
            "updated posts (name B E)",
            "updated posts (! collections/posts.yml:3:1)",
            "updated posts ()",
            "updated posts ()",
            "updated posts (name A B)",
            "created posts (type - document, name - A)",
        ]
    );
}

#[test]
fn of_two_files_of_a_key_only_the_one_that_counts_has_events() {
    let repo = Repo::bare();
    repo.add_commit(&[("posts.yaml", &named("A"))], "one");
    repo.add_commit(&[("posts.yml", &named("B"))], "beside it");
    repo.add_commit(&[("posts.yml", &named("C"))], "beside it");
    let doubled = repo.archive().head().unwrap().unwrap();
    repo.add_commit(&[("posts.yaml", "")], "the other counts");
    repo.add_commit(&[("posts.yml", "")], "gone");
    let view = read(&repo);
    let expected = [
        "deleted posts (type document -, name C -)",
        "updated posts (name A C)",
        "created posts (type - document, name - A)",
    ];
    assert_eq!(events(&view), expected);
    let past = view.as_of(doubled).unwrap();
    assert_eq!(past.entries[&key("posts")].problem.as_ref().unwrap().path, "collections/posts.yml");
}

#[test]
fn a_file_that_is_broken_or_special_from_the_start_has_no_values_to_lose() {
    let repo = Repo::bare();
    on(&repo, &[("posts.yaml", put("name: x\n")), ("pages.yaml", NewEntry::Link)], "one", MARA);
    on(&repo, &[("posts.yaml", put(&named("A"))), ("pages.yaml", NewEntry::Nothing)], "two", MARA);
    assert_eq!(
        events(&read(&repo)),
        [
            "deleted pages ()",
            "updated posts (type - document, name - A)",
            "created pages (! collections/pages.yaml:1:1)",
            "created posts (! collections/posts.yaml:1:1)",
        ]
    );
}

#[test]
fn trailers_of_the_service_add_the_id_the_reason_and_the_origin() {
    let repo = Repo::bare();
    on(&repo, &[("posts.yaml", put(&named("A")))], &trailers("created", "posts"), SERVICE);
    let view = read(&repo);
    let event = view.event(ID.parse().unwrap()).unwrap();
    assert_eq!((event.commit.origin, event.commit.actor.name()), (Origin::Api, "Mara"));
    assert_eq!(
        (event.commit.message.reason.as_deref(), event.commit.message.request_id.as_deref()),
        (Some("Spring clean-up"), Some("r1"))
    );
    assert_eq!(event.commit.at.timestamp(), 1_800_000_000);
}

#[test]
fn forged_trailers_change_neither_action_nor_key_nor_origin() {
    let repo = Repo::bare();
    on(&repo, &[("posts.yaml", put(&named("A")))], &trailers("deleted", "pages"), MARA);
    let view = read(&repo);
    let event = &all(&view)[0];
    assert_eq!(line(event), "created posts (type - document, name - A)");
    assert_eq!(event.commit.origin, Origin::Git);
    assert_ne!(event.id.to_string(), ID);
    assert_eq!(event.commit.message.reason.as_deref(), Some("Update it\n\nSpring clean-up\n\nname: 1 -> 2"));
}

#[test]
fn a_commit_that_was_picked_twice_has_two_events_of_two_ids() {
    let repo = Repo::bare();
    on(&repo, &[("posts.yaml", put(&named("A")))], &trailers("created", "posts"), SERVICE);
    on(&repo, &[("posts.yaml", NewEntry::Nothing)], "oh", MARA);
    let again = on(&repo, &[("posts.yaml", put(&named("A")))], &trailers("created", "posts"), MARA);
    let view = read(&repo);
    let events = all(&view);
    assert_eq!(events[0].id.to_string(), ID);
    assert_eq!((events[2].commit.revision, events[2].commit.origin), (again, Origin::Git));
    assert_eq!(view.event(events[2].id).unwrap().commit.revision, again);
    assert_eq!(
        ids(&of_key(&read(&repo), "posts", &EventPageQuery::first(9)).unwrap())[0],
        events[2].id,
        "it is stable"
    );
}

#[test]
fn a_hand_edit_that_the_service_committed_says_so() {
    let repo = Repo::bare();
    let message = "Edit posts by hand\n\nCollectory-Key: posts\nCollectory-Origin: work-tree\n";
    on(&repo, &[("posts.yaml", put("broken"))], message, SERVICE);
    assert_eq!(all(&read(&repo))[0].commit.origin, Origin::WorkTree);
}

#[test]
fn a_merge_is_compared_with_its_first_parent_and_events_of_a_commit_come_by_key() {
    let repo = Repo::bare();
    let root = repo.add_commit(&[("posts.yaml", &named("A"))], "root");
    let side = |name: &str| {
        let (parents, files) = ([root], [(name, put(&named("S")))]);
        let (parents, files) = (parents.as_slice(), files.as_slice());
        repo.make(&CommitSpec { parents, files, message: "side", author: MARA, committer: MARA, at: 1 })
    };
    let sides = [side("b.yaml"), side("B.yaml"), side("a.yaml")];
    let main = repo.add_commit(&[("posts.yaml", &named("B"))], "main");
    let parents = [main, sides[0], sides[1], sides[2]];
    let files = [("b.yaml", put(&named("S"))), ("B.yaml", put(&named("S"))), ("a.yaml", put(&named("S")))];
    let (parents, files) = (parents.as_slice(), files.as_slice());
    let octopus =
        repo.make(&CommitSpec { parents, files, message: "octopus", author: MARA, committer: MARA, at: 5 });
    repo.point("refs/heads/main", octopus);
    let view = read(&repo);
    let keys: Vec<_> = view.events_of(octopus).unwrap().iter().map(|it| it.key.to_string()).collect();
    assert_eq!(keys, ["B", "a", "b"]);
    let positions: Vec<_> = view.events_of(octopus).unwrap().iter().map(|it| it.position.seen).collect();
    assert_eq!(positions, [Some(1), Some(2), Some(3)]);
    assert_eq!(view.commits_len(), 3);
    let past = view.as_of(sides[0]).unwrap();
    assert_eq!(
        past.entries.keys().map(Key::as_str).collect::<Vec<_>>(),
        ["b", "posts"],
        "a side is shown too"
    );
    let merged = view.as_of(octopus).unwrap();
    assert!(!merged.entries.contains_key(&key("b")), "keys that differ in case only: the first is served");
    assert!(merged.problems.contains_key("collections/b.yaml"));
}

#[test]
fn a_version_that_is_broken_on_a_side_branch_shows_the_last_good_one_there() {
    let repo = Repo::bare();
    let root = repo.add_commit(&[("posts.yaml", &named("A"))], "root");
    let make = |parents: &[Revision], text: &str| {
        let files = [("posts.yaml", put(text))];
        repo.make(&CommitSpec { parents, files: &files, message: "x", author: MARA, committer: MARA, at: 9 })
    };
    let good = make(&[root], &named("side"));
    let broken = make(&[good], "name: [");
    let still = make(&[broken], "name: [[");
    let main = repo.add_commit(&[("posts.yaml", &named("main"))], "main");
    let merge = make(&[main, still], &named("main"));
    repo.point("refs/heads/main", merge);
    let entry = read(&repo).entry_as_of(still, &key("posts")).unwrap();
    assert!(entry.stale);
    assert_eq!(entry.collection.get(&crate::domain::Attribute::Name), Some(&"side".into()));
}
