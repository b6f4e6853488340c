//! Compares the web pages with the JSON of the same data: how long the server takes, and how much is sent.
//!
//! Two repositories: 1,000 collections with a history of 100,000 events, and 100,000 collections. The goal is at most
//! 5 ms for a page, and at most 20 ms for a list page of 100,000. Each is measured `COLLECTORY_BENCH_ROUNDS` (9)
//! times, in turn with the JSON. The sizes and a kept repository are set as for `history`.

use std::time::{Duration, Instant};

use crate::history::{answered, kept, make, ms};
use crate::support::{Connection, Process, key, median, repository, setting};
use crate::table::{Goal, Table, in_ms};

pub(crate) const PART: &str = "pages";

/// The size of a page with its assets as sent, in MB.
const BYTES_MAX: f64 = 0.06;

/// Prints the time of each page and of its JSON.
pub(crate) async fn compare(table: &mut Table) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = kept().unwrap_or_else(|| folder.path().join("history.git"));
    if !path.exists() {
        make(&path);
    }
    let service = Process::serve(&path);
    let mut connection = Connection::open(service.address).await;
    let newest: serde_json::Value =
        serde_json::from_str(&answered(&mut connection, "/events").await).expect("an answer is JSON");
    let event = newest["data"][0]["id"].as_str().expect("an event has an id").to_owned();
    let one =
        newest["data"][0]["attributes"]["collection"].as_str().expect("it is of a collection").to_owned();
    let mut pages = Pages { connection, table, goal_ms: 5.0 };
    pages.weigh().await;
    for (what, page, json) in [
        ("the list", "/".to_owned(), "/collections?page[size]=100".to_owned()),
        ("the list by change", "/?sort=-change".to_owned(), "/collections?page[size]=100".to_owned()),
        ("a search", "/?q=1".to_owned(), "/collections?page[size]=100".to_owned()),
        ("settings", format!("/collections/{one}"), format!("/collections/{one}")),
        ("the source", format!("/collections/{one}/source"), format!("/collections/{one}/blame")),
        (
            "a history",
            format!("/collections/{one}/history"),
            format!("/collections/{one}/events?page[size]=50"),
        ),
        ("the timeline", "/events".to_owned(), "/events?page[size]=50".to_owned()),
        ("an event", format!("/events/{event}"), format!("/events/{event}")),
        (
            "two revisions",
            "/compare?from=HEAD~10&to=HEAD".to_owned(),
            "/diff?filter[from]=HEAD~10&filter[to]=HEAD".to_owned(),
        ),
        (
            "the list as it was",
            "/?asOf=HEAD~50".to_owned(),
            "/collections?asOf=HEAD~50&page[size]=100".to_owned(),
        ),
        ("problems", "/problems".to_owned(), "/problems".to_owned()),
        ("about", "/about".to_owned(), "/capabilities".to_owned()),
    ] {
        pages.measure(what, &page, &json).await;
    }
    drop(service);
    let (_folder, path) = repository(setting("COLLECTORY_BENCH_MANY", 100_000), true);
    let service = Process::serve(&path);
    let mut connection = Connection::open(service.address).await;
    answered(&mut connection, "/events?page[size]=1").await;
    let mut pages = Pages { connection, table: pages.table, goal_ms: 20.0 };
    for (what, page) in [
        ("the list of 100,000", "/"),
        ("its middle", "/?page=500"),
        ("by name", "/?sort=name"),
        ("by change", "/?sort=-change"),
        ("a search in it", "/?q=9999"),
    ] {
        pages.measure(what, page, "/collections?page[size]=100").await;
    }
    pages
        .measure(
            "settings of one of 100,000",
            &format!("/collections/{}", key(7)),
            &format!("/collections/{}", key(7)),
        )
        .await;
}

/// The connection that requests use, and the table that their results go to.
struct Pages<'a> {
    connection: Connection,
    table: &'a mut Table,
    goal_ms: f64,
}

impl Pages<'_> {
    async fn measure(&mut self, what: &str, page: &str, json: &str) {
        let page = format!("/ui{page}");
        let (mut pages, mut jsons) = (Vec::new(), Vec::new());
        // The first request of each kind only warms up.
        for round in 0..=setting("COLLECTORY_BENCH_ROUNDS", 9) {
            for (target, times) in [(page.as_str(), &mut pages), (json, &mut jsons)] {
                let (took, _) = sent(&mut self.connection, target).await;
                times.extend((round > 0).then(|| ms(took)));
            }
        }
        let [page_ms, json_ms] = [median(&pages), median(&jsons)];
        println!(
            "{what}: {} ({page}), its JSON {} ({json}), ratio {:.1}",
            in_ms(page_ms),
            in_ms(json_ms),
            page_ms / json_ms
        );
        self.table.alone(
            PART,
            format!("the page of {what}; its JSON {}", in_ms(json_ms)),
            page_ms,
            Goal::MsAtMost(self.goal_ms),
        );
    }

    /// Measures the size of the first page and its assets.
    async fn weigh(&mut self) {
        let html = answered(&mut self.connection, "/ui/").await;
        let started = Instant::now();
        let (_, mut bytes) = sent(&mut self.connection, "/ui/").await;
        for asset in html.split("\"/ui/assets/").skip(1).filter_map(|rest| rest.split('"').next()) {
            bytes += sent(&mut self.connection, &format!("/ui/assets/{asset}")).await.1;
        }
        println!("the list with its assets: {bytes} bytes in {}", in_ms(ms(started.elapsed())));
        self.table.alone(
            PART,
            "the page of 100 collections with its assets",
            bytes as f64 / 1e6,
            Goal::MbAtMost(BYTES_MAX),
        );
    }
}

/// Sends a request as a browser does; returns how long it took, and the size of the answer's body in bytes.
async fn sent(connection: &mut Connection, target: &str) -> (Duration, usize) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n");
    let started = Instant::now();
    let (status, answer) = connection.ask(request.as_bytes()).await;
    let took = started.elapsed();
    assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(answer));
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    (took, answer.len() - head - 4)
}
