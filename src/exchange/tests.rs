//! What comes of settings files in the manner of real ones: `fixtures/decap` and `fixtures/laika` hold
//! them, and beside each the plan, what is told, and every file that is written.
//!
//! With `COLLECTORY_BLESS=1` the expectations are written anew, to be read before they are committed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::*;
use crate::domain::{Catalog, Key};
use crate::format;

fn options(keep_files: bool) -> Options {
    Options { keep_files, media_key: Key::parse("media").unwrap(), schemas: Schemas::new() }
}

/// All that comes of a file: the plan, what is told with its place, and the files.
fn outcome(bytes: &[u8], options: &Options) -> String {
    let source = match read(bytes, None, options) {
        Ok(source) => source,
        Err(fault) => return told(&fault),
    };
    let mut out = String::new();
    let notes: String = source.notes.iter().map(told).collect();
    let plan = plan(source, &Catalog::default(), Existing::Fail, false);
    plan.lines.iter().for_each(|line| writeln!(out, "{line}").unwrap());
    out.push_str(&notes);
    out.extend(plan.faults.iter().map(told));
    for line in &plan.lines {
        if let Step::Create(collection) = &line.step {
            let file = format::write(collection);
            let read = format::read(collection.key(), &file).expect("what is written can be read");
            assert_eq!(read, **collection);
            writeln!(out, "\n# {}.yaml\n{}", collection.key(), String::from_utf8(file).unwrap().trim_end())
                .unwrap();
        }
    }
    out
}

fn told(fault: &Fault) -> String {
    format!("{}:{}: {}\n", fault.line, fault.column, fault.message)
}

#[test]
fn every_fixture_becomes_what_the_table_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut seen = 0;
    for folder in ["decap", "laika"] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_none_or(|ending| ending != "expected")) {
            let keep = file.to_string_lossy().contains("-kept");
            let outcome = outcome(&fs::read(&file).unwrap(), &options(keep));
            let expected = file.with_extension("expected");
            if std::env::var_os("COLLECTORY_BLESS").is_some() {
                fs::write(&expected, &outcome).unwrap();
            }
            assert_eq!(outcome, fs::read_to_string(&expected).unwrap_or_default(), "{}", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 30);
}

#[test]
fn no_secret_of_a_backend_is_taken_over() {
    let file = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/decap/secrets.yml")).unwrap();
    assert!(String::from_utf8_lossy(&file).contains("hunter2"));
    let outcome = outcome(&file, &options(false));
    assert!(outcome.contains("create posts") && !outcome.contains("hunter2"), "{outcome}");
    assert!(!outcome.contains("backend"), "{outcome}");
}
