//! The id of a request: the client's if it is valid, or else a new one; the answer repeats it.

use std::cell::Cell;

use tracing::Span;
use uuid::{Builder, Uuid};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::http::context::Clock;
use crate::http::header::{X_REQUEST_ID, field};

/// The position of a request in a distributed trace.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The maximum length of a client's id, in bytes.
const BYTES_MAX: usize = 128;

/// Identifies one request in the answer, in the log and in the commit that it led to.
///
/// Visible ASCII only, so it can be used in a header, a log line and a commit trailer without escaping.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// Takes the client's id, or creates a UUID that sorts by time.
    pub(crate) fn of(headers: &HeaderMap, clock: Clock) -> Self {
        match field(headers, &X_REQUEST_ID) {
            Some(sent) if is_sane(sent.as_bytes()) => Self(sent.clone()),
            Some(_) | None => Self::new(clock),
        }
    }

    fn new(clock: Clock) -> Self {
        let random = u128::from(random()) << 64 | u128::from(random());
        let bytes: [u8; 10] = random.to_be_bytes()[..10].try_into().expect("ten bytes are taken of sixteen");
        let id = Builder::from_unix_timestamp_millis(clock.unix_ms(), &bytes).into_uuid();
        let mut text = Uuid::encode_buffer();
        let text = id.hyphenated().encode_lower(&mut text);
        Self(HeaderValue::from_str(text).expect("a UUID is visible ASCII"))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().expect("an id is visible ASCII")
    }

    pub(crate) fn into_header(self) -> HeaderValue {
        self.0
    }

    /// Returns the span in which everything about this request is logged.
    ///
    /// There are thousands of reads per second, which rarely log anything. Their span is created only if `debug` is
    /// enabled, or if the request is part of a distributed trace.
    pub(crate) fn span(&self, method: &Method, path: &str, traceparent: Option<&str>) -> Span {
        let id = self.as_str();
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_read && traceparent.is_none() {
            tracing::debug_span!("request", request.id = id, http.method = %method, http.path = path)
        } else {
            tracing::info_span!("request", request.id = id, http.method = %method, http.path = path, traceparent)
        }
    }
}

/// Returns the trace context of a request (<https://www.w3.org/TR/trace-context/#traceparent-header>), if valid.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let text = field(headers, &TRACEPARENT)?.to_str().ok()?;
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |part: &str| part.bytes().any(|byte| byte != b'0');
    let mut parts = text.split('-');
    let [version, trace, parent, flags] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    // Later versions may append more fields.
    let ends = parts.next().is_none() || version != "00";
    let is_whole = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let is_short = text.len() <= BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_whole
        && ends
        && is_short
        && version != "ff"
        && is_some(trace)
        && is_some(parent)
        && !text.contains(['"', '\\']))
    .then_some(text)
}

fn is_sane(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Returns distinct numbers without a system call for each: `SplitMix64`, seeded once per thread. They only
/// distinguish requests and are not secure.
fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(Uuid::new_v4().as_u64_pair().0);
    }
    let seed = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(seed);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::UNIX_EPOCH;

    use super::*;

    fn of(sent: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(sent).unwrap());
        RequestId::of(&headers, Clock::new(|| UNIX_EPOCH)).as_str().to_owned()
    }

    #[test]
    fn a_sane_id_is_kept_and_any_other_replaced() {
        assert_eq!(of(b"7f1c-a/b:c"), "7f1c-a/b:c");
        for odd in [&b""[..], b"a b", b"a\tb", "\u{e4}".as_bytes(), &[b'x'; 129]] {
            assert_eq!(Uuid::parse_str(&of(odd)).unwrap().get_version_num(), 7, "{odd:?}");
        }
    }

    #[test]
    fn a_place_in_a_trace_is_kept_if_it_is_one() {
        let of = |text: &'static str| {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static("traceparent"),
                HeaderValue::from_static(text),
            )]);
            traceparent(&headers).map(str::to_owned)
        };
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(of(good).as_deref(), Some(good));
        for odd in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn new_ids_differ() {
        let ids: BTreeSet<String> =
            (0..1000).map(|_| RequestId::new(Clock::system()).as_str().to_owned()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
