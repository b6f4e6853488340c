//! Tests of the service as its users see it: the real program, a real port, a real repository.
//!
//! One test binary, because each would link all dependencies of the program again.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed, and says where")]

mod authorize;
mod collections;
mod command_line;
mod commits;
mod compression;
mod concurrency;
mod cross_origin;
mod dry_runs;
mod durability;
mod errors;
mod failing_calls;
mod faults;
mod following;
mod format_on_disk;
mod hand_edits;
mod history;
mod hostile;
mod idempotency;
mod linearizable;
mod merging;
mod moving;
mod negotiation;
mod openapi;
mod operating;
mod operations;
mod policy;
mod preconditions;
mod queries;
mod remote;
mod repositories;
mod signatures;
mod stories;
mod support;
mod tidying;
mod ui;

/// A file that no module names is never compiled, and a test in it never fails.
#[test]
fn every_test_file_is_listed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut missing = Vec::new();
    unlisted(&root, "main.rs", &mut missing);
    assert!(missing.is_empty(), "not listed as modules: {missing:#?}");
}

/// Collects the entries of a folder that have no `mod` line in the folder's own file.
fn unlisted(folder: &std::path::Path, own: &str, missing: &mut Vec<std::path::PathBuf>) {
    let listing = std::fs::read_to_string(folder.join(own)).expect("every folder of tests has its own file");
    for entry in std::fs::read_dir(folder).expect("a folder can be listed") {
        let path = entry.expect("a folder can be listed").path();
        if !path.is_dir() && path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_stem().expect("an entry has a name").to_string_lossy().into_owned();
        let known = listing.lines().any(|line| line.trim() == format!("mod {name};"));
        if !known && path.file_name() != Some(own.as_ref()) {
            missing.push(path.clone());
        }
        if path.is_dir() {
            unlisted(&path, "mod.rs", missing);
        }
    }
}
