//! Measures the whole service over HTTP against git and libgit2, with a work tree and without.

use std::net::SocketAddr;

use super::{ask, hand, journal, rounds, settle};
use crate::support::{Process, key, median, repository, setting};
use crate::table::{Goal, Table, per_second};

const CLIENTS: usize = 64;

/// How many commits `git commit`, libgit2 and `git fast-import` make in a round.
const GIT_COMMITS: usize = 10;
const LIBGIT2_COMMITS: usize = 50;
const IMPORTED_COMMITS: usize = 1000;

pub(crate) const PART: &str = "service";
pub(crate) const WORK_TREE: &str = "work-tree";

/// Prints the speed of the service, and of the same work by hand.
pub(crate) async fn compare(table: &mut Table) {
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let bare = setting("COLLECTORY_BENCH_BARE", 1) == 1;
    let (_ours, path) = repository(count, bare);
    let (_theirs, by_hand) = repository(count, false);
    let (_libgit2, library) = repository(count, true);
    let (_imported, import) = repository(count, true);
    let service = Process::serve(&path);
    let mut rates: [Vec<f64>; 6] = Default::default();
    let flushed = ["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"];
    for round in 0..rounds() {
        settle();
        rates[0].push(updates(service.address, 1, count, round).await);
        settle();
        rates[1].push(updates(service.address, CLIENTS, count, round).await);
        settle();
        rates[2].push(hand::commits(&by_hand, count, (round, GIT_COMMITS), &[]));
        rates[3].push(hand::commits(&by_hand, count, (round, GIT_COMMITS), &flushed));
        settle();
        rates[4].push(hand::libgit2(&library, count, round, LIBGIT2_COMMITS));
        rates[5].push(journal::imports(&import, count, round * IMPORTED_COMMITS, IMPORTED_COMMITS));
    }
    let [one, many, plain, flushed, library, imported] = rates.map(|figures| median(&figures));
    println!(
        "durable commits/s with {count} collections, {}:",
        if bare { "bare" } else { "with a work tree" }
    );
    println!("  the service: 1 client {one:.0}, {CLIENTS} clients {many:.0}");
    println!("{:>44}  {:>9}  {:>10}", "", "1 client", "64 clients");
    for (name, rate) in [
        ("git commit, flushed", flushed),
        ("git commit, not flushed", plain),
        ("libgit2 TreeUpdateBuilder, flushed", library),
        ("git fast-import, not flushed", imported),
    ] {
        println!("  {name:<36}{rate:>6.0}  {:>9.2}  {:>10.2}", one / rate, many / rate);
    }
    table.compared(
        PART,
        "PATCH, 1 client / libgit2 `TreeUpdateBuilder`, flushed",
        [one, library].map(per_second),
        one / library,
        Goal::AtLeast(2.0),
    );
}

/// Prints the cost of a work tree.
pub(crate) async fn compare_work_tree(table: &mut Table) {
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let (_bare, bare) = repository(count, true);
    let (_checked_out, checked_out) = repository(count, false);
    let [bare, checked_out] = [Process::serve(&bare), Process::serve(&checked_out)];
    println!("durable commits/s with {count} collections, with a work tree / bare:");
    for clients in [1, 32, CLIENTS] {
        let mut rates: [Vec<f64>; 2] = Default::default();
        for round in 0..rounds() {
            settle();
            rates[0].push(updates(checked_out.address, clients, count, round).await);
            settle();
            rates[1].push(updates(bare.address, clients, count, round).await);
        }
        let [with, without] = rates.map(|figures| median(&figures));
        println!("  {clients:>2} clients  {with:>6.0} / {without:>6.0}  {:>5.2}", with / without);
        let what = format!("PATCH with a work tree / bare, clients: {clients}");
        let rates = [with, without].map(per_second);
        table.compared(WORK_TREE, what, rates, with / without, Goal::AtLeast(0.5));
    }
}

/// Updates through the service, with separate collections for each client. Returns updates per second.
pub(crate) async fn updates(address: SocketAddr, clients: usize, collections: usize, round: usize) -> f64 {
    let answered = ask(address, clients, move |client, count| {
        let key = key((client + clients * count) % collections);
        update(&key, &format!("Round {round} of {clients} clients, {client} writes {count}"))
    });
    let answered = answered.await;
    assert_eq!(answered.refusal, None);
    answered.per_second
}

/// The request that renames a collection.
pub(crate) fn update(key: &str, name: &str) -> String {
    let body = format!(
        r#"{{"data":{{"type":"document-collection","id":"{key}","attributes":{{"name":"{name}"}}}}}}"#
    );
    let length = body.len();
    format!(
        "PATCH /collections/{key} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}
