//! Measures groups of 64 commits written durably by our journal, against `git fast-import`, which flushes nothing.

use std::path::Path;
use std::time::Instant;

use super::{GROUP_LEN, append, open, rounds, which};
use crate::support::{commit_head, fast_import, key, median, push_file, repository, setting, thread_cpu_s};
use crate::table::{Goal, Table, per_second};

/// The folder sizes, how many commits a round makes at each size, and the goal.
const SIZES: [(usize, usize, f64); 3] = [(1_000, 2_048, 5.0), (10_000, 1_024, 8.0), (100_000, 128, 10.0)];

pub(crate) const PART: &str = "journal";

pub(crate) fn compare(table: &mut Table) {
    println!("commits/s, groups of {GROUP_LEN}, every group durable / git fast-import, nothing flushed:");
    println!("{:>10}  {:>9}  {:>11}  {:>6}   own CPU a commit", "files", "journal", "fast-import", "ratio");
    let only = setting("COLLECTORY_BENCH_COLLECTIONS", 0);
    for (collections, commits, goal) in SIZES.into_iter().filter(|(files, ..)| only == 0 || only == *files) {
        compare_with(collections, commits, goal, table);
    }
}

fn compare_with(collections: usize, commits: usize, goal: f64, table: &mut Table) {
    let (_ours, path) = repository(collections, true);
    let (_theirs, import) = repository(collections, true);
    let mut journal = open(&path);
    let mut rates: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds() {
        let (started, cpu) = (Instant::now(), thread_cpu_s());
        append(&mut journal, (round * commits, commits, GROUP_LEN), collections, "journal");
        let took = started.elapsed().as_secs_f64();
        rates[0].push(commits as f64 / took);
        rates[3].push((thread_cpu_s() - cpu) / commits as f64 * 1e6);
        let imported = imports(&import, collections, round * commits, commits);
        rates[1].push(imported);
        rates[2].push(commits as f64 / took / imported);
    }
    let [ours, theirs, ratio, cpu] = rates.map(|figures| median(&figures));
    println!("{collections:>10}  {ours:>9.0}  {theirs:>11.0}  {ratio:>6.1}   {cpu:.0} µs");
    table.compared(
        PART,
        format!(
            "groups of {GROUP_LEN} commits, flushed / `git fast-import`, not flushed, {collections} files"
        ),
        [ours, theirs].map(per_second),
        ratio,
        Goal::AtLeast(goal),
    );
}

/// Makes the same commits as one stream for `git fast-import`. Returns commits per second.
pub(crate) fn imports(folder: &Path, collections: usize, first: usize, count: usize) -> f64 {
    let mut stream = String::new();
    for number in first..first + count {
        let which = which(number, collections);
        stream.push_str(&commit_head(&format!("Update {}: name", key(which))));
        if number == first {
            stream.push_str("from refs/heads/main^0\n");
        }
        push_file(&mut stream, which, &format!("Import, commit {number}"));
    }
    let started = Instant::now();
    fast_import(folder, &stream);
    count as f64 / started.elapsed().as_secs_f64()
}
