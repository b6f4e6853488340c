//! Measures how long a hand edit takes from `rename(2)`, or from the end of `git commit`, to the new answer over
//! HTTP.
//!
//! Prints the median and the 99th percentile for small and large repositories, for saved files and for commits. Both
//! are measured on the real program in one run (the goals are 30 ms and 100 ms).
//!
//! Settings: `COLLECTORY_BENCH_EDITS` (200; a quarter as many commits), and the number of collections in
//! `COLLECTORY_BENCH_SMALL` (10) and `COLLECTORY_BENCH_LARGE` (10000).

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Connection, Process, file, git, key, repository, setting};
use crate::table::{Goal, Table};

/// An edit that takes longer than this to become visible is an error.
const DEADLINE: Duration = Duration::from_secs(10);

const EDITED: usize = 5;

pub(crate) const PART: &str = "hand-edit";

const MEDIAN_MS_MAX: f64 = 30.0;
const LATE_MS_MAX: f64 = 100.0;

/// Prints both figures, for few collections and for many.
pub(crate) async fn compare(table: &mut Table) {
    println!("{:<32}{:>10}{:>10}", "from the edit to the answer, ms", "median", "99 %");
    for count in [setting("COLLECTORY_BENCH_SMALL", 10), setting("COLLECTORY_BENCH_LARGE", 10_000)] {
        compare_with(count, table).await;
    }
}

async fn compare_with(count: usize, table: &mut Table) {
    let edits = setting("COLLECTORY_BENCH_EDITS", 200);
    let (_folder, path) = repository(count, false);
    let service = Process::serve(&path);
    let mut connection = Connection::open(service.address).await;
    let file = path.join(format!("collections/{}.yaml", key(EDITED)));
    ready(&mut connection).await;
    let saved = measure(0..edits, true, &mut connection, |round| {
        let beside = file.with_file_name(".saving");
        fs::write(&beside, content(round)).expect("a file can be written");
        let started = Instant::now();
        fs::rename(beside, &file).expect("a file can be renamed");
        started
    });
    report(&format!("saved file, {count} collections"), saved.await, table);
    let committed = measure(edits..edits + edits / 4, false, &mut connection, |round| {
        commit(&path, &file, round);
        Instant::now()
    });
    report(&format!("commit, {count} collections"), committed.await, table);
}

async fn ready(connection: &mut Connection) {
    let started = Instant::now();
    while connection.ask(request().as_bytes()).await.0 != 200 {
        assert!(started.elapsed() < DEADLINE, "the service never became ready");
    }
}

/// Makes one edit a round and measures the time until the answer shows it: as uncommitted if `uncommitted`, otherwise
/// as committed.
async fn measure(
    rounds: Range<usize>,
    uncommitted: bool,
    connection: &mut Connection,
    edit: impl Fn(usize) -> Instant,
) -> Vec<Duration> {
    let mut times = Vec::with_capacity(rounds.len());
    for round in rounds {
        let started = edit(round);
        let shown = format!("Round {round}\"");
        loop {
            let (_, answer) = connection.ask(request().as_bytes()).await;
            let answer = String::from_utf8_lossy(answer);
            if answer.contains(&shown) && answer.contains("uncommitted") == uncommitted {
                break;
            }
            assert!(started.elapsed() < DEADLINE, "the edit never became visible");
        }
        times.push(started.elapsed());
    }
    times
}

fn request() -> String {
    format!("GET /collections/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", key(EDITED))
}

fn content(round: usize) -> String {
    file(EDITED, &format!("Round {round}"))
}

fn commit(folder: &Path, file: &Path, round: usize) {
    fs::write(file, content(round)).expect("a file can be written");
    git(folder, &["commit", "-q", "-a", "-m", "By hand"]);
}

fn report(what: &str, mut times: Vec<Duration>, table: &mut Table) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{what:<32}{:>10.2}{:>10.2}", at(50), at(99));
    table.alone(PART, format!("{what}, to the answer, median"), at(50), Goal::MsAtMost(MEDIAN_MS_MAX));
    table.alone(PART, format!("{what}, to the answer, 99 %"), at(99), Goal::MsAtMost(LATE_MS_MAX));
}
