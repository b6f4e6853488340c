//! Whether writing slows down as the history grows.

use super::{GROUP_LEN, append, open};
use crate::support::{median, repository, setting, thread_cpu_s};

/// How many parts the run is told in.
const PARTS: usize = 10;

/// Prints the speed of each tenth of the run.
pub(crate) fn compare() {
    let collections = setting("COLLECTORY_BENCH_COLLECTIONS", 1_000);
    let commits = setting("COLLECTORY_BENCH_COMMITS", 20_000);
    let (_folder, path) = repository(collections, true);
    let mut journal = open(&path);
    println!("{commits} commits in groups of {GROUP_LEN}, {collections} files, by tenths:");
    println!(
        "{:>10}  {:>9}  {:>14}  {:>13}  {:>5}",
        "commits", "commits/s", "median group", "CPU/commit", "packs"
    );
    let mut medians = Vec::new();
    let part = commits / PARTS;
    for number in 0..PARTS {
        let cpu = thread_cpu_s();
        let times = append(&mut journal, (number * part, part, GROUP_LEN), collections, "long");
        let cpu = (thread_cpu_s() - cpu) / part as f64 * 1e6;
        let packs = std::fs::read_dir(path.join("objects/pack")).expect("it is there").flatten();
        let packs = packs.filter(|entry| entry.path().extension().is_some_and(|it| it == "pack")).count();
        let (rate, middle) = (part as f64 / times.iter().sum::<f64>(), median(&times));
        println!(
            "{:>10}  {rate:>9.0}  {:>11.1} ms  {cpu:>10.0} µs  {packs:>5}",
            (number + 1) * part,
            middle * 1e3
        );
        medians.push([rate, middle, cpu]);
    }
    let [first, .., last] = medians.as_slice() else { return };
    println!(
        "at the end / at the start: {:.2} by the mean, {:.2} by the median group, {:.2} by CPU time",
        last[0] / first[0],
        first[1] / last[1],
        first[2] / last[2]
    );
}
