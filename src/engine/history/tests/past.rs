//! What was served at a revision: one collection, and the list.

use crate::engine::history::tests::counting::Counting;
use crate::engine::history::tests::*;

fn counted(repo: &Repo) -> (Arc<Counting>, View) {
    let archive = Counting::new(repo.archive());
    let view = History::read(Arc::<Counting>::clone(&archive), &Options::new("collections")).unwrap();
    archive.take();
    (archive, view)
}

#[test]
fn one_collection_as_it_was_costs_one_folder_and_one_content_however_many_stand_beside_it() {
    let repo = Repo::bare();
    let files: Vec<_> = (0..40).map(|n| (format!("k{n}.yaml"), named(&format!("N{n}")))).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let then = repo.add_commit(&files, "all of them");
    repo.add_commit(&[("k7.yaml", &named("later"))], "one");
    let (archive, view) = counted(&repo);
    let entry = view.entry_as_of(then, &key("k7")).unwrap();
    assert_eq!(entry.collection.get(&crate::domain::Attribute::Name), Some(&"N7".into()));
    assert_eq!(archive.take(), (1, 1));
    assert!(matches!(view.entry_as_of(then, &key("k70")), Err(HistoryError::UnknownKey(_))));
    assert_eq!(archive.take(), (1, 0));
    view.as_of(then).unwrap();
    archive.take();
    view.entry_as_of(then, &key("k8")).unwrap();
    assert_eq!(archive.take(), (0, 0), "the list that was asked for has it");
}

#[test]
fn one_collection_as_it_was_is_what_the_list_of_that_revision_shows() {
    let repo = Repo::bare();
    repo.add_commit(
        &[("broken.yaml", &named("good")), ("never.yaml", "name: ["), ("Kind.yml", &named("K"))],
        "1",
    );
    repo.add_commit(
        &[("broken.yaml", "name: ["), ("twins.yaml", &named("T")), ("twins.yml", &named("U"))],
        "2",
    );
    repo.add_commit(&[("A.yaml", "name: ["), ("a.yaml", &named("small")), ("b.yml", &named("small"))], "3");
    repo.add_commit(&[("B.yaml", &named("large")), ("Kind.yml", "type: media\n")], "4");
    repo.add_commit(&[("A.yaml", &named("large")), ("twins.yaml", "")], "5");
    let keys = ["broken", "never", "Kind", "kind", "twins", "A", "a", "B", "b", "posts"].map(key);
    for revision in repo.first_parents() {
        let list = read(&repo).snapshot_as_of(revision).unwrap();
        let view = read(&repo);
        for key in &keys {
            let one = view.entry_as_of(revision, key);
            let shown = |entry: &crate::engine::Entry| {
                let problem = entry.problem.as_ref().map(|problem| format!("{problem:?}"));
                (Arc::clone(&entry.collection), entry.file(), entry.tag(), entry.stale, problem)
            };
            let expected = list.get(key.as_str()).map(|entry| shown(entry));
            assert_eq!(one.as_ref().ok().map(|entry| shown(entry)), expected, "{key} at {revision}");
            assert!(one.is_ok() || matches!(one, Err(HistoryError::UnknownKey(_))));
        }
    }
}
