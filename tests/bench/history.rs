//! Questions to a long history, beside `git log -- PATH` on the same repository.
//!
//! The repository is made by `git fast-import`: one commit with every collection, then one commit
//! for each change, as the service writes them. `COLLECTORY_BENCH_COMMITS` (100000) and
//! `COLLECTORY_BENCH_FILES` (1000) size it; `COLLECTORY_BENCH_REPO` keeps it in that folder, and
//! takes it from there the next time. `COLLECTORY_BENCH_ROUNDS` (5).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod support;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use collectory::domain::Key;
use collectory::engine::history::{Filter, History, Options, Page, View};
use collectory::store::git::GitArchive;
use support::{median, setting};

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = kept().unwrap_or_else(|| folder.path().join("repo"));
    let (commits, files) =
        (setting("COLLECTORY_BENCH_COMMITS", 100_000), setting("COLLECTORY_BENCH_FILES", 1000));
    if !path.exists() {
        make(&path, commits, files);
    }
    let (view, took) = timed(|| open(&path));
    println!("{} commits, {} events: read in {took:.0} ms", view.commits_len(), view.events_len());
    let (_, took) = timed(|| open(&path));
    println!("read with the kept index in {took:.0} ms");
    let key = Key::parse("c0007").expect("a key");
    measure("one page of one collection's events", || view_of(&path).of(&key, &Page::first(20)).map(drop));
    measure("one page of all events", || {
        view_of(&path).events(&Filter::default(), &Page::first(20)).map(drop)
    });
    measure("a page that nobody's events fill", || {
        let nobody = Filter { actor: Some("nobody".into()), ..Filter::default() };
        view_of(&path).events(&nobody, &Page::first(20)).map(drop)
    });
    measure("all collections as of the middle", || {
        let view = view_of(&path);
        let log = view.resolve("2021-01-01T00:00:00Z").or_else(|_| view.resolve("main"))?;
        view.as_of(log).map(drop)
    });
    measure("blame", || view_of(&path).blame(&key).map(drop));
    let (_, took) =
        timed(|| git(&path, &["log", "-20", "--format=%H", "main", "--", "collections/c0007.yaml"]));
    println!("git log -20 -- PATH: {took:.1} ms");
    let (_, took) = timed(|| git(&path, &["log", "--format=%H", "main", "--", "collections/c0007.yaml"]));
    println!("git log -- PATH: {took:.1} ms");
}

thread_local! {
    // Each question is asked of a view that has nothing at hand yet; opening it is not measured.
    static NEXT: std::cell::RefCell<Option<View>> = const { std::cell::RefCell::new(None) };
}

fn view_of(path: &Path) -> View {
    NEXT.with_borrow_mut(Option::take).unwrap_or_else(|| open(path))
}

fn measure<E: std::fmt::Debug>(what: &str, mut ask: impl FnMut() -> Result<(), E>) {
    let path = PATH.get().expect("a view was opened");
    let mut rounds = Vec::new();
    for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 5) {
        NEXT.set(Some(open(path)));
        rounds.push(timed(|| ask().expect("an answer")).1);
    }
    println!("{what}: {:.2} ms", median(&rounds));
}

static PATH: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();

fn open(path: &Path) -> View {
    PATH.get_or_init(|| path.to_owned());
    let archive = GitArchive::open(path, "main", "collections").expect("a repository");
    History::read(Arc::new(archive), &Options::new("collections")).expect("a history")
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let done = act();
    (done, started.elapsed().as_secs_f64() * 1e3)
}

#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
fn kept() -> Option<PathBuf> {
    std::env::var("COLLECTORY_BENCH_REPO").ok().map(PathBuf::from)
}

fn git(path: &Path, arguments: &[&str]) {
    let done = Command::new("git").arg("-C").arg(path).args(arguments).stdout(Stdio::null()).status();
    assert!(done.expect("git runs").success());
}

fn make(path: &Path, commits: usize, files: usize) {
    std::fs::create_dir_all(path).expect("a folder");
    git(path, &["init", "--quiet", "--bare", "--initial-branch=main"]);
    let mut import = Command::new("git");
    import.arg("-C").arg(path).args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut import = import.spawn().expect("git runs");
    let mut out = BufWriter::new(import.stdin.take().expect("it is piped"));
    for commit in 0..commits {
        let changed = if commit == 0 { 0..files } else { commit * 7919 % files..commit * 7919 % files + 1 };
        write_commit(&mut out, commit, changed).expect("git reads");
    }
    drop(out);
    assert!(import.wait().expect("git ends").success());
}

fn write_commit(
    out: &mut impl std::io::Write,
    commit: usize,
    changed: std::ops::Range<usize>,
) -> std::io::Result<()> {
    let key = changed.start;
    let message = format!(
        "Update c{key:04}: name\n\nname: \"a\" -> \"b\"\n\nCollectory-Action: collection.updated\n\
         Collectory-Key: c{key:04}\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-{commit:012x}\n"
    );
    let at = 1_600_000_000 + commit * 60;
    writeln!(out, "commit refs/heads/main\nauthor A{0} <a{0}@example.org> {at} +0000", commit % 50)?;
    writeln!(
        out,
        "committer Collectory <collectory@localhost> {at} +0000\ndata {}\n{message}",
        message.len()
    )?;
    for key in changed {
        let text = format!(
            "type: document\nname: Version {commit}\ndirectory: content/c{key:04}\nrecursive: true\n"
        );
        writeln!(out, "M 100644 inline collections/c{key:04}.yaml\ndata {}\n{text}", text.len())?;
    }
    writeln!(out)
}
