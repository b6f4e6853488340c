//! One attempt to deliver one message.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;

use crate::format::webhooks::Receiver;
use crate::http::{Clock, standard_webhooks};
use crate::webhooks::Options;
use crate::webhooks::message::Message;
use crate::webhooks::public::PublicOnly;

/// The time a receiver has for its whole answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(15);

/// How much of an answer is read, so that the connection can be reused; the content is ignored.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// The first pause after a failure; each further one is twice as long, up to the longest.
const RETRY_MIN: Duration = Duration::from_millis(500);

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The receiver accepted the message.
    Delivered,
    /// The receiver wants no more messages (410).
    Gone,
    /// The message has to be sent again, and why.
    Failed(String),
}

/// Sends messages; clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    agent: Agent,
    retry_max: Duration,
}

impl Sender {
    pub(crate) fn new(options: Options) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(ANSWER_WAIT_MAX))
            // A receiver is where the list says, and nowhere else.
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .user_agent(concat!("collectory/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = if options.allow_private {
            config.new_agent()
        } else {
            Agent::with_parts(config, DefaultConnector::default(), PublicOnly::default())
        };
        Self { agent, retry_max: options.retry_max }
    }

    /// Sends once, and waits for the answer.
    pub(crate) fn post(&self, receiver: &Receiver, message: &Message) -> Outcome {
        let now = Clock::system().now().timestamp().to_string();
        let signature =
            standard_webhooks::signature(&receiver.secret.0, &message.id, &now, message.body.as_bytes());
        let request = self
            .agent
            .post(&receiver.url)
            .content_type("application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature);
        let mut response = match request.send(&message.body) {
            Ok(response) => response,
            // An error of our own is inside.
            Err(ureq::Error::Other(error)) => return Outcome::Failed(error.to_string()),
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let status = response.status().as_u16();
        // The content is ignored, and so is a failure to read it.
        drop(response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec());
        match status {
            200..300 => Outcome::Delivered,
            410 => Outcome::Gone,
            300..400 => Outcome::Failed(format!("it answers {status}, and redirects are not followed")),
            _ => Outcome::Failed(format!("it answers {status}")),
        }
    }

    /// Returns the pause after this many consecutive failures: it grows, with jitter against simultaneous retries.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let most = RETRY_MIN.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(self.retry_max);
        // Without a random number the pause is the shortest.
        let chance = getrandom::u32().unwrap_or_default();
        let half = most / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_are_not_the_same() {
        let options = Options { allow_private: false, retry_max: Duration::from_secs(60) };
        let sender = Sender::new(options);
        for failures in 1..100 {
            let most = RETRY_MIN.saturating_mul(1 << (failures - 1).min(20)).min(Duration::from_secs(60));
            let pause = sender.pause(failures);
            assert!(pause >= most / 2 && pause <= most, "{failures}: {pause:?}");
        }
        assert_ne!(sender.pause(50), sender.pause(50));
    }
}
