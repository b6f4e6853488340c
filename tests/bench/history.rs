//! Measures queries on a long history over HTTP, beside `git log -- PATH` on the same repository; the startup with
//! and without that history; and the memory that it takes.
//!
//! `git fast-import` makes the repository: a commit with every collection, then one commit for each change, as the
//! service writes them. `COLLECTORY_BENCH_COMMITS` (100000) and `COLLECTORY_BENCH_FILES` (1000) set its size.
//! `COLLECTORY_BENCH_REPO` names a folder in which it is kept and reused by the next run. `COLLECTORY_BENCH_ROUNDS`
//! (5) sets the number of rounds.
//!
//! ```sh
//! COLLECTORY_BENCH_REPO=/tmp/history.git cargo bench -- history
//! ```

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Connection, Process, git, median, setting};
use crate::table::{Goal, Table};

/// How many different collections, pages and revisions are queried, each for the first time.
const QUESTIONS: usize = 50;

/// In seconds since 1970; commits are one minute apart.
const FIRST_COMMIT_AT: usize = 1_600_000_000;

pub(crate) const PART: &str = "history";

/// Prints the time of each query.
pub(crate) async fn compare(table: &mut Table) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = kept().unwrap_or_else(|| folder.path().join("history.git"));
    if !path.exists() {
        make(&path);
    }
    let flat = flattened(&path, folder.path());
    first_reading(&path).await;
    questions(&path, table).await;
    beside_git(&path);
    starts(&path, &flat, table).await;
    memory(&path, &flat).await;
}

#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
pub(crate) fn kept() -> Option<PathBuf> {
    std::env::var("COLLECTORY_BENCH_REPO").ok().map(PathBuf::from)
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Sends a request; returns how long the answer took, its status and its body.
pub(crate) async fn ask(connection: &mut Connection, target: &str) -> (Duration, u16, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let started = Instant::now();
    let (status, answer) = connection.ask(request.as_bytes()).await;
    let took = started.elapsed();
    let text = std::str::from_utf8(answer).expect("an answer is UTF-8");
    (took, status, text.split_once("\r\n\r\n").expect("an answer has a head").1.to_owned())
}

/// Retries a request until it is answered with 200.
pub(crate) async fn answered(connection: &mut Connection, target: &str) -> String {
    loop {
        let (_, status, body) = ask(connection, target).await;
        if status == 200 {
            return body;
        }
        assert_eq!(status, 503, "{target}: {body}");
    }
}

/// Starts the service on a repository. Returns how long it took to be ready, and to its first page of events.
async fn start(path: &Path) -> (Process, Connection, Duration, Duration) {
    let started = Instant::now();
    let service = Process::serve(path);
    let mut connection = Connection::open(service.address).await;
    answered(&mut connection, "/readyz").await;
    let ready = started.elapsed();
    answered(&mut connection, "/events").await;
    (service, connection, ready, started.elapsed())
}

/// Deletes the history index of the service, which may be deleted at any time.
fn forget(path: &Path) {
    std::fs::remove_file(path.join("collectory/history-index")).ok();
}

async fn first_reading(path: &Path) {
    forget(path);
    let (_service, mut connection, ready, page) = start(path).await;
    let total = total(&answered(&mut connection, "/events?page[size]=1").await);
    println!(
        "{total} events, no index kept: ready after {:.0} ms, first page after {:.0} ms",
        ms(ready),
        ms(page)
    );
}

fn total(body: &str) -> usize {
    let document: serde_json::Value = serde_json::from_str(body).expect("an answer is JSON");
    usize::try_from(document["meta"]["page"]["total"].as_u64().expect("it has a total")).expect("it fits")
}

/// The connection that queries use, and the table that their results go to.
struct Asked<'a> {
    connection: Connection,
    table: &'a mut Table,
}

/// Records the median and prints the worst time of queries that were not sent before.
async fn measure(asked: &mut Asked<'_>, what: &str, goal_ms: f64, targets: &[String]) {
    let mut times = Vec::new();
    for target in targets {
        let (took, status, body) = ask(&mut asked.connection, target).await;
        assert_eq!(status, 200, "{target}: {body}");
        times.push(ms(took));
    }
    let worst = times.iter().copied().fold(0.0, f64::max);
    println!("{what}: median {:.2} ms, worst {worst:.2} ms (goal {goal_ms} ms)", median(&times));
    asked.table.alone(PART, what, median(&times), Goal::MsAtMost(goal_ms));
}

async fn questions(path: &Path, table: &mut Table) {
    let (_service, connection, ..) = start(path).await;
    let asked = &mut Asked { connection, table };
    let files = setting("COLLECTORY_BENCH_FILES", 1000);
    let keys: Vec<String> = (0..QUESTIONS).map(|n| key(n * 7919 % files)).collect();
    let of = |form: fn(&String) -> String| keys.iter().map(form).collect::<Vec<_>>();
    measure(
        asked,
        "a page of one collection's events",
        10.0,
        &of(|key| format!("/collections/{key}/events")),
    )
    .await;
    let commits = setting("COLLECTORY_BENCH_COMMITS", 100_000);
    let until = |n: usize| format!("/events?filter[until]={}", time(n * 7919 * 13 % commits));
    measure(asked, "the newest page of all events", 10.0, &["/events".to_owned()]).await;
    let pages: Vec<_> = (0..QUESTIONS).map(until).collect();
    measure(asked, "a page of all events until any time", 10.0, &pages).await;
    let by_actor: Vec<_> = (0..QUESTIONS).map(|n| format!("/events?filter[actor]=A{n}")).collect();
    measure(asked, "a page of all events by an actor", 10.0, &by_actor).await;
    let by_origin = ["api", "git", "work-tree"].map(|it| format!("/events?filter[origin]={it}"));
    measure(asked, "a page of all events of an origin", 10.0, &by_origin).await;
    let revisions = revisions(path);
    let as_of: Vec<_> = revisions.iter().map(|it| format!("/collections?asOf={it}")).collect();
    measure(asked, "the list as of any revision", 50.0, &as_of).await;
    let one: Vec<_> =
        revisions.iter().zip(&keys).map(|(it, key)| format!("/collections/{key}?asOf={it}")).collect();
    measure(asked, "one collection as of any revision", 50.0, &one).await;
    measure(asked, "blame", 50.0, &of(|key| format!("/collections/{key}/blame"))).await;
    let none = ["/events?filter[actor]=nobody".to_owned()];
    measure(asked, "a page that no event fits", 50.0, &none).await;
}

/// The time of a commit, as text.
fn time(commit: usize) -> String {
    let at = i64::try_from(FIRST_COMMIT_AT + commit * 60).expect("it fits");
    let time = chrono::DateTime::from_timestamp(at, 0).expect("it is a time");
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns revisions spread over the whole history.
fn revisions(path: &Path) -> Vec<String> {
    let log = Command::new("git").arg("-C").arg(path).args(["rev-list", "main"]).output().expect("git runs");
    let log = String::from_utf8(log.stdout).expect("ids are ASCII");
    let all: Vec<&str> = log.lines().collect();
    (0..QUESTIONS).map(|n| all[n * 7919 * 13 % all.len()].to_owned()).collect()
}

fn beside_git(path: &Path) {
    let file = format!("collections/{}.yaml", key(7));
    for (what, arguments) in [
        ("git log -20 -- PATH", &["log", "-20", "--format=%H", "main", "--", &file][..]),
        ("git log -- PATH", &["log", "--format=%H", "main", "--", &file]),
    ] {
        let started = Instant::now();
        git(path, arguments);
        println!("{what}: {:.0} ms", ms(started.elapsed()));
    }
}

async fn starts(path: &Path, flat: &Path, table: &mut Table) {
    let (mut with, mut without, mut ratios, mut pages) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 5) {
        let (_, _, ready_without, _) = start(flat).await;
        let (_, _, ready, page) = start(path).await;
        with.push(ms(ready));
        without.push(ms(ready_without));
        ratios.push(ready.as_secs_f64() / ready_without.as_secs_f64());
        pages.push(ms(page));
    }
    let [with, without] = [with, without].map(|times| format!("{:.0} ms", median(&times)));
    let (ratio, page) = (median(&ratios), median(&pages));
    println!(
        "start with {with}, without history {without}, ratio {ratio:.2}; first page of events after {page:.0} ms"
    );
    table.compared(PART, "start with the history / without", [with, without], ratio, Goal::AtMost(1.2));
}

async fn memory(path: &Path, flat: &Path) {
    let (without, ..) = start(flat).await;
    let (with, mut connection, ..) = start(path).await;
    let total = total(&answered(&mut connection, "/events?page[size]=1").await);
    let (Some(base), Some(full)) = (without.resident_bytes(), with.resident_bytes()) else {
        println!("memory is told on Linux only");
        return;
    };
    println!("memory: {} bytes an event, its commit with it", full.saturating_sub(base) / total);
}

fn key(number: usize) -> String {
    format!("c{number:04}")
}

/// Copies the repository and replaces its branch by one commit with the same files; the packs stay the same.
fn flattened(path: &Path, folder: &Path) -> PathBuf {
    let flat = folder.join("flat.git");
    let copied = Command::new("cp").arg("-r").arg(path).arg(&flat).status();
    assert!(copied.expect("cp runs").success(), "the repository can be copied");
    forget(&flat);
    git(&flat, &["config", "user.name", "Bench"]);
    git(&flat, &["config", "user.email", "bench@example.org"]);
    let mut commit = Command::new("git");
    let commit = commit.arg("-C").arg(&flat).args(["commit-tree", "-m", "All", "main^{tree}"]).output();
    let commit = String::from_utf8(commit.expect("git runs").stdout).expect("an id is ASCII");
    git(&flat, &["update-ref", "refs/heads/main", commit.trim()]);
    flat
}

pub(crate) fn make(path: &Path) {
    let (commits, files) =
        (setting("COLLECTORY_BENCH_COMMITS", 100_000), setting("COLLECTORY_BENCH_FILES", 1000));
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
    out.flush().expect("git reads");
    drop(out);
    assert!(import.wait().expect("git ends").success());
}

fn write_commit(out: &mut impl Write, commit: usize, changed: std::ops::Range<usize>) -> std::io::Result<()> {
    let key_changed = key(changed.start);
    let message = format!(
        "Update {key_changed}: name\n\nname: \"a\" -> \"b\"\n\nCollectory-Action: collection.updated\n\
         Collectory-Key: {key_changed}\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-{commit:012x}\n"
    );
    let (at, len) = (FIRST_COMMIT_AT + commit * 60, message.len());
    writeln!(out, "commit refs/heads/main\nauthor A{0} <a{0}@example.org> {at} +0000", commit % 50)?;
    writeln!(out, "committer Collectory <collectory@localhost> {at} +0000\ndata {len}\n{message}")?;
    for number in changed {
        let key = key(number);
        let text =
            format!("type: document\nname: Version {commit}\ndirectory: content/{key}\nrecursive: true\n");
        writeln!(out, "M 100644 inline collections/{key}.yaml\ndata {}\n{text}", text.len())?;
    }
    writeln!(out)
}
