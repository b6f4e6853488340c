//! Measures reads, against the fastest possible server: bare hyper with the same bytes.
//!
//! Prints requests per second for reading one collection and the list of 1,000, and their ratio to a hyper server in
//! its own process that answers the same bytes without inspecting the request. Both are measured in turn over several
//! rounds, and the median of the ratios counts (the goal is 0.9).
//!
//! Settings: `COLLECTORY_BENCH_ROUNDS` (9), `COLLECTORY_BENCH_MS` (600 a measurement), `COLLECTORY_BENCH_CONNECTIONS`
//! (64), `COLLECTORY_BENCH_LISTED` (1000).

use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::support::{Connection, Process, load, median, repository, setting};
use crate::table::{Goal, Table, per_second};

pub(crate) const PART: &str = "read";

/// The flag that turns this program into the bare server.
pub(crate) const ANSWER_WITH: &str = "--answer-with";

pub(crate) const ONE: &[u8] = b"GET /collections/collection-000000 HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.api+json\r\n\r\n";
const LIST: &[u8] =
    b"GET /collections HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.api+json\r\n\r\n";

pub(crate) async fn compare(table: &mut Table) {
    let listed = setting("COLLECTORY_BENCH_LISTED", 1000);
    let (folder, path) = repository(listed, true);
    let service = Process::serve(&path);
    let list = format!("list of {listed}");
    for (name, request) in [("read one", ONE), (&*list, LIST)] {
        let mut connection = Connection::open(service.address).await;
        let (status, response) = connection.ask(request).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(response));
        let file = folder.path().join("response");
        std::fs::write(&file, response).expect("a file can be written");
        let length = response.len();
        let program = std::env::current_exe().expect("a program knows itself");
        let bare = Process::start(Command::new(program).arg(ANSWER_WITH).arg(&file));
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 9) {
            let service = measure(&service, request).await;
            let bare = measure(&bare, request).await;
            ours.push(service);
            theirs.push(bare);
            ratios.push(service / bare);
        }
        let [ours, theirs] = [ours, theirs].map(|rates| per_second(median(&rates)));
        let ratio = median(&ratios);
        println!("{name} ({length} bytes): {ours}, bare hyper {theirs}, ratio {ratio:.2}");
        let what = format!("{name}, {} connections / bare hyper, same bytes", connections());
        table.compared(PART, what, [ours, theirs], ratio, Goal::AtLeast(0.9));
    }
}

async fn measure(server: &Process, request: &'static [u8]) -> f64 {
    load(server.address, connections(), request, time()).await
}

/// How long a measurement takes.
pub(crate) fn time() -> Duration {
    Duration::from_millis(setting("COLLECTORY_BENCH_MS", 600) as u64)
}

/// How many connections read concurrently.
pub(crate) fn connections() -> usize {
    setting("COLLECTORY_BENCH_CONNECTIONS", 64)
}

/// Serves one recorded response to every request, with hyper and nothing else.
pub(crate) fn answer_with(file: &Path) {
    let recorded = std::fs::read(file).expect("the response can be read");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        println!("listening on http://{}/", listener.local_addr().expect("a listener has an address"));
        let response: &'static Response<Full<Bytes>> = Box::leak(Box::new(parse(&recorded)));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("connections come in");
            stream.set_nodelay(true).expect("a socket option can be set");
            connections.spawn(async move {
                let service =
                    service_fn(
                        move |_: Request<Incoming>| async move { Ok::<_, Infallible>(response.clone()) },
                    );
                let mut builder = hyper::server::conn::http1::Builder::new();
                builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
}

/// Parses a recorded response, without the headers that hyper sets itself.
fn parse(recorded: &[u8]) -> Response<Full<Bytes>> {
    let split = recorded.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole response");
    let head = std::str::from_utf8(&recorded[..split]).expect("a response head is ASCII");
    let mut builder = Response::builder();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").expect("a header has a colon");
        if !["date", "content-length"].contains(&name) {
            builder = builder.header(name, value);
        }
    }
    builder
        .body(Full::new(Bytes::copy_from_slice(&recorded[split + 4..])))
        .expect("a recorded response is valid")
}
