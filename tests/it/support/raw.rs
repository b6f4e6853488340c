//! HTTP by hand: requests that no well-behaved client would send.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::answer::{Answer, SentRequest};
use super::patience::DEADLINE;

/// A request of which the test chooses every byte.
#[derive(Debug, Clone)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl RawRequest {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let framed = self.headers.iter().any(|(name, _)| {
            name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
        });
        if !framed && (!self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PATCH" | "PUT")) {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    /// Sends the request on a new connection.
    pub(crate) fn send(&self, address: SocketAddr) -> Answer {
        let bytes = raw_exchange(address, &self.bytes());
        let asked = SentRequest {
            method: self.method.clone(),
            target: self.target.clone(),
            document: serde_json::from_slice(&self.body).ok(),
        };
        parse(asked, &bytes)
    }
}

/// Sends bytes and returns everything that arrives until the other side closes.
///
/// A reset after the answer is not a failure: a server that refuses a body closes the connection with the body
/// unread, and the answer has arrived nevertheless.
pub(crate) fn raw_exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a time limit can be set");
    let mut reader = stream.try_clone().expect("a socket can be cloned");
    let sent = bytes.to_vec();
    let writer = std::thread::spawn(move || match stream.write_all(&sent) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
        Err(error) => panic!("cannot send: {error}"),
    });
    let mut received = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => received.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !received.is_empty() => break,
            Err(error) => panic!("no answer: {error}; so far {:?}", String::from_utf8_lossy(&received)),
        }
    }
    writer.join().expect("the sender ends");
    received
}

/// Parses one HTTP/1.1 response.
pub(crate) fn parse(asked: SentRequest, bytes: &[u8]) -> Answer {
    let shown = String::from_utf8_lossy(bytes);
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let split = split.unwrap_or_else(|| panic!("{asked:?} is not answered with HTTP: {shown:?}"));
    let head = std::str::from_utf8(&bytes[..split]).expect("a response head is ASCII");
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("not a status line: {status_line:?}"));
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header has a colon");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: Vec<_> = lines.map(header).collect();
    let rest = &bytes[split + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunked(rest) } else { rest.to_vec() };
    Answer { request: asked, status, headers, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").expect("a chunk has a size line");
        let size = std::str::from_utf8(&rest[..line]).expect("a chunk size is ASCII");
        let size =
            usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16).expect("a chunk size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}
