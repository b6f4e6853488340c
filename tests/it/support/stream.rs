//! A stream of server-sent events, read as a browser reads it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::patience::DEADLINE;

#[derive(Debug)]
pub(crate) struct EventStream {
    /// The head of the answer, in lower case.
    pub(crate) head: String,
    body: BufReader<TcpStream>,
    text: String,
}

/// A message of the stream.
#[derive(Debug, PartialEq)]
pub(crate) struct StreamMessage {
    pub(crate) id: Option<String>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl EventStream {
    /// Opens `GET /events` with a query (`?…` or empty), after an event or from now on.
    pub(crate) fn open(address: SocketAddr, query: &str, last_event_id: Option<&str>) -> Self {
        Self::try_open(address, query, last_event_id).expect("the service answers")
    }

    /// Like [`open`](Self::open) from now on, with a token.
    pub(crate) fn open_with_token(address: SocketAddr, query: &str, token: &str) -> Self {
        let header = format!("Authorization: Bearer {token}\r\n");
        Self::try_open_with(address, query, &header).expect("the service answers")
    }

    /// Like [`open`](Self::open), for a service that may be down.
    pub(crate) fn try_open(address: SocketAddr, query: &str, last_event_id: Option<&str>) -> Option<Self> {
        let resume = last_event_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        Self::try_open_with(address, query, &resume)
    }

    /// Opens any path, with further header lines.
    #[track_caller]
    pub(crate) fn open_path(address: SocketAddr, path: &str, headers: &str) -> Self {
        Self::try_of(address, path, headers).expect("the service answers")
    }

    fn try_open_with(address: SocketAddr, query: &str, header: &str) -> Option<Self> {
        Self::try_of(address, &format!("/events{query}"), header)
    }

    fn try_of(address: SocketAddr, path: &str, header: &str) -> Option<Self> {
        let mut socket = TcpStream::connect(address).ok()?;
        socket.set_read_timeout(Some(DEADLINE)).expect("a time limit can be set");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{header}\r\n");
        socket.write_all(request.as_bytes()).ok()?;
        let mut body = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            body.read_line(&mut head).ok().filter(|length| *length > 0)?;
        }
        Some(Self { head: head.to_lowercase(), body, text: String::new() })
    }

    /// Returns the next lines up to a blank one, whatever they are; `None` at the end.
    pub(crate) fn next_block(&mut self) -> Option<String> {
        while !self.text.contains("\n\n") {
            let mut size = String::new();
            self.body.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
            let mut chunk = vec![0; size + 2];
            self.body.read_exact(&mut chunk).ok()?;
            self.text.push_str(std::str::from_utf8(&chunk[..size]).expect("a stream is UTF-8"));
        }
        let (block, rest) = self.text.split_once("\n\n").expect("the block is whole");
        let (block, rest) = (block.to_owned(), rest.to_owned());
        self.text = rest;
        Some(block)
    }

    /// Returns the next message, skipping comments; `None` at the end.
    pub(crate) fn next_message(&mut self) -> Option<StreamMessage> {
        loop {
            let block = self.next_block()?;
            let field = |name: &str| {
                let value = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                value.map(|value| value.trim_start().to_owned())
            };
            if let Some(data) = field("data") {
                let data = serde_json::from_str(&data).expect("the data is JSON");
                let event = field("event").expect("it has a name");
                return Some(StreamMessage { id: field("id"), event, data });
            }
        }
    }

    /// Returns the next event, skipping heartbeats.
    #[track_caller]
    pub(crate) fn next_event(&mut self) -> StreamMessage {
        loop {
            let heard = self.next_message().expect("the stream goes on");
            if heard.event != "head" {
                return heard;
            }
        }
    }
}
