//! The stream of events: each once and in order, across disconnects, restarts and rewritten branches.

use serde_json::json;

use super::{first_parents, in_order, with_history};
use crate::support::{EventStream, StreamMessage, TestServer, document};

#[tokio::test]
async fn what_happens_is_told_as_it_happens_and_the_head_meanwhile() {
    let server = TestServer::setup("small").flag(&["--heartbeat-ms", "50"]).start().await;
    let mut stream = EventStream::open(server.address(), "", None);
    assert!(stream.head.starts_with("http/1.1 200"), "{}", stream.head);
    for line in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "vary: accept",
        "x-accel-buffering: no",
    ] {
        assert!(stream.head.contains(line), "{}", stream.head);
    }
    let head = stream.next_message().unwrap();
    let before = server.repo().head();
    assert_eq!(
        head,
        StreamMessage { id: Some(before.clone()), event: "head".into(), data: json!({"revision": before}) }
    );
    server.create(&document("new", json!({"name": "New"}))).await.is(201);
    let heard = stream.next_event();
    assert_eq!((heard.id, heard.event.as_str()), (Some(server.repo().head()), "created"));
    assert_eq!(heard.data, server.get("/events?page[size]=1").await.is(200).data()[0]);
    server.delete("new").await.is(204);
    assert_eq!(stream.next_event().event, "deleted");
}

#[tokio::test]
async fn a_cut_stream_resumes_from_any_event_over_restarts_and_hears_each_once() {
    let mut server = with_history().await;
    server.repo().write("collections/a.yaml", "type: media\n");
    server.repo().write("collections/b.yaml", "type: media\n");
    let two = server.commit_by_hand("Two at once").await;
    server.patch("posts", json!({"name": "Last"})).await.is(200);
    let events = server.get("/events?page[size]=100").await.is(200).data();
    let expected = in_order(events.as_array().unwrap());
    let expected: Vec<_> = expected.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    let root = first_parents(&server).pop().unwrap();
    let mut heard: Vec<String> = expected[..3].to_vec();
    let mut last = root;
    while heard.len() < expected.len() {
        let mut stream = EventStream::open(server.address(), "", Some(&last));
        let event = stream.next_event();
        heard.push(event.data["id"].as_str().unwrap().to_owned());
        last = event.id.unwrap();
        if heard.len().is_multiple_of(2) {
            server.kill();
            server.start_again().await;
        }
    }
    assert_eq!(heard, expected);
    assert!(last == server.repo().head());
    let all = EventStream::open(server.address(), "?filter[since]=2000-01-01T00:00:00Z", None);
    let all = std::iter::repeat_n((), expected.len()).scan(all, |stream, ()| Some(stream.next_event()));
    let all: Vec<_> = all.map(|event| event.data["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(all, expected, "from the first event on");
    let ids =
        EventStream::open(server.address(), "?filter[collection]=b&filter[since]=2000-01-01T00:00:00Z", None)
            .next_event();
    assert_eq!(ids.id, Some(format!("{two}/2")));
}

#[tokio::test]
async fn a_place_that_is_no_more_or_never_was_is_told_to_reset() {
    let server = with_history().await;
    server.repo().write("collections/a.yaml", "type: media\n");
    server.repo().write("collections/b.yaml", "type: media\n");
    let two = server.commit_by_hand("Two at once").await;
    let one = server.patch("posts", json!({"name": "Alone"})).await.is(200).header("collectory-revision");
    let gone = server.patch("posts", json!({"name": "Gone"})).await.is(200).header("collectory-revision");
    let mut open = EventStream::open(server.address(), "", None);
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let head = server.repo().head();
    assert_eq!(head, one);
    server.wait_for_revision(&head).await;
    let reset =
        || StreamMessage { id: Some(head.clone()), event: "reset".into(), data: json!({"revision": head}) };
    assert_eq!(open.next_event(), reset());
    let never = [format!("{two}/3"), format!("{two}/0"), format!("{one}/2"), format!("{gone}/1")];
    let never = never.iter().map(String::as_str);
    for last in never.chain([gone.as_str(), "0123456789012345678901234567890123456789", "nonsense"]) {
        assert_eq!(EventStream::open(server.address(), "", Some(last)).next_event(), reset(), "{last}");
    }
    for (last, next) in [(format!("{two}/1"), format!("{two}/2")), (format!("{two}/2"), one.clone())] {
        assert_eq!(
            EventStream::open(server.address(), "", Some(&last)).next_event().id,
            Some(next),
            "{last}"
        );
    }
    server.patch("posts", json!({"name": "On"})).await.is(200);
    assert_eq!(open.next_event().event, "updated", "it goes on from the named revision");
}

#[tokio::test]
async fn filters_hold_in_the_stream_and_what_is_wrong_is_refused() {
    let server = TestServer::start("small").await;
    let mut stream =
        EventStream::open(server.address(), "?filter[collection]=pages&filter[action]=updated", None);
    server.patch("posts", json!({"name": "A"})).await.is(200);
    server.patch("pages", json!({"name": "B"})).await.is(200);
    assert_eq!(stream.next_event().data["attributes"]["collection"], "pages");
    for (query, status) in
        [("?page[size]=1", "400"), ("?filter[collection]=never", "404"), ("?filter[since]=a..b", "400")]
    {
        let refused = EventStream::open(server.address(), query, None);
        assert!(refused.head.starts_with(&format!("http/1.1 {status}")), "{}", refused.head);
        assert!(refused.head.contains("application/vnd.api+json"), "{}", refused.head);
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_service() {
    let mut server = TestServer::start("small").await;
    let mut stream = EventStream::open(server.address(), "", None);
    let log = server.stop();
    assert!(!log.contains("cut off"), "{log}");
    assert_eq!(stream.next_message(), None);
}

/// More than the sockets of one connection buffer between the service and a reader that reads nothing.
const MORE_THAN_SOCKETS_HOLD_BYTES: usize = 16 * 1024 * 1024;

const TEXT_BYTES: usize = 60_000;

/// Makes commits outside the service; the event of each contains a long old and a long new text.
fn commit_long_texts(server: &TestServer, commits: std::ops::Range<usize>) {
    let mut stream = String::new();
    let mut onto = "from refs/heads/main^0\n";
    for n in commits {
        let file = format!("type: document\nx-text: {n} {}\n", "x".repeat(TEXT_BYTES));
        let len = file.len();
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter A <a@example.org> 1767225600 +0000\ndata 4\nLong\n{onto}\
             M 100644 inline collections/posts.yaml\ndata {len}\n{file}\n"
        ));
        // The parent of the next commit is the one that this stream has just made.
        onto = "";
    }
    server.repo().fast_import(&stream);
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_to_begin_again_and_nobody_waits_for_it() {
    let server = TestServer::setup("small").bare();
    let server = server.flag(&["--lag-events-max", "10"]).flag(&["--answer-wait-ms-max", "600000"]);
    let server = server.start().await;
    let mut slow = EventStream::open(server.address(), "?filter[collection]=posts", None);
    let mut quick = EventStream::open(server.address(), "?filter[collection]=pages", None);
    let commits = MORE_THAN_SOCKETS_HOLD_BYTES / (2 * TEXT_BYTES);
    for first in (0..commits).step_by(8) {
        commit_long_texts(&server, first..first + 8);
        server.wait_for_revision(&server.repo().head()).await;
        server.patch("pages", json!({"name": format!("After {first}")})).await.is(200);
        assert_eq!(quick.next_event().id, Some(server.repo().head()));
    }
    server.patch("posts", json!({"x-text": "The last"})).await.is(200);
    let head = server.repo().head();
    let (mut received, mut from) = (0, None);
    loop {
        let heard = slow.next_event();
        match heard.event.as_str() {
            "updated" => received += 1,
            "reset" => (received, from) = (0, heard.id.clone()),
            other => panic!("{other}"),
        }
        if heard.id.as_ref() == Some(&head) {
            break;
        }
    }
    let from = from.expect("it was told everything, so it was not slow");
    let since =
        server.repo().git(&["rev-list", "--count", &format!("{from}..main"), "--", "collections/posts.yaml"]);
    assert_eq!(received.to_string(), since, "from the named revision on nothing is left out");
}
