//! The stream of one connection, with the behaviour that hyper leaves to its user.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::config::Limits;
use crate::http::server::connection::ClientConnection;
use crate::http::server::counts::Counts;
use crate::http::server::pace::ReadPace;
use crate::http::server::refusal::Refusal;
use crate::shutdown::Shutdown;

/// How long a connection that the service ends stays open for the client to read the last answer.
const LINGER: Duration = Duration::from_secs(1);

/// Maximum bytes that the client may send during that time.
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum size of an answer made by hyper: a status line and at most three short header fields.
const BARE_BYTES_MAX: usize = 256;

/// Answers up to this size are written from one buffer: copying the parts costs less than passing each to the system.
const WHOLE_BYTES_MAX: usize = 1_024;

/// The beginning of a request whose answer has no body.
const HEAD: &[u8] = b"HEAD ";

/// The first part of what a connection in HTTP/2 begins with: a head, though not one of HTTP/1.1 (RFC 9113 section 3.4).
const HTTP_2_HEAD: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// The transport of a connection: TCP, TLS or a Unix socket.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A stream that
///
/// * turns the bare answers that hyper gives to a malformed head (an empty 400, 414 or 431) into JSON:API errors;
/// * fails when the client reads none of its answer for too long, or reads it too slowly;
/// * lingers when it is shut down. Closing a socket with unread data resets it, and the client would lose the
///   answer to a request that was refused half-read (RFC 9112 section 9.6).
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    shutdown: Shutdown,
    request: RequestStart,
    /// Whether the client has sent its last byte.
    at_end: bool,
    /// The answer being written in place of hyper's bytes.
    substitute: Option<Substitute>,
    pace: ReadPace,
    linger: Linger,
    /// Bytes read while checking whether the client has left, which hyper has not read yet.
    ahead: Vec<u8>,
    connection: Arc<ClientConnection>,
    counts: Counts,
}

/// What a refusal by hyper has to know of the current request.
#[derive(Debug, Default)]
struct RequestStart {
    /// Its first bytes, as many as [`HEAD`] has. They are unknown if they arrived together with another request.
    bytes: Vec<u8>,
    /// The length of its first line, as far as it has arrived: distinguishes a long URI from large header fields.
    line_bytes: usize,
    is_line_whole: bool,
    /// The length of the longest path and query that the service takes.
    uri_bytes_max: usize,
}

#[derive(Debug)]
struct Substitute {
    bytes: Vec<u8>,
    written: usize,
    /// How many of hyper's bytes it replaces.
    replaced_len: usize,
}

/// The state of waiting for the client to close a connection that the service ends.
#[derive(Debug, Default)]
struct Linger {
    /// Whether the sending half is shut down.
    is_shut: bool,
    /// The timer that runs until the client closes.
    waiting: Option<Pin<Box<Sleep>>>,
    /// How many bytes the client has sent since.
    bytes: usize,
}

impl RequestStart {
    fn note(&mut self, read: &[u8]) {
        // Empty lines before a request are not part of it (RFC 9112 section 2.2).
        let start = if self.bytes.is_empty() { read.trim_ascii_start() } else { read };
        self.bytes.extend(start.iter().take(HEAD.len() - self.bytes.len()));
        if !self.is_line_whole {
            let end = start.iter().position(|byte| *byte == b'\n');
            self.line_bytes += end.unwrap_or(start.len());
            self.is_line_whole = end.is_some();
        }
    }

    /// Reports whether its path and query are too long.
    const fn is_line_long(&self) -> bool {
        self.line_bytes > self.uri_bytes_max
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.line_bytes, self.is_line_whole) = (0, false);
    }
}

impl<S: Stream> Wire<S> {
    pub(crate) fn new(
        stream: S,
        connection: Arc<ClientConnection>,
        limits: &Limits,
        shutdown: Shutdown,
        counts: Counts,
    ) -> Self {
        Self {
            stream,
            shutdown,
            request: RequestStart { uri_bytes_max: limits.requests.uri_bytes_max, ..RequestStart::default() },
            at_end: false,
            substitute: None,
            pace: ReadPace::of(&limits.answers),
            linger: Linger::default(),
            ahead: Vec::new(),
            connection,
            counts,
        }
    }

    /// Answers without having read anything, and closes the connection.
    pub(crate) async fn refuse(mut self, refusal: Refusal) {
        let fields = self.counts.refused(None, &refusal);
        let answered = async {
            self.write_all(&refusal.to_bytes(fields)).await?;
            self.shutdown().await
        };
        if let Err(error) = answered.await {
            tracing::debug!(%error, "a client left before it was refused");
        }
    }

    /// Writes the substitute. Ready when all of it is written.
    fn poll_substitute(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<usize>>> {
        while let Some(substitute) = &mut self.substitute {
            let rest = &substitute.bytes[substitute.written..];
            if rest.is_empty() {
                let replaced_len = substitute.replaced_len;
                self.substitute = None;
                return Poll::Ready(Ok(Some(replaced_len)));
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => substitute.written += written,
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Records the progress of a write, and fails if the client does not keep up.
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        bytes: usize,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.request.clear();
        }
        self.pace.watch(cx, written, bytes, &self.counts)
    }

    /// Checks whether the client has ended the connection, which hyper does not do while a request is being answered.
    fn poll_peer_close(&mut self, cx: &mut Context<'_>) {
        if self.at_end {
            self.connection.note_end();
        }
        if self.at_end || !self.ahead.is_empty() {
            return;
        }
        let mut bytes = [0_u8; 256];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        self.ahead.extend_from_slice(buffer.filled());
        // A failed connection has ended too.
        if read.is_ready() && self.ahead.is_empty() {
            self.at_end = true;
            self.connection.note_end();
        }
    }

    /// Reads and discards what the client still sends, until it closes or its time is up.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut forgotten = [0_u8; 4_096];
        while !self.at_end && !self.shutdown.has_begun() && self.linger.bytes < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut forgotten);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => self.at_end = true,
                Poll::Ready(Ok(())) => self.linger.bytes += buffer.filled().len(),
                // Whatever the error is, the connection is over.
                Poll::Ready(Err(_)) => self.at_end = true,
                Poll::Pending => {
                    let waiting = self.linger.waiting.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                    ready!(waiting.as_mut().poll(cx));
                    self.at_end = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buffer.remaining());
            let this = &mut *self;
            buffer.put_slice(&this.ahead[..taken]);
            this.request.note(&this.ahead[..taken]);
            this.ahead.drain(..taken);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        self.at_end |= read.is_empty();
        self.request.note(read);
        if let Some(rest) = read.strip_prefix(HTTP_2_HEAD) {
            // Hyper refuses this head like any other, but ends the connection unanswered if it sees what follows too.
            self.ahead.extend_from_slice(rest);
            buffer.set_filled(before + HTTP_2_HEAD.len());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (this, replaced_len) = (&mut *self, bytes.len());
        if this.substitute.is_none()
            && let Some((start, refusal)) = refusal_by_hyper(bytes, this.request.is_line_long())
        {
            let fields = this.counts.refused(None, &refusal);
            // Behind another answer, it is to another request than the one that was noted.
            let is_to_head = start == 0 && this.request.bytes == HEAD;
            let answer = if is_to_head { refusal.head_bytes(fields) } else { refusal.to_bytes(fields) };
            let bytes = [&bytes[..start], &answer].concat();
            this.substitute = Some(Substitute { bytes, written: 0, replaced_len });
        }
        let written = match this.poll_substitute(cx) {
            Poll::Ready(Ok(None)) => Pin::new(&mut this.stream).poll_write(cx, bytes),
            Poll::Ready(Ok(Some(replaced_len))) => Poll::Ready(Ok(replaced_len)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        this.watch(cx, written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A bare answer has no body, so it is never split into several slices.
        if let [single] = slices {
            return self.poll_write(cx, single);
        }
        let mut whole = [0_u8; WHOLE_BYTES_MAX];
        let written = match gather(slices, &mut whole) {
            Some(whole) => Pin::new(&mut self.stream).poll_write(cx, whole),
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        };
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.watch(cx, written, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes each time it has polled the answer.
        if self.connection.is_watched() {
            self.poll_peer_close(cx);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.linger.is_shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.linger.is_shut = true;
        }
        self.poll_linger(cx)
    }
}

/// Copies the slices into one buffer, if they fit.
fn gather<'a>(slices: &[IoSlice<'_>], whole: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut filled = 0;
    for slice in slices {
        whole.get_mut(filled..filled + slice.len())?.copy_from_slice(slice);
        filled += slice.len();
    }
    Some(&whole[..filled])
}

/// Returns the refusal to send if the bytes end in a bare answer of hyper, and the offset where that begins.
fn refusal_by_hyper(bytes: &[u8], is_line_long: bool) -> Option<(usize, Refusal)> {
    let (start, refusal) = bare_answer(bytes)?;
    let is_of_line = refusal == Refusal::HEADERS_TOO_LARGE && is_line_long;
    Some((start, if is_of_line { Refusal::URI_TOO_LONG } else { refusal }))
}

/// Finds an answer made by hyper at the end of the bytes that it writes (`on_error` in its `proto/h1/role.rs`): a
/// status, no body, and no header fields but these. The routes' answers all have `Cache-Control`.
fn bare_answer(bytes: &[u8]) -> Option<(usize, Refusal)> {
    if !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let tail_start = bytes.len().saturating_sub(BARE_BYTES_MAX);
    let start = tail_start + bytes[tail_start..].windows(VERSION.len()).rposition(|part| part == VERSION)?;
    let mut lines = std::str::from_utf8(&bytes[start..]).ok()?.split("\r\n");
    let refusal = match lines.next()?.split(' ').nth(1)? {
        "400" => Refusal::MALFORMED,
        "414" => Refusal::URI_TOO_LONG,
        "431" => Refusal::HEADERS_TOO_LARGE,
        _ => return None,
    };
    let is_known = |line: &str| matches!(line, "connection: close" | "content-length: 0" | "");
    let is_bare = lines.all(|line| is_known(line) || line.starts_with("date: "));
    is_bare.then_some((start, refusal))
}

/// The start of hyper's answers, without the minor version.
const VERSION: &[u8] = b"HTTP/1.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_answer_is_found_behind_whatever_precedes_it() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: Sun, 01 Mar 2026 09:30:00 GMT\r\n\r\n";
        assert_eq!(bare_answer(bare.as_bytes()), Some((0, Refusal::HEADERS_TOO_LARGE)));
        let after = format!("{{\"ä\":1}}{bare}");
        assert_eq!(
            bare_answer(after.as_bytes()),
            Some((after.len() - bare.len(), Refusal::HEADERS_TOO_LARGE))
        );
    }

    #[test]
    fn a_request_is_recognized_by_its_first_bytes_in_however_many_pieces() {
        for (pieces, is_head) in [
            (&["HEAD / HTTP/1.1\r\n"][..], true),
            (&["\r\n", "HE", "AD", " /"], true),
            (&["GET /HEAD /"], false),
            (&["G", "HEAD /"], false),
        ] {
            let mut request = RequestStart::default();
            pieces.iter().for_each(|piece| request.note(piece.as_bytes()));
            assert_eq!(request.bytes == HEAD, is_head, "{pieces:?}");
        }
    }

    #[test]
    fn a_small_answer_is_sent_as_one_and_a_large_one_as_it_is() {
        let mut room = [0_u8; 5];
        let slices = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(gather(&slices, &mut room), Some(&b"abcde"[..]));
        assert_eq!(gather(&slices, &mut room[..4]), None);
    }

    #[test]
    fn answers_of_the_routes_are_left_alone() {
        for answer in [
            "HTTP/1.1 400 Bad Request\r\ncache-control: no-store\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "\r\n\r\n",
        ] {
            assert_eq!(bare_answer(answer.as_bytes()), None, "{answer:?}");
        }
    }
}
