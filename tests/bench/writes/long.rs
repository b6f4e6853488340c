//! Measures whether writes slow down as the history grows, and what grows with it.
//!
//! Makes 20,000 commits. A million (`COLLECTORY_BENCH_COMMITS=1000000`) takes some minutes and 2 GB below `TMPDIR`.

use std::path::Path;
use std::time::{Duration, Instant};

use collectory::benched::{GitJournal, Journal as _};

use super::{GROUP_LEN, append, objects_bytes, open, pack_files};
use crate::support::{
    median, own_open_files, own_processor_time, own_resident_bytes, repository, setting, thread_cpu_s,
};
use crate::table::{Goal, Table, per_second};

/// How many parts the run is divided into.
const PARTS: usize = 10;

pub(crate) const PART: &str = "long";

/// Prints the speed of each tenth of the run, and the size of the repository after it.
pub(crate) fn compare(table: &mut Table) {
    let collections = setting("COLLECTORY_BENCH_COLLECTIONS", 1_000);
    let part = setting("COLLECTORY_BENCH_COMMITS", 20_000) / PARTS;
    let (_folder, path) = repository(collections, true);
    let mut journal = open(&path);
    println!(
        "{} commits in groups of {GROUP_LEN}, {collections} files, with maintenance, by tenths:",
        part * PARTS
    );
    println!(
        "{:>10}  {:>9}  {:>12}  {:>10}  {:>12}   what there is then",
        "commits", "commits/s", "median group", "CPU/commit", "maintenance"
    );
    println!("{:>10}  {:>9}  {:>12}  {:>10}  {:>12}   {}", 0, "", "", "", "", Size::of(&path));
    let mut parts = Vec::new();
    for number in 0..PARTS {
        let speed = Speed::of(&mut journal, number * part, part, collections);
        println!("{:>10}  {speed}   {}", (number + 1) * part, Size::of(&path));
        parts.push(speed);
    }
    finish(journal, &path);
    if let [first, .., last] = parts.as_slice() {
        println!(
            "at the end / at the start: {:.2} by the mean, {:.2} by the median group, {:.2} by CPU time",
            last.rate / first.rate,
            first.group_s / last.group_s,
            first.cpu_s / last.cpu_s
        );
        let what = format!("{} commits: speed of the last tenth / of the first", part * PARTS);
        let (rates, ratio) = ([last.rate, first.rate].map(per_second), last.rate / first.rate);
        table.compared(PART, what, rates, ratio, Goal::AtLeast(0.9));
    }
}

/// Waits until all maintenance is done.
fn finish(mut journal: GitJournal, path: &Path) {
    let started = Instant::now();
    journal.start_maintenance().expect("nobody is in the way");
    journal.finish_maintenance();
    println!("when all is tidied up, {:.1} s later: {}", started.elapsed().as_secs_f64(), Size::of(path));
}

/// The speed of a part of the run.
struct Speed {
    /// Commits per second.
    rate: f64,
    /// The time of the median group.
    group_s: f64,
    /// The processor time of the writer thread per commit.
    cpu_s: f64,
    /// The load of the other threads, which do the maintenance, in cores.
    others: f64,
}

impl Speed {
    fn of(journal: &mut GitJournal, first: usize, count: usize, collections: usize) -> Self {
        let (started, whole, cpu) = (Instant::now(), own_processor_time(), thread_cpu_s());
        let times = append(journal, (first, count, GROUP_LEN), collections, "long");
        let (cpu, whole) = (thread_cpu_s() - cpu, own_processor_time() - whole);
        let others = whole.saturating_sub(Duration::from_secs_f64(cpu));
        Self {
            rate: count as f64 / times.iter().sum::<f64>(),
            group_s: median(&times),
            cpu_s: cpu / count as f64,
            others: others.as_secs_f64() / started.elapsed().as_secs_f64(),
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (group_ms, cpu_us) = (self.group_s * 1e3, self.cpu_s * 1e6);
        let rate = self.rate;
        write!(f, "{rate:>9.0}  {group_ms:>9.1} ms  {cpu_us:>7.0} µs  {:>5.2} cores", self.others)
    }
}

/// Quantities that may grow with the history.
struct Size {
    packs: usize,
    bytes: u64,
    resident_bytes: usize,
    open_files: usize,
}

impl Size {
    fn of(path: &Path) -> Self {
        Self {
            packs: pack_files(path),
            bytes: objects_bytes(path),
            resident_bytes: own_resident_bytes().unwrap_or_default(),
            open_files: own_open_files(),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { packs, bytes, resident_bytes, open_files } = self;
        let (bytes, resident) = (*bytes as f64 / 1e6, *resident_bytes as f64 / 1e6);
        write!(
            f,
            "{packs:>3} packs, {bytes:>7.1} MB; {resident:>5.0} MB of memory, {open_files:>3} files open"
        )
    }
}
