//! Durable commits per second, against git, libgit2 and others on the same work.
//!
//! ```text
//! cargo bench --bench write_path              all but the last two
//! cargo bench --bench write_path -- journal   groups of 64, no HTTP, against `git fast-import`
//! cargo bench --bench write_path -- service   over HTTP, against `git commit`, libgit2, fast-import
//! cargo bench --bench write_path -- work-tree over HTTP, with a work tree against bare
//! cargo bench --bench write_path -- etcd      over HTTP, against etcd's gateway, where installed
//! cargo bench --bench write_path -- kinto     over HTTP, against Kinto on PostgreSQL, where installed
//! cargo bench --bench write_path -- size      bytes per commit after maintenance, against `git gc`
//! cargo bench --bench write_path -- long      whether writing slows down as the history grows, and
//!                                             what packs, memory and open files come to
//! ```
//!
//! What is compared is measured in turn within one run; medians and ratios are printed. `journal`
//! opens the repository as the service does and hands it groups, so it is the bound of what the
//! service can reach. `long` makes 20,000 commits, `COLLECTORY_BENCH_COMMITS=1000000` a million, which
//! take some minutes and 2 GB below `TMPDIR`.
//!
//! `COLLECTORY_BENCH_COLLECTIONS` (1000; `journal`: 1,000, 10,000 and 100,000),
//! `COLLECTORY_BENCH_ROUNDS` (5), `COLLECTORY_BENCH_MS` (1000 a measurement of the service),
//! `COLLECTORY_BENCH_BARE` (1; 0 for a repository with a work tree), `COLLECTORY_BENCH_COMMITS`.
//!
//! Peers: `git` 2.40 or newer; `apt-get install etcd-server` brings etcd. Kinto is the program that
//! `COLLECTORY_BENCH_KINTO` names, or the first of `PATH`, with uWSGI in the same folder; without it the
//! bench says how to install it.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod support;
mod writes;

use support::on_one_thread;
use writes::{etcd, journal, kinto, long, service, size};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    if is_wanted("journal") {
        journal::compare();
    }
    if is_wanted("service") {
        on_one_thread(service::compare());
    }
    if is_wanted("work-tree") {
        on_one_thread(service::compare_work_tree());
    }
    if is_wanted("etcd") {
        on_one_thread(etcd::compare());
    }
    if is_wanted("kinto") {
        on_one_thread(kinto::compare());
    }
    for (part, run) in [("size", size::compare as fn()), ("long", long::compare)] {
        if wanted.iter().any(|word| word == part) {
            run();
        }
    }
}
