//! Measures how long writes take with many subscribers against none: subscribers to the events, one of them stuck,
//! and subscribers to the served collections.
//!
//! Two services run on equal repositories; one has `COLLECTORY_BENCH_SUBSCRIBERS` (1000) open streams. Writes are
//! sequential, `COLLECTORY_BENCH_WRITES` (50) to one service, then as many to the other, `COLLECTORY_BENCH_ROUNDS`
//! (7) times. The subscribers' sockets buffer the events until the end, so that reading them costs nothing during the
//! measurement. At the end, each subscriber must have received every event once, or the last state.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Connection, Process, commit_head, fast_import, key, median, repository, setting};
use crate::table::{Goal, Table, in_ms};
use crate::writes::service::update;

const FILES: usize = 1000;

/// The stuck subscriber requests more than sockets can buffer: this many events of this size.
const LONG_EVENTS: usize = 200;
const LONG_TEXT_BYTES: usize = 60_000;

pub(crate) const PART: &str = "subscribers";

/// What subscribers follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Followed {
    Events,
    WhatIsServed,
}

pub(crate) async fn compare(table: &mut Table) {
    for followed in [Followed::Events, Followed::WhatIsServed] {
        compare_followed(followed, table).await;
    }
}

async fn compare_followed(followed: Followed, table: &mut Table) {
    let (_folder, path) = long_past();
    let (_other, other) = long_past();
    let (with, without) = (Process::serve(&path), Process::serve(&other));
    let count = setting("COLLECTORY_BENCH_SUBSCRIBERS", 1000);
    let (target, what) = match followed {
        Followed::Events => ("/events", "subscribers to events, one stuck"),
        // Full listings for every subscriber would be more than sockets can buffer.
        Followed::WhatIsServed => {
            ("/collections?fields[document-collection]=name", "followers of what is served")
        }
    };
    let is_stuck = |n: usize| n == 0 && followed == Followed::Events;
    let mut subscribers = Vec::new();
    let mut stuck = None;
    for n in 0..count {
        match is_stuck(n) {
            true => stuck = Some(subscribe(&with, "/events?filter[since]=2000-01-01T00:00:00Z").await),
            false => subscribers.push(subscribe(&with, target).await),
        }
    }
    if followed == Followed::WhatIsServed {
        for subscriber in &mut subscribers {
            reads_until(subscriber, "event:ready").await;
        }
    }
    let writes = compare_with([&with, &without], &format!("{count} {what}"), table).await;
    drop(stuck);
    let started = Instant::now();
    let last = format!("Written {}\"", writes - 1);
    for subscriber in &mut subscribers {
        let text = reads_until(subscriber, &last).await;
        assert!(!text.contains("event:reset"), "nobody was too slow");
        if followed == Followed::Events {
            assert_eq!(text.matches("event:updated").count(), writes, "each write is told once");
        }
    }
    println!("{} heard of the last of {writes} writes, read in {:.0} ms", subscribers.len(), ms(started));
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Creates a repository whose events are more than the sockets of one connection can buffer.
fn long_past() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = repository(FILES, true);
    let text = "x".repeat(LONG_TEXT_BYTES);
    let mut stream = String::new();
    for n in 0..LONG_EVENTS {
        let file = format!("type: document\nx-text: {n} {text}\n");
        stream.push_str(&commit_head("Long"));
        if n == 0 {
            stream.push_str("from refs/heads/main^0\n");
        }
        stream.push_str(&format!("M 100644 inline collections/long.yaml\ndata {}\n{file}\n", file.len()));
    }
    fast_import(Path::new(&path), &stream);
    (folder, path)
}

/// Opens a stream and reads its head.
async fn subscribe(service: &Process, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).await.expect("the service listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    loop {
        stream.write_all(request.as_bytes()).await.expect("it takes requests");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("it answers"));
        }
        if head.starts_with(b"HTTP/1.1 200") {
            return stream;
        }
        // The service is still reading the history.
        stream = TcpStream::connect(service.address).await.expect("the service listens");
    }
}

/// Writes to both services; returns the number of writes to the one with subscribers.
async fn compare_with([with, without]: [&Process; 2], what: &str, table: &mut Table) -> usize {
    let mut connections = [Connection::open(with.address).await, Connection::open(without.address).await];
    let (mut ratios, mut all) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (rounds, writes) = (setting("COLLECTORY_BENCH_ROUNDS", 7), setting("COLLECTORY_BENCH_WRITES", 50));
    for round in 0..rounds {
        let mut medians = [0.0, 0.0];
        for (index, connection) in connections.iter_mut().enumerate() {
            let mut times = Vec::new();
            for n in 0..writes {
                times.push(write(connection, round * writes + n).await);
            }
            medians[index] = median(&times);
            all[index].extend(times);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ratios.push(medians[0] / medians[1]);
    }
    let late = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() * 95 / 100]
    };
    let [with, without] = &mut all;
    println!(
        "a write with {what}: {:.2} ms (95 %: {:.2}), without {:.2} ms (95 %: {:.2}), ratio {:.2}",
        median(with),
        late(with),
        median(without),
        late(without),
        median(&ratios)
    );
    let what = format!("a write with {what} / without");
    let times = [with, without].map(|times| in_ms(median(times)));
    table.compared(PART, what, times, median(&ratios), Goal::AtMost(1.1));
    rounds * writes
}

/// Makes one write; returns how many milliseconds it took.
async fn write(connection: &mut Connection, n: usize) -> f64 {
    let request = update(&key(n % FILES), &format!("Written {n}"));
    let started = Instant::now();
    let (status, _) = connection.ask(request.as_bytes()).await;
    assert_eq!(status, 200);
    ms(started)
}

/// Reads until the stream contains `last`; returns everything read.
async fn reads_until(stream: &mut TcpStream, last: &str) -> String {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).contains(last) {
        let read = stream.read_buf(&mut text).await.expect("the stream goes on");
        assert!(read > 0, "the stream ended");
    }
    String::from_utf8_lossy(&text).into_owned()
}
