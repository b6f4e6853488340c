//! Malformed HTTP: it is refused, the service continues and nothing changes.

use crate::support::{RawRequest, TestServer, raw_exchange};

const MALFORMED: &[&str] = &[
    "\r\n\r\n\r\n\r\nnonsense\r\n\r\n",
    "GET\r\n\r\n",
    "GET /collections\r\n\r\n",
    "GET /collections HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "GET /collections HTTP/1.1\r\nHost x\r\n\r\n",
    "GET /collections HTTP/1.1\r\nHost: localhost\r\nBad Header: 1\r\nConnection: close\r\n\r\n",
    "GET /coll ections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "GET http://[::1/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\nConnection: close\r\n\r\n{}",
    "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\nConnection: close\r\n\r\n{}",
    "POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    "POST /collections HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/vnd.api+json\r\nConnection: close\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "POST /collections HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: rot13\r\nConnection: close\r\n\r\n{}",
];

#[tokio::test]
async fn malformed_requests_are_refused_and_the_service_lives_on() {
    let server = TestServer::start("small").await;
    let head = server.repo().head();
    for text in MALFORMED {
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 400"), "{text:?} was answered with {answer:?}");
        server.read("posts").await.is(200);
    }
    assert_eq!(server.repo().head(), head);
}

#[tokio::test]
async fn what_is_refused_before_it_is_looked_at_is_named_too() {
    let server = TestServer::setup("small").flag(&["--uri-bytes-max", "300"]).start().await;
    for (bytes, id) in [(400, "mine"), (200_000, "")] {
        let (path, named) = ("/".repeat(bytes), "X-Request-Id: mine\r\n");
        let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{named}\r\n");
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 414"), "{answer}");
        assert!(answer.contains(&format!("x-request-id: {id}")), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_coded_in_an_unknown_way_is_501() {
    let server = TestServer::start("small").await;
    for (coding, status) in [("gzip, chunked", 501), ("chunked, chunked", 501), ("Chunked", 204)] {
        let text = format!(
            "DELETE /collections/posts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/vnd.api+json\r\nTransfer-Encoding: {coding}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        );
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{coding} was answered with {answer:?}");
    }
}

/// Otherwise the reason would be lost, and the same request sent again would be another one.
#[tokio::test]
async fn a_deletion_whose_body_does_not_arrive_as_a_whole_is_none() {
    let server = TestServer::start("small").await;
    let deletion = |length: &str, body: &str| {
        format!(
            "DELETE /collections/posts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Idempotency-Key: k\r\nContent-Type: application/vnd.api+json\r\n{length}\r\n\r\n{body}"
        )
    };
    let body = r#"{"meta": {"reason": "The contract has ended"}}"#;
    for (text, status) in [
        (deletion("Transfer-Encoding: chunked", &format!("10\r\n{}\r\nno chunk\r\n", &body[..16])), "400"),
        (deletion("Content-Length: 2000000", ""), "413"),
        (deletion(&format!("Content-Length: {}", body.len()), body), "204"),
    ] {
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{text:?} was answered with {answer:?}");
    }
    assert!(server.repo().git(&["log", "-1"]).contains("The contract has ended"));
}

/// A host and a port alone are a target for proxies, in which warp finds no path.
#[tokio::test]
async fn a_tunnel_is_refused_in_words() {
    let server = TestServer::start("small").await;
    for (line, status) in [("CONNECT example.org:80", 501), ("GET example.org:80", 400)] {
        let text = format!("{line} HTTP/1.1\r\nHost: example.org:80\r\n\r\n");
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line} was answered with {answer:?}");
        assert!(answer.contains("application/vnd.api+json"), "{answer}");
    }
    RawRequest::new("CONNECT", "/collections").send(server.address()).is(405);
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_refused() {
    let server = TestServer::start("small").await;
    let many: String = (0..2000).map(|n| format!("X-Header-{n}: value\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "x".repeat(2 * 1024 * 1024));
    for headers in [many, large] {
        let text =
            format!("GET /collections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        let answer = raw_exchange(server.address(), text.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
        server.read("posts").await.is(200);
    }
}
