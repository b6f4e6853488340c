//! Measures services that share one branch of a remote: writes per second and their latency, with one instance and
//! with three, over connections of several delays. They are compared with one service without a remote, and with a
//! script that retries `git push`. Also measures how soon a write is visible at another instance, and what a remote
//! costs readers.
//!
//! `COLLECTORY_BENCH_REMOTE_MS` (5000) is how long each measurement takes, `COLLECTORY_BENCH_REMOTE_WRITES` (20) how
//! many writes are awaited at other instances.

mod hub;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::remote::hub::{By, Hub};
use crate::support::{Connection, Process, key, load, median, repository, setting};
use crate::table::{Goal, Table, per_second};
use crate::writes::service::update;

pub(crate) const PART: &str = "remote";

const CLIENTS: usize = 64;
const COLLECTIONS: usize = 256;

/// The transport to the remote, and the delay of each chunk in milliseconds.
const LINES: [(By, u64); 7] = [
    (By::Folder, 0),
    (By::Http, 0),
    (By::Http, 5),
    (By::Http, 50),
    (By::Ssh, 0),
    (By::Ssh, 5),
    (By::Ssh, 50),
];

const LOOPS_MIN: f64 = 20.0;
const THREE_BY_ONE_MIN: f64 = 0.8;
const PUSHES_TO_VISIBLE_MAX: f64 = 2.0;
const READS_MIN: f64 = 0.9;

/// How long a service may take to be ready, and a write to be visible.
const DEADLINE: Duration = Duration::from_secs(60);

fn time() -> Duration {
    Duration::from_millis(setting("COLLECTORY_BENCH_REMOTE_MS", 5000) as u64)
}

pub(crate) async fn compare(table: &mut Table) {
    let (_folder, path) = repository(COLLECTIONS, true);
    let alone = Process::serve(&path);
    let Writes { rate, .. } = writes(&[alone.address]).await;
    println!("acknowledged writes/s, {CLIENTS} clients; without a remote {rate:.0}");
    println!(
        "{:<14}{:>10}{:>9}{:>9}{:>10}{:>9}{:>9}{:>8}{:>8}",
        "ms", "one", "p50", "p99", "three", "p50", "p99", "503", "loop"
    );
    for (by, delay_ms) in LINES {
        compare_over(by, delay_ms, table).await;
    }
    for by in [By::Folder, By::Http, By::Ssh] {
        compare_visible(by, table).await;
    }
    compare_reads(&alone, table).await;
}

async fn compare_over(by: By, delay_ms: u64, table: &mut Table) {
    let what = format!("{}, {delay_ms} ms", by.name());
    let Some(hub) = Hub::new(by, Duration::from_millis(delay_ms), COLLECTIONS) else {
        return println!("{what:<14} sshd is not installed");
    };
    let one = {
        let instance = ready(hub.instance("alone", &[])).await;
        writes(&[instance.address]).await
    };
    let three = {
        let mut instances = Vec::new();
        for name in ["a", "b", "c"] {
            instances.push(ready(hub.instance(name, &[])).await);
        }
        writes(&instances.iter().map(|instance| instance.address).collect::<Vec<_>>()).await
    };
    let by_hand = hub.loops(CLIENTS, time());
    println!(
        "{what:<14}{:>10.0}{:>9.0}{:>9.0}{:>10.0}{:>9.0}{:>9.0}{:>8}{by_hand:>8.1}",
        one.rate,
        one.p50_ms,
        one.p99_ms,
        three.rate,
        three.p50_ms,
        three.p99_ms,
        one.refused + three.refused
    );
    table.compared(
        PART,
        format!("writes over {what}, {CLIENTS} clients / `git pull --rebase`, commit, push"),
        [one.rate, by_hand].map(per_second),
        one.rate / by_hand,
        Goal::AtLeast(LOOPS_MIN),
    );
    table.compared(
        PART,
        format!("the same, three instances with as many clients each / one, {what}"),
        [three.rate, one.rate].map(per_second),
        three.rate / one.rate,
        Goal::AtLeast(THREE_BY_ONE_MIN),
    );
}

/// Measures the time from the answer at one instance until the write is visible at an instance that it notifies, and
/// at one that polls.
async fn compare_visible(by: By, table: &mut Table) {
    let Some(hub) = Hub::new(by, Duration::ZERO, COLLECTIONS) else { return };
    let deaf = ["--watch", "none", "--remote-poll-ms"];
    let notified = ready(hub.instance("told", &[deaf.as_slice(), &["0"]].concat())).await;
    let polling = ready(hub.instance("polling", &[deaf.as_slice(), &["200"]].concat())).await;
    let peer = format!("http://{}/", notified.address);
    let writer = ready(hub.instance("writer", &["--peer", &peer])).await;
    let (mut pushed, mut visible, mut polled) = (Vec::new(), Vec::new(), Vec::new());
    let [mut at, mut there, mut elsewhere] = [
        Connection::open(writer.address).await,
        Connection::open(notified.address).await,
        Connection::open(polling.address).await,
    ];
    for number in 0..setting("COLLECTORY_BENCH_REMOTE_WRITES", 20) {
        let name = format!("Seen {number}.");
        let began = Instant::now();
        let (status, _) = at.ask(update(&key(0), &name).as_bytes()).await;
        assert_eq!(status, 200);
        pushed.push(began.elapsed().as_secs_f64() * 1e3);
        let answered = Instant::now();
        visible.push(seen(&mut there, &name, answered).await);
        polled.push(seen(&mut elsewhere, &name, answered).await);
    }
    let [pushed, visible, polled] = [pushed, visible, polled].map(|figures| median(&figures));
    println!(
        "from the answer to visible elsewhere over {}, ms: a write {pushed:.1}, told {visible:.1}, polled each 200 ms {polled:.1}",
        by.name()
    );
    table.compared(
        PART,
        format!("from the answer to visible elsewhere, told / a write, {}", by.name()),
        [visible, pushed].map(|ms| format!("{ms:.1} ms")),
        visible / pushed,
        Goal::AtMost(PUSHES_TO_VISIBLE_MAX),
    );
}

async fn seen(connection: &mut Connection, name: &str, since: Instant) -> f64 {
    loop {
        let (_, answer) = connection.ask(read().as_bytes()).await;
        if String::from_utf8_lossy(answer).contains(name) {
            return since.elapsed().as_secs_f64() * 1e3;
        }
        assert!(since.elapsed() < DEADLINE, "the write never became visible");
    }
}

async fn compare_reads(alone: &Process, table: &mut Table) {
    let hub = Hub::new(By::Folder, Duration::ZERO, COLLECTIONS).expect("a folder is there");
    let shared = ready(hub.instance("reads", &[])).await;
    let request: &'static [u8] = Box::leak(read().into_bytes().into_boxed_slice());
    let mut rates: [Vec<f64>; 2] = Default::default();
    for _ in 0..5 {
        rates[0].push(load(shared.address, CLIENTS, request, time() / 5).await);
        rates[1].push(load(alone.address, CLIENTS, request, time() / 5).await);
    }
    let [with, without] = rates.map(|figures| median(&figures));
    let rates = [with, without].map(per_second);
    table.compared(PART, "read one with a remote / without", rates, with / without, Goal::AtLeast(READS_MIN));
}

fn read() -> String {
    format!("GET /collections/{} HTTP/1.1\r\nHost: localhost\r\n\r\n", key(0))
}

/// Waits until a service serves the state of the remote.
async fn ready(service: Process) -> Process {
    let (started, mut connection) = (Instant::now(), Connection::open(service.address).await);
    while connection.ask(read().as_bytes()).await.0 != 200 {
        assert!(started.elapsed() < DEADLINE, "the service never became ready");
    }
    service
}

/// The results of a measurement of writes.
struct Writes {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    refused: usize,
}

/// Writes with `CLIENTS` clients at each instance, each to its own collections as far as there are enough.
async fn writes(instances: &[SocketAddr]) -> Writes {
    let (started, time) = (Instant::now(), time());
    let mut tasks = JoinSet::new();
    let clients = CLIENTS * instances.len();
    for client in 0..clients {
        let address = instances[client % instances.len()];
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            let (mut times, mut answered, mut refused, mut count) = (Vec::new(), 0, 0, 0);
            while started.elapsed() < time {
                let which = (client + clients * count) % COLLECTIONS;
                let name = format!("Client {client} writes {count} at {}", started.elapsed().as_nanos());
                let began = Instant::now();
                match connection.ask(update(&key(which), &name).as_bytes()).await.0 {
                    200 => {
                        times.push(began.elapsed().as_secs_f64() * 1e3);
                        // Answers after the end do not count, because fewer clients are writing by then.
                        answered += usize::from(started.elapsed() < time);
                    }
                    503 => refused += 1,
                    other => panic!("a write was answered {other}"),
                }
                count += 1;
            }
            (times, answered, refused)
        });
    }
    let clients = tasks.join_all().await;
    let answered: usize = clients.iter().map(|(_, answered, _)| answered).sum();
    let refused = clients.iter().map(|(.., refused)| refused).sum();
    let mut times: Vec<f64> = clients.into_iter().flat_map(|(times, ..)| times).collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
    };
    Writes { rate: answered as f64 / time.as_secs_f64(), p50_ms: at(50), p99_ms: at(99), refused }
}
