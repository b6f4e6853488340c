//! The access log: one line per request, on standard error among the other lines.
//!
//! A line contains no secret: no query, no headers except those named here, and nothing that would end the line.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Timelike as _, Utc};

use crate::telemetry::LogFormat;
use crate::telemetry::log_writer::LOG;

/// The log target of the lines.
pub(crate) const TARGET: &str = "collectory::access";

/// One answered request.
#[derive(Debug, Clone, Copy)]
pub struct AccessLogEntry<'a> {
    /// When the request was answered.
    pub at: DateTime<Utc>,
    /// The method; `-` if the head could not be read.
    pub method: &'a str,
    /// The route, instead of the path as it was sent.
    pub route: &'a str,
    /// The status code of the answer.
    pub status: u16,
    /// The time until the answer was ready.
    pub duration: Duration,
    /// The length of the body; zero for a stream, which has only begun.
    pub bytes: usize,
    /// The name of the sender, if known.
    pub actor: Option<&'a str>,
    /// The id of the request, if it got one.
    pub request_id: Option<&'a str>,
    /// The revision that the answer is based on.
    pub revision: Option<&'a [u8]>,
    /// The client's trace context.
    pub traceparent: Option<&'a str>,
}

/// The access log; dropping it writes the buffered lines.
#[derive(Debug)]
pub struct AccessLog {
    format: LogFormat,
    second: Mutex<Second>,
}

/// The current second since 1970 and its text, because few lines begin a new second.
#[derive(Debug, Default)]
struct Second(i64, String);

impl AccessLog {
    /// Starts the writing thread.
    ///
    /// # Errors
    ///
    /// Fails when the thread can't be started.
    pub fn start(format: LogFormat) -> io::Result<Self> {
        LOG.start()?;
        Ok(Self { format, second: Mutex::default() })
    }

    /// Adds a line.
    pub fn note(&self, answered: &AccessLogEntry<'_>) {
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        LOG.add(|out| add_line(out, &mut second, answered, self.format));
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        LOG.finish();
    }
}

fn add_line(out: &mut Vec<u8>, second: &mut Second, answered: &AccessLogEntry<'_>, format: LogFormat) {
    let now = answered.at.timestamp();
    if second.0 != now || second.1.is_empty() {
        *second = Second(now, answered.at.format("%Y-%m-%dT%H:%M:%S.").to_string());
    }
    let micros = answered.at.nanosecond() / 1_000 % 1_000_000;
    if format == LogFormat::Json {
        out.extend_from_slice(b"{\"timestamp\":\"");
    }
    out.extend_from_slice(second.1.as_bytes());
    push_number(out, u64::from(micros), 6);
    out.push(b'Z');
    match format {
        LogFormat::Text => text(out, answered),
        LogFormat::Json => json(out, answered),
    }
    out.push(b'\n');
}

fn text(out: &mut Vec<u8>, answered: &AccessLogEntry<'_>) {
    push(
        out,
        ["  INFO ", TARGET, ": answered method=", answered.method, " route=", answered.route, " status="],
    );
    push_number(out, u64::from(answered.status), 1);
    push(out, [" duration_ms="]);
    push_ms(out, answered.duration);
    push(out, [" bytes="]);
    push_number(out, answered.bytes as u64, 1);
    if let Some(actor) = answered.actor {
        push(out, [" actor="]);
        push_quoted(out, actor);
    }
    if let Some(request_id) = answered.request_id {
        push(out, [" request.id=", request_id]);
    }
    if let Some(revision) = answered.revision {
        push(out, [" revision="]);
        out.extend_from_slice(revision);
    }
    if let Some(traceparent) = answered.traceparent {
        push(out, [" traceparent=", traceparent]);
    }
}

fn json(out: &mut Vec<u8>, answered: &AccessLogEntry<'_>) {
    push(out, ["\",\"level\":\"INFO\",\"message\":\"answered\",\"target\":\"", TARGET, "\",\"method\":"]);
    push_quoted(out, answered.method);
    push(out, [",\"route\":\"", answered.route, "\",\"status\":"]);
    push_number(out, u64::from(answered.status), 1);
    push(out, [",\"duration_ms\":"]);
    push_ms(out, answered.duration);
    push(out, [",\"bytes\":"]);
    push_number(out, answered.bytes as u64, 1);
    if let Some(actor) = answered.actor {
        push(out, [",\"actor\":"]);
        push_quoted(out, actor);
    }
    if let Some(request_id) = answered.request_id {
        push(out, [",\"request.id\":"]);
        push_quoted(out, request_id);
    }
    if let Some(revision) = answered.revision {
        push(out, [",\"revision\":\""]);
        out.extend_from_slice(revision);
        out.push(b'"');
    }
    if let Some(traceparent) = answered.traceparent {
        push(out, [",\"traceparent\":\"", traceparent, "\""]);
    }
    out.push(b'}');
}

fn push<const N: usize>(out: &mut Vec<u8>, texts: [&str; N]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

/// Appends a number with at least `digits_min` digits. The standard formatting would take longer than the rest of the
/// line.
fn push_number(out: &mut Vec<u8>, mut number: u64, digits_min: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 || digits.len() - first < digits_min {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[first..]);
}

fn push_ms(out: &mut Vec<u8>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    push_number(out, micros / 1_000, 1);
    out.push(b'.');
    push_number(out, micros % 1_000, 3);
}

/// Appends a text in quotes, escaped as in JSON; people's names may contain any character.
fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => {
                push(out, [&format!("\\u{:04x}", u32::from(c))]);
            }
            c => push(out, [c.encode_utf8(&mut [0; 4])]),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, actor: &str) -> String {
        let mut line = Vec::new();
        let answered = AccessLogEntry {
            at: DateTime::from_timestamp(1_772_357_400, 42_000).unwrap(),
            method: "GET",
            route: "/collections/{key}",
            status: 200,
            duration: Duration::from_micros(1_234),
            bytes: 345,
            actor: Some(actor),
            request_id: Some("a\"b"),
            revision: Some(b"9fceb02d"),
            traceparent: None,
        };
        add_line(&mut line, &mut Second::default(), &answered, format);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_says_what_was_asked_and_answered() {
        assert_eq!(
            line(LogFormat::Text, "Mara"),
            "2026-03-01T09:30:00.000042Z  INFO collectory::access: answered method=GET route=/collections/{key} \
             status=200 duration_ms=1.234 bytes=345 actor=\"Mara\" request.id=a\"b revision=9fceb02d\n"
        );
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for (number, digits_min, written) in
            [(0, 1, "0"), (7, 3, "007"), (1_234, 3, "1234"), (u64::MAX, 6, "18446744073709551615")]
        {
            let mut out = Vec::new();
            push_number(&mut out, number, digits_min);
            assert_eq!(String::from_utf8(out).unwrap(), written);
        }
    }

    #[test]
    fn a_name_ends_no_line_and_no_text() {
        let logged = line(LogFormat::Json, "a\"\\\n\u{7f}\u{2028}b");
        assert_eq!(logged.lines().count(), 1);
        let logged: serde_json::Value = serde_json::from_str(&logged).unwrap();
        assert_eq!(
            (&logged["actor"], &logged["request.id"]),
            (&"a\"\\\n\u{7f}\u{2028}b".into(), &"a\"b".into())
        );
        assert_eq!(logged["duration_ms"], 1.234);
        assert!(!line(LogFormat::Text, "a\u{1b}[31m\n").trim_end().contains(char::is_control));
    }
}
