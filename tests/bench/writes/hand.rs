//! The same work by hand: `git add` and `git commit`, and libgit2 as its users use it.

use std::path::Path;
use std::time::Instant;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Signature};

use super::which;
use crate::support::{file, git, key};

/// Edits, adds and commits a file `count` times. Returns commits per second.
pub(crate) fn commits(
    folder: &Path,
    collections: usize,
    (round, count): (usize, usize),
    options: &[&str],
) -> f64 {
    let started = Instant::now();
    for number in 0..count {
        let which = (round * count + number) % collections;
        let path = format!("collections/{}.yaml", key(which));
        let name = format!("Round {round}, {} options, commit {number}", options.len());
        std::fs::write(folder.join(&path), file(which, &name)).expect("a file can be written");
        git(folder, &[options, &["add", &path]].concat());
        git(folder, &[options, &["commit", "-q", "-m", &format!("Update {which}: name")]].concat());
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// Commits with libgit2's `TreeUpdateBuilder`, flushing objects and refs (`core.fsyncObjectFiles`). Returns commits
/// per second.
pub(crate) fn libgit2(folder: &Path, collections: usize, round: usize, count: usize) -> f64 {
    let repository = Repository::open_bare(folder).expect("a repository that was just made opens");
    repository
        .config()
        .and_then(|mut it| it.set_bool("core.fsyncObjectFiles", true))
        .expect("it is writable");
    // libgit2 reads the setting when it opens the repository.
    let repository = Repository::open_bare(folder).expect("it opened before");
    let started = Instant::now();
    for number in round * count..(round + 1) * count {
        commit(&repository, which(number, collections), number).expect("nobody else writes");
    }
    count as f64 / started.elapsed().as_secs_f64()
}

fn commit(repository: &Repository, which: usize, number: usize) -> Result<(), git2::Error> {
    let parent = repository.head()?.peel_to_commit()?;
    let blob = repository.blob(file(which, &format!("libgit2, commit {number}")).as_bytes())?;
    let path = format!("collections/{}.yaml", key(which));
    let tree = TreeUpdateBuilder::new()
        .upsert(path, blob, FileMode::Blob)
        .create_updated(repository, &parent.tree()?)?;
    let who = Signature::now("Bench", "bench@example.org")?;
    let message = format!("Update {}: name", key(which));
    repository.commit(Some("HEAD"), &who, &who, &message, &repository.find_tree(tree)?, &[&parent])?;
    Ok(())
}
