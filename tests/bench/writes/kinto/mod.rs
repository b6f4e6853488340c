//! Measures the whole service over HTTP against Kinto on PostgreSQL, the most similar settings service.
//!
//! Kinto runs as its documentation recommends for production: on uWSGI, with PostgreSQL as the backend for
//! everything. PostgreSQL has `initdb`'s defaults, so every commit is flushed. Neither service authenticates its
//! clients. Half of Kinto's records have a history, as all of ours do; the other half have none.

mod database;
mod server;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::server::{Kinto, PROCESSES};
use super::service::updates;
use super::{ask, rounds, settle, until_it_listens};
use crate::support::{Connection, Process, key, median, repository, setting};
use crate::table::{Goal, Table, per_second};

const CLIENTS: usize = 32;

/// How to install what is needed.
const INSTALL: &str = "Kinto is not installed: `apt-get install postgresql python3-venv python3-dev gcc`, \
    `python3 -m venv ~/kinto`, `~/kinto/bin/pip install \"kinto[postgresql]\" \"setuptools<81\" uwsgi`, \
    and `COLLECTORY_BENCH_KINTO=~/kinto/bin/kinto` for the bench";

/// The buckets with and without history.
const BUCKETS: [(&str, &str); 2] = [("kept", "with its history plugin"), ("plain", "without history")];

/// How many requests a Kinto batch may have by default.
const BATCH_LEN_MAX: usize = 25;

pub(crate) const PART: &str = "kinto";

/// Prints both figures, if Kinto and PostgreSQL are installed.
pub(crate) async fn compare(table: &mut Table) {
    let Some(kinto) = Kinto::start() else {
        println!("{INSTALL}");
        return;
    };
    until_it_listens(kinto.address).await;
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    for (bucket, _) in BUCKETS {
        fill(kinto.address, bucket, count).await;
    }
    let (_folder, path) = repository(count, true);
    let service = Process::serve(&path);
    let mut figures: [Figures; 2] = Default::default();
    for round in 0..rounds() {
        settle();
        let ours = async { (updates(service.address, CLIENTS, count, round).await, 0.0) };
        let ours = Turn::of(ours, || service.processor_time()).await;
        for (figures, (bucket, _)) in figures.iter_mut().zip(BUCKETS) {
            settle();
            let theirs = patches(kinto.address, bucket, count, round);
            let theirs = Turn::of(theirs, || kinto.processor_time()).await;
            figures.turns.push([ours, theirs]);
        }
    }
    println!(
        "durable PATCH/s over HTTP, {CLIENTS} clients, {count} collections, bare / Kinto on PostgreSQL, \
         uWSGI with {PROCESSES} processes:"
    );
    for (figures, (_, name)) in figures.iter().zip(BUCKETS) {
        println!("  {name:<24} {figures}");
    }
    let [with_history, _] = &figures;
    let what = format!("PATCH, {CLIENTS} clients / Kinto on PostgreSQL, with a history");
    let rates = [0, 1].map(|who| per_second(with_history.median(|turns| turns[who].rate)));
    table.compared(PART, what, rates, with_history.ratio(), Goal::AtLeast(25.0));
}

/// The results of one service in a round.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Updates per second answered with 200.
    rate: f64,
    /// The fraction of requests answered otherwise: with 409, when two updates fall into the same millisecond.
    refused: f64,
    /// The processor time per update, which depends less on the load of the machine.
    cpu_ms: f64,
}

impl Turn {
    async fn of(work: impl Future<Output = (f64, f64)>, cpu: impl Fn() -> Duration) -> Self {
        let (started, before) = (Instant::now(), cpu());
        let (rate, refused) = work.await;
        let updates = rate * started.elapsed().as_secs_f64();
        Self { rate, refused, cpu_ms: (cpu() - before).as_secs_f64() * 1e3 / updates }
    }
}

/// The results of all rounds, ours first.
#[derive(Default)]
struct Figures {
    turns: Vec<[Turn; 2]>,
}

impl Figures {
    fn median(&self, figure: impl Fn(&[Turn; 2]) -> f64) -> f64 {
        median(&self.turns.iter().map(figure).collect::<Vec<_>>())
    }

    /// The ratio of our rate to theirs.
    fn ratio(&self) -> f64 {
        self.median(|[ours, theirs]| ours.rate / theirs.rate)
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [ours, theirs] = [0, 1].map(|who| self.median(|turns| turns[who].rate));
        write!(f, "{ours:.0} / {theirs:.0}  {:.1}", self.ratio())?;
        let [ours, theirs] = [0, 1].map(|who| self.median(|turns| turns[who].cpu_ms));
        let ratio = self.median(|[ours, theirs]| theirs.cpu_ms / ours.cpu_ms);
        write!(f, "   processor time {ours:.2} / {theirs:.2} ms  {ratio:.1}")?;
        write!(f, "   {:.1} % refused by Kinto", self.median(|[_, theirs]| theirs.refused) * 100.0)
    }
}

/// Creates a bucket that everyone may write, with one collection of records.
async fn fill(address: SocketAddr, bucket: &str, count: usize) {
    let mut connection = Connection::open(address).await;
    let everybody = json!({"permissions": {"write": ["system.Everyone"]}});
    let folder = format!("/v1/buckets/{bucket}");
    expect(&mut connection, &request("PUT", &folder, &everybody), 201).await;
    let folder = format!("{folder}/collections/settings");
    expect(&mut connection, &request("PUT", &folder, &json!({})), 201).await;
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(BATCH_LEN_MAX) {
        let requests: Vec<Value> = numbers.iter().map(|number| record(bucket, *number)).collect();
        let batch = json!({"defaults": {"method": "PUT"}, "requests": requests});
        expect(&mut connection, &request("POST", "/v1/batch", &batch), 200).await;
    }
}

async fn expect(connection: &mut Connection, request: &str, wanted: u16) {
    let (status, answer) = connection.ask(request.as_bytes()).await;
    assert_eq!(status, wanted, "{}", String::from_utf8_lossy(answer));
}

/// A record with the values of our file of this number.
fn record(bucket: &str, number: usize) -> Value {
    json!({"path": path(bucket, number), "body": {"data": {
        "type": "document", "name": "Seed", "directory": format!("content/section/{number}"),
        "recursive": true, "format": "markdown", "documentTitleKey": "title",
        "documentDescriptionKey": "summary", "revisionDirectory": format!("revisions/{number}"),
    }}})
}

/// The path of a record, relative to the API root.
fn path(bucket: &str, number: usize) -> String {
    format!("/buckets/{bucket}/collections/settings/records/{}", key(number))
}

/// Updates names, with separate records for each client. Returns updates per second, and the fraction refused.
async fn patches(address: SocketAddr, bucket: &'static str, count: usize, round: usize) -> (f64, f64) {
    let answered = ask(address, CLIENTS, move |client, asked| {
        let name = format!("Round {round} of {CLIENTS} clients, {client} writes {asked}");
        let path = format!("/v1{}", path(bucket, (client + CLIENTS * asked) % count));
        request("PATCH", &path, &json!({"data": {"name": name}}))
    });
    let answered = answered.await;
    (answered.per_second, answered.refused)
}

fn request(method: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
