//! Measures the startup on a large repository, against reading the same blobs without parsing them; the memory that a
//! collection takes; and how long the first requests and an outside commit take there.
//!
//! `COLLECTORY_BENCH_FILES` is a list of sizes (`100000`; the long run has `10000,100000,1000000`),
//! `COLLECTORY_BENCH_ROUNDS` (5) the number of measurements of each startup.
//!
//! The repositories are bare and have one commit, whose blobs are in one pack made by `git fast-import`.
//!
//! On a busy machine, compare the processor time: the wall clock then measures how long threads wait to be scheduled,
//! and the startup of the service has more threads.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{
    Connection, Process, commit_head, fast_import, key, median, own_processor_time, push_file, repository,
    setting,
};
use crate::table::{Goal, Table};
use crate::writes::service::update;

const LIST: &[u8] = b"GET /collections HTTP/1.1\r\nHost: localhost\r\n\r\n";
const READY: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const EVENTS: &[u8] = b"GET /events?page%5Bsize%5D=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The number of collections that the memory goal applies to.
const MEMORY_GOAL_COUNT: usize = 100_000;

/// Larger lists are not requested whole, because no client reads them whole.
const WHOLE_LIST_LEN_MAX: usize = 100_000;

pub(crate) const PART: &str = "reload";

/// Prints the figures of each size.
pub(crate) async fn compare(table: &mut Table) {
    for count in sizes() {
        compare_with(count, table).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
fn sizes() -> Vec<usize> {
    let text = std::env::var("COLLECTORY_BENCH_FILES").unwrap_or_else(|_| "100000".into());
    text.split(',').map(|size| size.trim().parse().expect("sizes are whole numbers")).collect()
}

async fn compare_with(count: usize, table: &mut Table) {
    let (_folder, path) = repository(count, true);
    let (_other, empty) = repository(0, true);
    let (mut starts, mut reads, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut processor, mut reading) = (Vec::new(), Vec::new());
    for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 5) {
        let (nothing, none) = start(&empty).await;
        let (full, service) = start(&path).await;
        let load = full.saturating_sub(nothing).as_secs_f64();
        let before = own_processor_time();
        let read = read_blobs(&path, count).as_secs_f64();
        reading.push(own_processor_time().saturating_sub(before).as_secs_f64() * 1e3);
        processor.push(service.processor_time().saturating_sub(none.processor_time()).as_secs_f64() * 1e3);
        starts.push(load * 1e3);
        reads.push(read * 1e3);
        ratios.push(load / read);
    }
    let [load, read] = [starts, reads].map(|times| format!("{:.0} ms", median(&times)));
    let ratio = median(&ratios);
    println!("{count} collections: loaded in {load}, read without parsing in {read}, ratio {ratio:.2}");
    let what = format!("load of {count} from packs / reading the same blobs on one thread");
    table.compared(PART, what, [load, read], ratio, Goal::AtMost(2.0));
    println!(
        "  processor time: {:.0} ms on all threads, {:.0} ms to read without parsing",
        median(&processor),
        median(&reading)
    );
    memory(count, &path, &empty, table).await;
    life(count, &path).await;
}

/// Starts the service; returns how long it took to be ready.
async fn start(path: &Path) -> (Duration, Process) {
    let started = Instant::now();
    let service = Process::serve(path);
    let mut connection = Connection::open(service.address).await;
    while connection.ask(READY).await.0 != 200 {}
    (started.elapsed().max(service.started_in), service)
}

/// Reads every blob of the head with libgit2, as the service has to, and discards it.
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

/// Measures the memory of a collection: after the startup, with its history, and after the first list.
async fn memory(count: usize, path: &Path, empty: &Path, table: &mut Table) {
    let (_, nothing) = start(empty).await;
    let (_, full) = start(path).await;
    let Some(base) = nothing.resident_bytes() else {
        println!("  memory is told on Linux only");
        return;
    };
    let per_collection = || full.resident_bytes().unwrap_or(0).saturating_sub(base) / count;
    let loaded = per_collection();
    let mut connection = Connection::open(full.address).await;
    while connection.ask(EVENTS).await.0 != 200 {}
    println!("  memory: {loaded} bytes a collection, {} with its history", per_collection());
    if count == MEMORY_GOAL_COUNT {
        let mb = (per_collection() * count) as f64 / 1e6;
        table.alone(
            PART,
            format!("memory at {count} collections, with the history"),
            mb,
            Goal::MbAtMost(100.0),
        );
    }
    if count <= WHOLE_LIST_LEN_MAX {
        assert_eq!(connection.ask(LIST).await.0, 200);
        println!("  memory: {} bytes a collection after the first list", per_collection());
    }
}

/// Measures the first request of each kind on a service that has just started.
async fn life(count: usize, path: &Path) {
    let (_, service) = start(path).await;
    let mut connection = Connection::open(service.address).await;
    let last = key(count - 1);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let middle = count / 2;
    for (what, request) in [
        ("read one", get(&format!("/collections/{last}"))),
        ("the first page of 100", get("/collections?page%5Bsize%5D=100")),
        (
            "the page of 100 in the middle",
            get(&format!("/collections?page%5Boffset%5D={middle}&page%5Blimit%5D=100")),
        ),
        ("PATCH, the first", update(&last, "Changed").into_bytes()),
        ("PATCH, the second", update(&last, "Altered").into_bytes()),
    ] {
        let started = Instant::now();
        let (status, _) = connection.ask(&request).await;
        assert_eq!(status, 200, "{what}");
        println!("  {what}: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    }
    let mut stream = commit_head("Outside");
    stream.push_str("from refs/heads/main^0\n");
    push_file(&mut stream, 0, "Outside");
    fast_import(path, &stream);
    let (started, first) = (Instant::now(), get(&format!("/collections/{}", key(0))));
    let is_new = |answer: &[u8]| answer.windows(9).any(|window| window == b"\"Outside\"");
    while !is_new(connection.ask(&first).await.1) {}
    println!(
        "  a commit by git, from its end to the new answer: {:.1} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
}
