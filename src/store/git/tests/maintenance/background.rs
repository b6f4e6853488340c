//! Flushes, packs and other maintenance that clients should not notice.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use crate::random::cases;
use crate::store::git::disk::failpoint::Failpoint;
use crate::store::git::packs::store::PACKS_MAX;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};
use crate::store::{BlobId, Draft, Journal as _, TreeEntry};

#[test]
fn a_group_costs_the_same_flushes_however_long_it_is() {
    for (repo, expected) in [(Repo::bare(), 5), (Repo::new(), 6)] {
        let mut journal = repo.open();
        assert_eq!(flushes_of_groups(&mut journal), [expected, expected]);
    }
}

#[test]
fn small_packs_are_merged_and_nothing_is_lost() {
    let repo = Repo::new();
    let mut journal = repo.open();
    let mut most = 0;
    for i in 0..2 * PACKS_MAX {
        append(
            &mut journal,
            &[set(&format!("c{}.yaml", i % 40), &format!("{i}\n")), set("a.yaml", &format!("{i}\n"))],
        );
        run_maintenance(&mut journal);
        most = most.max(repo.packs().len());
    }
    assert!(most <= PACKS_MAX, "{most} packs");
    repo.check();
    let head = journal.head().unwrap();
    assert_eq!(files_at(&mut journal, head)["a.yaml"], format!("{}\n", 2 * PACKS_MAX - 1));
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]).trim(), (4 * PACKS_MAX).to_string());
    drop(journal);
    append(&mut repo.open(), &[set("a.yaml", "reopened\n")]);
    repo.check();
}

#[test]
fn of_a_large_folder_s_trees_a_merged_pack_has_one_whole() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let names: Vec<String> = (0..300).map(|number| format!("collection-{number:03}.yaml")).collect();
    append(&mut journal, &names.iter().map(|name| set(name, "first\n")).collect::<Vec<_>>());
    // Merged packs are merged again.
    for i in 0..3 * PACKS_MAX {
        append(&mut journal, &[set(&names[i * 7 % 300], &format!("{i}\n")), set(&names[i], "again\n")]);
        run_maintenance(&mut journal);
    }
    let packs = repo.packs();
    assert!(packs.len() <= PACKS_MAX, "{} packs", packs.len());
    let largest = packs.iter().max_by_key(|pack| fs::metadata(pack).unwrap().len()).unwrap();
    let listed = repo.git(&["verify-pack", "-v", largest.to_str().unwrap()]);
    // The fields are id, kind, size, packed size, offset; a delta also has a depth and a base.
    let trees = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let trees: Vec<_> = trees.filter(|fields| fields.get(1) == Some(&"tree")).collect();
    let is_large = |fields: &Vec<&str>| fields.len() == 5 && fields[2].parse::<usize>().unwrap() > 9_000;
    assert!(trees.len() > 200, "{} trees", trees.len());
    assert_eq!(trees.iter().filter(|fields| is_large(fields)).count(), 1, "{listed}");
    repo.check();
}

#[test]
fn packs_are_left_alone_while_git_collects_and_when_that_is_wished() {
    for wished in [true, false] {
        let repo = Repo::bare();
        let mut journal = GitJournal::open(Options { maintain: wished, ..repo.options() }).unwrap();
        let collecting = repo.path().join("gc.pid");
        fs::write(&collecting, "1 elsewhere").unwrap();
        for i in 0..=PACKS_MAX {
            append(&mut journal, &[set("a.yaml", &format!("{i}\n"))]);
        }
        run_maintenance(&mut journal);
        let indexed = |pack: &PathBuf| pack.with_extension("idx").exists();
        assert_eq!(repo.packs().iter().filter(|pack| indexed(pack)).count(), PACKS_MAX + 1);
        fs::remove_file(&collecting).unwrap();
        run_maintenance(&mut journal);
        drop(journal);
        assert_eq!(repo.packs().len(), if wished { 1 } else { PACKS_MAX + 1 });
    }
}

#[test]
fn packs_that_are_not_ours_or_are_counted_on_are_left_alone() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "kept\n")]);
    let kept = repo.packs().pop().unwrap();
    fs::write(kept.with_extension("keep"), "").unwrap();
    append(&mut journal, &[set("a.yaml", "indexed\n")]);
    repo.git(&["multi-pack-index", "write"]);
    let indexed = repo.packs();
    for i in 0..=PACKS_MAX {
        append(&mut journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    run_maintenance(&mut journal);
    assert!(repo.packs().len() < PACKS_MAX);
    assert!(indexed.iter().all(|pack| pack.exists()));
    repo.check();
}

#[test]
fn a_gc_between_the_objects_and_the_branch_removes_nothing_that_is_needed() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let stop = repo.stop_at(Failpoint::MoveBranch);
    let gc = repo.meanwhile({
        let path = repo.path().to_owned();
        move || drop(git_in(&path, &["gc", "-q", "--prune=now"]))
    });
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n")]).is_err());
    assert_eq!(repo.packs().len(), 2, "kept while the branch was about to move");
    drop((stop, gc));
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.check();
}

#[test]
fn a_gc_by_hand_does_no_harm() {
    let repo = Repo::new();
    let mut journal = repo.open();
    for i in 0..5 {
        append(&mut journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    let head = journal.head().unwrap();
    assert_eq!(files_at(&mut journal, head)["a.yaml"], "4\n");
    repo.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(repo.packs().len(), 1);
    assert_eq!(files_at(&mut journal, head)["a.yaml"], "4\n");
    append(&mut journal, &[set("a.yaml", "5\n")]);
    for _ in 0..=PACKS_MAX {
        append(&mut journal, &[set("a.yaml", "x\n")]);
        run_maintenance(&mut journal);
    }
    repo.check();
}

#[test]
fn what_a_kill_left_is_removed_at_the_next_start() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let index = journal.checkout.lock_index(Duration::ZERO).unwrap().unwrap();
    std::mem::forget(index);
    drop(journal);
    let draft = repo.path().join(".git/objects/pack/collectory-new-pack");
    fs::write(&draft, "half a pack").unwrap();
    let mark = repo.packs().pop().unwrap().with_extension("keep");
    assert!(!mark.exists());
    fs::write(&mark, "collectory\n").unwrap();
    repo.git_fails(&["add", "-A"]);
    let mut journal = repo.open();
    assert!(!draft.exists() && !mark.exists());
    repo.git(&["add", "-A"]);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_read_only_disk_is_told_and_forgotten_when_it_is_over() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    // Root may write anywhere, so the folder is moved away instead of being made read-only.
    let (packs, aside) = (repo.path().join("objects/pack"), repo.path().join("aside"));
    fs::rename(&packs, &aside).unwrap();
    fs::write(&packs, "").unwrap();
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n")]).is_err());
    fs::remove_file(&packs).unwrap();
    fs::rename(&aside, &packs).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.check();
}

#[test]
fn an_object_that_is_missing_is_an_error_and_not_an_empty_folder() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let head = journal.head().unwrap();
    drop(journal);
    let pack = repo.packs().pop().unwrap();
    let aside = repo.path().join("aside.pack");
    fs::rename(&pack, &aside).unwrap();
    assert!(crate::store::git::GitJournal::open(repo.options()).is_err());
    fs::rename(&aside, &pack).unwrap();
    let mut journal = repo.open();
    fs::rename(&pack, &aside).unwrap();
    journal.reader.objects.clear_caches();
    assert!(journal.commits().changes(None, head).is_err());
    fs::rename(&aside, &pack).unwrap();
    assert_eq!(journal.commits().changes(None, head).unwrap().len(), 1);
}

#[test]
fn many_contents_are_read_each_once() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let names: Vec<_> = (0..2_000).map(|i| (format!("c{i:04}.yaml"), format!("{i}\n"))).collect();
    let files: Vec<_> = names.iter().map(|(name, text)| (name.as_str(), Some(text.as_str()))).collect();
    append(&mut journal, &[draft(&files)]);
    let head = journal.head().unwrap();
    let changes = journal.commits().changes(None, head).unwrap();
    let blob = |change: &crate::store::FileChange| match change.after {
        Some(TreeEntry::File(blob)) => blob,
        other => panic!("{other:?}"),
    };
    let blobs: Vec<BlobId> = changes.iter().map(blob).collect();
    let sum = AtomicUsize::new(0);
    journal
        .commits()
        .contents(&blobs, &|index, content| {
            assert_eq!(content.unwrap(), format!("{index}\n").as_bytes());
            sum.fetch_add(index, Ordering::Relaxed);
        })
        .unwrap();
    assert_eq!(sum.into_inner(), (0..2_000).sum::<usize>());
    repo.check();
}

#[test]
fn history_is_walked_along_first_parents() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "1\n"), set("b.yaml", "1\n")]);
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit(&[("c.yaml", "side\n")]);
    let side = repo.head();
    repo.git(&["checkout", "-q", "main"]);
    append(&mut journal, &[remove("a.yaml")]);
    let fork = journal.head().unwrap().unwrap();
    repo.git(&["merge", "-q", "-m", "Merge side", "side"]);
    let head = journal.head().unwrap().unwrap();
    let mut seen = Vec::new();
    journal
        .commits()
        .walk(head, &mut |commit, changes| {
            let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
            seen.push(format!("{}: {}", commit.message.lines().next().unwrap(), names.join(" ")));
            true
        })
        .unwrap();
    assert_eq!(
        seen,
        ["Merge side: c.yaml", "Change a.yaml: a.yaml", "Change b.yaml: b.yaml", "Change a.yaml: a.yaml"]
    );
    assert!(journal.commits().descends(head, side).unwrap());
    assert!(journal.commits().descends(head, head).unwrap());
    assert!(!journal.commits().descends(fork, side).unwrap());
    assert!(!journal.commits().descends(side, fork).unwrap());
    assert!(!journal.commits().descends(fork, head).unwrap());
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Vec<(u8, Option<u8>)>>),
    Kill(Vec<Vec<(u8, Option<u8>)>>),
    ByHand(u8, u8),
    Tend,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let files = || prop::collection::vec((0..6_u8, prop::option::weighted(0.8, any::<u8>())), 1..4);
    let group = move || prop::collection::vec(files(), 1..6);
    let step = prop_oneof![
        6 => group().prop_map(Step::Append),
        1 => group().prop_map(Step::Kill),
        1 => (0..6_u8, any::<u8>()).prop_map(|(name, byte)| Step::ByHand(name, byte)),
        1 => Just(Step::Tend),
    ];
    prop::collection::vec(step, 1..8)
}

fn drafts(group: &[Vec<(u8, Option<u8>)>], model: &mut BTreeMap<String, String>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for files in group {
        let mut texts = BTreeMap::new();
        for (name, byte) in files {
            texts.insert(format!("c{name}.yaml"), byte.map(|byte| format!("{byte}\n")));
        }
        for (name, text) in &texts {
            match text {
                Some(text) => drop(model.insert(name.clone(), text.clone())),
                None => drop(model.remove(name)),
            }
        }
        let files: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_deref())).collect();
        drafts.push(draft(&files));
    }
    drafts
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn whatever_happens_head_files_and_index_are_what_was_written(steps in steps()) {
        let repo = Repo::new();
        let mut journal = repo.open();
        journal.catch_up().unwrap();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Append(group) => drop(append(&mut journal, &drafts(&group, &mut model))),
                Step::Kill(group) => {
                    let stop = repo.stop_at(Failpoint::UpdateWorkTree);
                    prop_assert!(try_append(&mut journal, &drafts(&group, &mut model)).is_err());
                    drop((journal, stop));
                    journal = repo.open();
                    journal.catch_up().unwrap();
                }
                Step::ByHand(name, byte) => {
                    let (name, text) = (format!("c{name}.yaml"), format!("{byte} by hand\n"));
                    if model.insert(name.clone(), text.clone()) != Some(text.clone()) {
                        repo.commit(&[(&name, &text)]);
                    }
                }
                Step::Tend => run_maintenance(&mut journal),
            }
            let head = journal.head().unwrap();
            prop_assert_eq!(&files_at(&mut journal, head), &model);
            prop_assert_eq!(edits(&mut journal), []);
            prop_assert_eq!(repo.status(), "");
        }
        repo.check();
    }
}
