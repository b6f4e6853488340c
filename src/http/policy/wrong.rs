//! Counts wrong tokens by network.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warp::http::HeaderValue;
use warp::http::header::RETRY_AFTER;

use crate::http::authorize::{Denied, ErrorStatus};
use crate::http::server::network;
use crate::telemetry::Limit;

/// The time over which wrong tokens are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Maximum networks counted at one time. One more resets all counts.
const ADDRESSES_MAX: usize = 4_096;

/// The networks that sent wrong tokens recently, and how many.
///
/// A known token is always accepted, wherever it comes from: behind a proxy all clients share one address, and a
/// client that sends wrong tokens must not lock out the others.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    per_window_max: usize,
    counts: Mutex<HashMap<Option<IpAddr>, Count>>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    tokens: usize,
}

impl WrongTokens {
    pub(crate) fn new(per_window_max: usize) -> Self {
        Self { per_window_max, counts: Mutex::default() }
    }

    /// Counts a wrong token.
    ///
    /// # Errors
    ///
    /// 429 when there were too many.
    pub(crate) fn count(&self, remote: Option<SocketAddr>) -> Result<(), Denied> {
        let address = remote.map(|remote| network(remote.ip()));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&address) {
            counts.clear();
        }
        let now = Instant::now();
        let count = counts.entry(address).or_insert(Count { since: now, tokens: 0 });
        if now.duration_since(count.since) >= WINDOW {
            *count = Count { since: now, tokens: 0 };
        }
        count.tokens += 1;
        if count.tokens <= self.per_window_max {
            return Ok(());
        }
        if count.tokens == self.per_window_max + 1 {
            tracing::warn!(
                address = address.map(tracing::field::display),
                "many wrong tokens from one address; more of them are answered 429"
            );
        }
        Err(too_many())
    }
}

fn too_many() -> Denied {
    let detail = "Too many wrong tokens come from your address; try again in a second.";
    let denied =
        Denied::new(ErrorStatus::TOO_MANY_REQUESTS, "too_many_requests", "Too Many Requests", detail)
            .with_header(RETRY_AFTER, HeaderValue::from(WINDOW.as_secs()));
    Denied { limit: Some(Limit::WrongTokens), ..denied }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_are_counted_for_each_network() {
        let wrong = WrongTokens::new(2);
        let from =
            |text: &str| wrong.count(Some(text.parse().unwrap())).map_err(|denied| denied.status().as_u16());
        assert_eq!([from("10.0.0.1:1"), from("10.0.0.1:2"), from("10.0.0.1:3")], [Ok(()), Ok(()), Err(429)]);
        assert_eq!([from("10.0.0.2:1"), from("[::ffff:10.0.0.1]:1")], [Ok(()), Err(429)]);
        assert_eq!(
            [from("[fd00::1]:1"), from("[fd00::2]:1"), from("[fd00::3]:1")],
            [Ok(()), Ok(()), Err(429)]
        );
        assert_eq!(from("[fd00:0:0:1::1]:1"), Ok(()));
    }
}
