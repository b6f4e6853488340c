//! Merging of packs: killed at any moment, and alongside a person's `git gc`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::store::git::disk::failpoint::{Failpoint, Hook};
use crate::store::git::maintenance::packing::merge_packs::merge_small;
use crate::store::git::packs::store::PACKS_MAX;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};

/// A bare repository with more unmerged packs than are left alone.
fn crowded() -> (Repo, GitJournal) {
    let repo = Repo::bare();
    let mut journal = repo.open();
    add_packs(&mut journal);
    (repo, journal)
}

fn add_packs(journal: &mut GitJournal) {
    for i in 0..=PACKS_MAX {
        append(journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
}

/// Every file in the pack folder.
fn listing(repo: &Repo) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(repo.pack_folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The path of a draft with this name in the pack folder.
fn draft_of(repo: &Repo, name: &str) -> PathBuf {
    repo.pack_folder().join(name)
}

/// Starts again and merges packs.
#[track_caller]
fn merges_after_a_start(repo: &Repo) {
    let mut journal = repo.open();
    add_packs(&mut journal);
    run_maintenance(&mut journal);
    assert!(repo.packs().len() <= 2, "nothing was merged: {:#?}", listing(repo));
    drop(journal);
    repo.check();
}

/// Checks that only packs and their indexes are left.
#[track_caller]
fn only_whole_packs_are_left(repo: &Repo) {
    let ends_well = |path: &Path| path.extension().is_some_and(|ending| ending == "pack" || ending == "idx");
    let listing = listing(repo);
    assert!(listing.iter().all(|path| ends_well(path)), "{listing:#?}");
    assert!(repo.packs().iter().all(|pack| pack.with_extension("idx").exists()), "{listing:#?}");
    assert_eq!(listing.len(), 2 * repo.packs().len(), "{listing:#?}");
}

#[test]
fn parts_of_a_merged_pack_stay_for_who_reads_them_and_go_at_the_end_or_the_next_start() {
    let (repo, mut journal) = crowded();
    // Starts the thread, at whose end they go.
    journal.maintenance.flush();
    let before = repo.packs().len();
    assert!(merge_small(&journal.writer.packs, &AtomicBool::new(false)).unwrap());
    assert_eq!(repo.packs().len(), before + 1);
    assert!(!merge_small(&journal.writer.packs, &AtomicBool::new(false)).unwrap());
    drop(repo.open_to_read());
    assert_eq!(repo.packs().len(), before + 1, "who only reads removes nothing");
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path().join("killed");
    assert!(Command::new("cp").arg("-a").args([repo.path(), &killed]).status().unwrap().success());
    drop(GitJournal::open(Options::new(&killed)).unwrap());
    let left = fs::read_dir(killed.join("objects/pack")).unwrap();
    let left = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "pack"));
    assert_eq!(left.count(), 1);
    git_in(&killed, &["fsck", "--full", "--strict"]);
    drop(journal);
    assert_eq!(repo.packs().len(), 1);
    repo.check();
}

#[test]
fn a_kill_between_the_two_names_of_a_new_pack_ends_no_merging() {
    for is_whole in [true, false] {
        kill_between_the_names(is_whole);
    }
}

/// Leaves the pack of a write that was never acknowledged without its index, its content intact or damaged.
fn kill_between_the_names(is_whole: bool) {
    let repo = Repo::bare();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let before = repo.packs();
    let stop = repo.stop_at(Failpoint::MoveBranch);
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n")]).is_err());
    drop((journal, stop));
    let pack = repo.packs().into_iter().find(|pack| !before.contains(pack)).unwrap();
    fs::rename(pack.with_extension("idx"), draft_of(&repo, "collectory-new-idx")).unwrap();
    fs::write(pack.with_extension("keep"), "collectory\n").unwrap();
    if !is_whole {
        damage(&pack);
    }
    drop(repo.open());
    assert_eq!(repo.packs().len(), before.len() + usize::from(is_whole));
    only_whole_packs_are_left(&repo);
    merges_after_a_start(&repo);
}

#[test]
fn a_kill_between_the_two_names_of_a_merged_pack_ends_no_merging() {
    let (repo, mut journal) = crowded();
    let copies = Copies::of(&repo);
    run_maintenance(&mut journal);
    let merged = repo.packs().pop().unwrap();
    drop(journal);
    fs::rename(merged.with_extension("idx"), draft_of(&repo, "collectory-merged-idx")).unwrap();
    fs::write(merged.with_extension("keep"), "collectory\n").unwrap();
    copies.put_back(|_| true);
    drop(repo.open());
    assert!(merged.exists());
    assert_eq!(repo.packs().len(), PACKS_MAX + 2);
    only_whole_packs_are_left(&repo);
    merges_after_a_start(&repo);
}

#[test]
fn a_kill_while_a_merged_part_is_removed_ends_no_merging() {
    for has_index in [true, false] {
        let (repo, mut journal) = crowded();
        let part = repo.packs().pop().unwrap();
        let copies = Copies::of(&repo);
        run_maintenance(&mut journal);
        drop(journal);
        fs::write(draft_of(&repo, "collectory-removed"), "what was renamed to it").unwrap();
        copies.put_back(|path| has_index && path == part.with_extension("idx"));
        drop(repo.open());
        assert_eq!(repo.packs().len(), 1);
        only_whole_packs_are_left(&repo);
        merges_after_a_start(&repo);
    }
}

#[test]
fn a_damaged_pack_without_an_index_is_kept_and_ends_no_merging() {
    let (repo, mut journal) = crowded();
    run_maintenance(&mut journal);
    let pack = repo.packs().pop().unwrap();
    // Two small packs, so that the lost one would be among the first to be merged.
    add_packs(&mut journal);
    drop(journal);
    let content = fs::read(&pack).unwrap();
    fs::remove_file(pack.with_extension("idx")).unwrap();
    damage(&pack);
    merge_without(&repo, &pack);
    fs::write(&pack, content).unwrap();
    drop(repo.open());
    assert!(pack.with_extension("idx").exists(), "it has not been forgotten");
    repo.check();
}

/// Flips a bit in the middle of a pack.
fn damage(pack: &Path) {
    let mut content = fs::read(pack).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::remove_file(pack).unwrap();
    fs::write(pack, content).unwrap();
}

/// Merges while one pack can't be read, which must stay as it is.
#[track_caller]
fn merge_without(repo: &Repo, pack: &Path) {
    let mut journal = repo.open();
    let count = repo.packs().len();
    run_maintenance(&mut journal);
    assert!(repo.packs().len() < count, "nothing was merged: {:#?}", listing(repo));
    assert!(pack.exists());
}

#[test]
fn after_a_power_cut_our_marks_are_found_and_a_person_s_stay() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "ours\n")]);
    let ours = repo.packs().pop().unwrap().with_extension("keep");
    append(&mut journal, &[set("a.yaml", "theirs\n")]);
    let theirs =
        repo.packs().iter().map(|pack| pack.with_extension("keep")).find(|keep| *keep != ours).unwrap();
    drop(journal);
    fs::write(&ours, "collectory\n").unwrap();
    fs::write(&theirs, "").unwrap();
    drop(repo.open());
    assert!(!ours.exists() && theirs.exists());
}

/// Runs `act` when the draft of a pack is about to be flushed.
fn at_the_flush_of_a_pack(repo: &Repo, mut act: impl FnMut() + Send + 'static) -> Hook {
    repo.on_flush(move |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("collectory-") && name.ends_with("-pack") {
            act();
        }
        Ok(())
    })
}

#[test]
fn git_takes_no_pack_in_the_making_for_one() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let _hook = at_the_flush_of_a_pack(&repo, {
        let path = repo.path().to_owned();
        move || drop(git_in(&path, &["multi-pack-index", "write"]))
    });
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.git(&["multi-pack-index", "verify"]);
    repo.check();
}

#[test]
fn what_somebody_comes_to_count_on_while_it_is_merged_is_not_removed() {
    let (repo, mut journal) = crowded();
    let kept = repo.packs().pop().unwrap();
    let _hook = at_the_flush_of_a_pack(&repo, {
        let mark = kept.with_extension("keep");
        move || fs::write(&mark, "mine").unwrap()
    });
    run_maintenance(&mut journal);
    assert_eq!(repo.packs().len(), 2, "the merged one and the one that is kept");
    assert!(kept.exists() && kept.with_extension("idx").exists());
    repo.check();
}

#[test]
fn a_collection_that_begins_while_packs_are_merged_finds_them_all() {
    let (repo, mut journal) = crowded();
    let collecting = repo.path().join("gc.pid");
    let hook = at_the_flush_of_a_pack(&repo, {
        let collecting = collecting.clone();
        move || fs::write(&collecting, "1 elsewhere").unwrap()
    });
    let parts = repo.packs();
    run_maintenance(&mut journal);
    assert!(parts.iter().all(|part| part.exists()));
    repo.check();
    fs::remove_file(&collecting).unwrap();
    drop(hook);
    run_maintenance(&mut journal);
    assert_eq!(repo.packs().len(), 2, "two that are the same, as the parts are merged again");
    repo.check();
}

#[test]
fn a_multi_pack_index_that_is_written_while_packs_are_merged_stays_right() {
    let (repo, mut journal) = crowded();
    let _hook = at_the_flush_of_a_pack(&repo, {
        let path = repo.path().to_owned();
        move || drop(git_in(&path, &["multi-pack-index", "write"]))
    });
    let parts = repo.packs();
    run_maintenance(&mut journal);
    assert!(parts.iter().all(|part| part.exists()));
    repo.git(&["multi-pack-index", "verify"]);
    repo.check();
}

#[test]
fn maintenance_that_panics_is_over_and_holds_nobody_up() {
    let repo = Repo::new();
    let mut journal = repo.open();
    add_packs(&mut journal);
    let hook = at_the_flush_of_a_pack(&repo, || panic!("as a test asked for"));
    run_maintenance(&mut journal);
    drop(hook);
    add_packs(&mut journal);
    run_maintenance(&mut journal);
    assert_eq!(repo.packs().len(), 2 * (PACKS_MAX + 1), "merging has been given up");
    let before = journal.flushes();
    append(&mut journal, &[set("a.yaml", "after\n")]);
    let written = journal.flushes();
    run_maintenance(&mut journal);
    assert!(journal.flushes() > written && written > before, "files are flushed all the same");
    drop(journal);
    merges_after_a_start(&repo);
}

#[test]
fn packs_of_a_repository_whose_objects_are_precious_are_never_merged() {
    let repo = Repo::bare();
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.preciousObjects", "true"]);
    let mut journal = repo.open();
    add_packs(&mut journal);
    run_maintenance(&mut journal);
    assert_eq!(repo.packs().len(), PACKS_MAX + 1);
}

/// The contents of the pack files at one moment.
struct Copies(Vec<(PathBuf, Vec<u8>)>);

impl Copies {
    fn of(repo: &Repo) -> Self {
        Self(listing(repo).into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect())
    }

    /// Restores some of them.
    fn put_back(&self, mut is_wanted: impl FnMut(&Path) -> bool) {
        for (path, bytes) in self.0.iter().filter(|(path, _)| is_wanted(path)) {
            fs::write(path, bytes).unwrap();
        }
    }
}
