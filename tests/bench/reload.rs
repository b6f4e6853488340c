//! The start on a large repository, against reading the same blobs without parsing them, and the
//! memory that a collection takes.
//!
//! `COLLECTORY_BENCH_FILES` is a list of sizes (`10000`; the long run has `10000,100000`),
//! `COLLECTORY_BENCH_ROUNDS` (3).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use support::{Connection, Process, median, on_one_thread, repository, setting};

const LIST: &[u8] = b"GET /collections HTTP/1.1\r\nHost: localhost\r\n\r\n";
const READY: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn main() {
    on_one_thread(async {
        for count in sizes() {
            compare(count).await;
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
fn sizes() -> Vec<usize> {
    let text = std::env::var("COLLECTORY_BENCH_FILES").unwrap_or_else(|_| "10000".into());
    text.split(',').map(|size| size.trim().parse().expect("sizes are whole numbers")).collect()
}

async fn compare(count: usize) {
    let (_folder, path) = repository(count, true);
    let (_other, empty) = repository(0, true);
    let (mut starts, mut reads, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 3) {
        let nothing = start(&empty).await.0;
        let load = start(&path).await.0.saturating_sub(nothing).as_secs_f64();
        let read = read_blobs(&path, count).as_secs_f64();
        starts.push(load * 1e3);
        reads.push(read * 1e3);
        ratios.push(load / read);
    }
    println!(
        "{count} collections: loaded in {:.0} ms, read without parsing in {:.0} ms, ratio {:.2}",
        median(&starts),
        median(&reads),
        median(&ratios)
    );
    memory(count, &path, &empty).await;
}

/// Starts the service; how long it took until it was ready.
async fn start(path: &Path) -> (Duration, Process) {
    let started = Instant::now();
    let service = Process::serve(path);
    let mut connection = Connection::open(service.address).await;
    while connection.ask(READY).await.0 != 200 {}
    (started.elapsed().max(service.started_in), service)
}

/// Reads every blob of the head with libgit2, as the service has to, and throws it away.
fn read_blobs(path: &Path, count: usize) -> Duration {
    let started = Instant::now();
    let repository = git2::Repository::open(path).expect("the repository can be opened");
    let head = repository.head().and_then(|head| head.peel_to_tree()).expect("there is a commit");
    let folder = head.get_name("collections").expect("it has the folder").id();
    let objects = repository.odb().expect("there are objects");
    let tree = repository.find_tree(folder).expect("the folder is a tree");
    let read = tree
        .iter()
        .map(|entry| objects.read(entry.id()).expect("a blob can be read").len())
        .filter(|len| *len > 0);
    assert_eq!(read.count(), count);
    started.elapsed()
}

/// What a collection takes, as loaded and after the first list.
async fn memory(count: usize, path: &Path, empty: &Path) {
    let (_, nothing) = start(empty).await;
    let (_, full) = start(path).await;
    let Some(base) = nothing.resident_bytes() else {
        println!("  memory is told on Linux only");
        return;
    };
    let per_collection = || full.resident_bytes().unwrap_or(0).saturating_sub(base) / count;
    let loaded = per_collection();
    let mut connection = Connection::open(full.address).await;
    assert_eq!(connection.ask(LIST).await.0, 200);
    println!("  memory: {loaded} bytes a collection, {} after the first list", per_collection());
}
