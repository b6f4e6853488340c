//! Reading, against the least that any server could do: bare hyper with the same bytes.
//!
//! Prints requests per second of reading one collection and the list of 1,000, and their ratio to
//! a hyper server in a process of its own that answers the same bytes without looking. Both are
//! measured in turn, several rounds, and the median of the ratios counts (the aim is 0.9).
//!
//! `COLLECTORY_BENCH_ROUNDS` (5), `COLLECTORY_BENCH_MS` (600 a measurement),
//! `COLLECTORY_BENCH_CONNECTIONS` (64), `COLLECTORY_BENCH_LISTED` (1000).

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod support;

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
use support::{Connection, Process, load, median, on_one_thread, repository, setting};

const ONE: &[u8] = b"GET /collections/collection-000000 HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.api+json\r\n\r\n";
const LIST: &[u8] =
    b"GET /collections HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.api+json\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("--answer-with") {
        let file = arguments.next().expect("the name of a file with a response");
        answer_with(Path::new(&file));
    } else {
        on_one_thread(compare());
    }
}

async fn compare() {
    let (folder, path) = repository(setting("COLLECTORY_BENCH_LISTED", 1000), true);
    let service = Process::serve(&path);
    for (name, request) in [("read one", ONE), ("list all", LIST)] {
        let mut connection = Connection::open(service.address).await;
        let (status, response) = connection.ask(request).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(response));
        let file = folder.path().join("response");
        std::fs::write(&file, response).expect("a file can be written");
        let length = response.len();
        let program = std::env::current_exe().expect("a program knows itself");
        let bare = Process::start(Command::new(program).arg("--answer-with").arg(&file));
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 5) {
            let service = measure(&service, request).await;
            let bare = measure(&bare, request).await;
            ours.push(service);
            theirs.push(bare);
            ratios.push(service / bare);
        }
        println!(
            "{name} ({length} bytes): {:.0}/s, bare hyper {:.0}/s, ratio {:.2}",
            median(&ours),
            median(&theirs),
            median(&ratios)
        );
    }
}

async fn measure(server: &Process, request: &'static [u8]) -> f64 {
    let time = Duration::from_millis(setting("COLLECTORY_BENCH_MS", 600) as u64);
    load(server.address, setting("COLLECTORY_BENCH_CONNECTIONS", 64), request, time).await
}

/// Serves one recorded response to whatever is asked, with hyper and nothing else.
fn answer_with(file: &Path) {
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

/// A response as it was recorded, without the headers that hyper sets itself.
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
