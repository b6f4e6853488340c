//! Durable commits per second, against git itself on the same work.
//!
//! Each round measures in turn, on repositories with the same collections: updates through the
//! service by 1 client and by 64, `git add` and `git commit` on the command line (as git is by
//! default, and with everything flushed as the service does), and `git fast-import` of the same
//! number of commits (which flushes nothing). Prints medians and the ratios.
//!
//! `COLLECTORY_BENCH_COLLECTIONS` (1000), `COLLECTORY_BENCH_ROUNDS` (3), `COLLECTORY_BENCH_MS`
//! (1000 a measurement), `COLLECTORY_BENCH_BARE` (0; 1 for a repository without a work tree).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use support::{
    Connection, Process, commit_head, fast_import, file, git, key, median, on_one_thread, push_file,
    repository, setting,
};
use tokio::task::JoinSet;

const CLIENTS: usize = 64;

/// How many commits `git commit` and `git fast-import` make in a round.
const GIT_COMMITS: usize = 10;
const IMPORTED_COMMITS: usize = 1000;

fn main() {
    on_one_thread(compare());
}

async fn compare() {
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let bare = setting("COLLECTORY_BENCH_BARE", 0) == 1;
    let (_ours, path) = repository(count, bare);
    let (_theirs, by_hand) = repository(count, false);
    let (_imported, import) = repository(count, true);
    let service = Process::serve(&path);
    let mut rates: [Vec<f64>; 5] = Default::default();
    for round in 0..setting("COLLECTORY_BENCH_ROUNDS", 3) {
        rates[0].push(updates(service.address, 1, count, round).await);
        rates[1].push(updates(service.address, CLIENTS, count, round).await);
        rates[2].push(commits(&by_hand, count, round, &[]));
        rates[3].push(commits(
            &by_hand,
            count,
            round,
            &["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"],
        ));
        rates[4].push(imports(&import, count, round));
    }
    let [one, many, plain, flushed, imported] = rates.map(|figures| median(&figures));
    println!("durable commits/s with {count} collections:");
    println!("  the service, 1 client     {one:>8.0}");
    println!("  the service, {CLIENTS} clients   {many:>8.0}");
    println!(
        "  git commit, flushed       {flushed:>8.0}   ratio {:>6.1} and {:>6.1}",
        one / flushed,
        many / flushed
    );
    println!(
        "  git commit, not flushed   {plain:>8.0}   ratio {:>6.1} and {:>6.1}",
        one / plain,
        many / plain
    );
    println!(
        "  git fast-import, neither  {imported:>8.0}   ratio {:>6.2} and {:>6.2}",
        one / imported,
        many / imported
    );
}

/// Updates through the service, each client its own collections.
async fn updates(address: SocketAddr, clients: usize, collections: usize, round: usize) -> f64 {
    let time = Duration::from_millis(setting("COLLECTORY_BENCH_MS", 1000) as u64);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            let mut count = 0_u32;
            while started.elapsed() < time {
                let key = key((client + clients * count as usize) % collections);
                let name = format!("Round {round} of {clients} clients, {client} writes {count}");
                let (status, answer) = connection.ask(update(&key, &name).as_bytes()).await;
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(answer));
                count += 1;
            }
            count
        });
    }
    let total: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(total) / started.elapsed().as_secs_f64()
}

fn update(key: &str, name: &str) -> String {
    let body = format!(
        r#"{{"data":{{"type":"document-collection","id":"{key}","attributes":{{"name":"{name}"}}}}}}"#
    );
    let length = body.len();
    format!(
        "PATCH /collections/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// The same by hand: edit a file, add it, commit it.
fn commits(folder: &Path, collections: usize, round: usize, options: &[&str]) -> f64 {
    let started = Instant::now();
    for number in 0..GIT_COMMITS {
        let which = (round * GIT_COMMITS + number) % collections;
        let path = format!("collections/{}.yaml", key(which));
        let name = format!("Round {round}, {} options, commit {number}", options.len());
        std::fs::write(folder.join(&path), file(which, &name)).expect("a file can be written");
        git(folder, &[options, &["add", &path]].concat());
        git(folder, &[options, &["commit", "-q", "-m", &format!("Update {which}: name")]].concat());
    }
    GIT_COMMITS as f64 / started.elapsed().as_secs_f64()
}

/// The same as a stream that git imports in one go.
fn imports(folder: &Path, collections: usize, round: usize) -> f64 {
    let mut stream = String::new();
    for number in 0..IMPORTED_COMMITS {
        let which = number % collections;
        stream.push_str(&commit_head(&format!("Update {}: name", key(which))));
        if number == 0 {
            stream.push_str("from refs/heads/main^0\n");
        }
        push_file(&mut stream, which, &format!("Round {round}, commit {number}"));
    }
    let started = Instant::now();
    fast_import(folder, &stream);
    IMPORTED_COMMITS as f64 / started.elapsed().as_secs_f64()
}
