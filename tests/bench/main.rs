//! Measures the service. Each figure is measured in turn with the one that it is compared with, and medians count,
//! because machines are noisy.
//!
//! ```text
//! cargo bench                  all parts but the last two, and one table of the figures with a goal
//! cargo bench -- read etcd     these parts
//!
//! read          one collection and a list of 1,000, against bare hyper with the same bytes
//! journal       groups of 64 commits, no HTTP, against `git fast-import`
//! service       updates over HTTP, against `git commit`, libgit2 and `git fast-import`
//! work-tree     updates over HTTP, with a work tree against bare
//! etcd          updates over HTTP, against etcd's gateway, where installed
//! kinto         updates over HTTP, against Kinto on PostgreSQL, where installed
//! signing       what signatures cost
//! reload        the start on 100,000 collections and its memory, against reading the same blobs
//! hand-edit     from a saved file and from a commit to the answer
//! history       queries on a long history, beside `git log`
//! operations    metrics, access log, TLS and a receiver that is down, against without
//! pages         the web pages, beside the JSON of the same data
//! subscribers   updates with 1,000 open streams, against none
//! remote        updates at instances that share a remote, against a script that retries `git push`
//! size          bytes a commit after maintenance, against `git gc`
//! long          whether writing slows down as the history grows
//! ```
//!
//! Each part's file documents its settings. The program under test is that of this build, or the one that
//! `COLLECTORY_BENCH_PROGRAM` names. Other programs: `git` 2.40 or newer; etcd, installed by
//! `apt-get install etcd-server`; and Kinto, whose part says how to install it.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

#[path = "../it/support/git_servers.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests want more of it")]
mod git_servers;
mod hand_edit;
mod history;
mod operations;
mod pages;
#[path = "../it/support/proxy.rs"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests want more of it")]
mod proxy;
mod read;
mod reload;
mod remote;
mod signing;
mod subscribers;
mod support;
mod table;
mod writes;

use std::path::Path;

use support::on_one_thread;
use table::Table;
use writes::{etcd, journal, kinto, long, service, size};

/// A part of the benchmark.
struct Part {
    name: &'static str,
    run: fn(&mut Table),
    /// Whether the part runs only when named on the command line.
    is_long: bool,
}

impl Part {
    const fn new(name: &'static str, run: fn(&mut Table)) -> Self {
        Self { name, run, is_long: false }
    }

    const fn long(name: &'static str, run: fn(&mut Table)) -> Self {
        Self { is_long: true, ..Self::new(name, run) }
    }
}

const PARTS: [Part; 16] = [
    Part::new(read::PART, |table| on_one_thread(read::compare(table))),
    Part::new(journal::PART, journal::compare),
    Part::new(service::PART, |table| on_one_thread(service::compare(table))),
    Part::new(service::WORK_TREE, |table| on_one_thread(service::compare_work_tree(table))),
    Part::new(etcd::PART, |table| on_one_thread(etcd::compare(table))),
    Part::new(kinto::PART, |table| on_one_thread(kinto::compare(table))),
    Part::new(signing::PART, |_| on_one_thread(signing::compare())),
    Part::new(reload::PART, |table| on_one_thread(reload::compare(table))),
    Part::new(hand_edit::PART, |table| on_one_thread(hand_edit::compare(table))),
    Part::new(history::PART, |table| on_one_thread(history::compare(table))),
    Part::new(operations::PART, |table| on_one_thread(operations::compare(table))),
    Part::new(pages::PART, |table| on_one_thread(pages::compare(table))),
    Part::new(subscribers::PART, |table| on_one_thread(subscribers::compare(table))),
    Part::new(remote::PART, |table| on_one_thread(remote::compare(table))),
    Part::long(size::PART, size::compare),
    Part::long(long::PART, long::compare),
];

fn main() {
    // `cargo bench` passes a `--bench` flag.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [flag, file] = arguments.as_slice()
        && flag == read::ANSWER_WITH
    {
        return read::answer_with(Path::new(file));
    }
    for wanted in &arguments {
        assert!(PARTS.iter().any(|part| part.name == wanted), "there is no part {wanted:?}");
    }
    let is_wanted = |part: &Part| {
        if arguments.is_empty() { !part.is_long } else { arguments.iter().any(|it| it == part.name) }
    };
    let mut table = Table::default();
    for part in PARTS.iter().filter(|part| is_wanted(part)) {
        println!("# {}\n", part.name);
        (part.run)(&mut table);
        println!();
    }
    println!("{table}");
}
