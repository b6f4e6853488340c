//! What is delivered, and how it is signed.

use base64ct::{Base64, Encoding as _};
use chrono::{DateTime, SecondsFormat, Utc};
use hmac::{Hmac, Mac as _};
use serde_json::json;
use sha2::Sha256;

use crate::domain::Revision;
use crate::engine::history::EventRecord;
use crate::format::webhooks::Secret;
use crate::http::{Allowed, resources};

/// One delivery: whoever gets it twice knows it by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The id, which stays the same however often it is sent.
    pub(crate) id: String,
    /// JSON.
    pub(crate) body: String,
}

impl Message {
    /// An event, as far as a receiver is told of its keys.
    pub(crate) fn event(event: &EventRecord, allowed: &Allowed) -> Self {
        let resource = resources::event_seen(event, allowed);
        let (action, at) = (event.action.as_str(), written(event.commit.at));
        let data = String::from_utf8_lossy(&resource);
        let body = format!(r#"{{"type":"collection.{action}","timestamp":"{at}","data":{data}}}"#);
        Self { id: event.id.to_string(), body }
    }

    /// The branch was rewritten: what was delivered up to a revision is not its past any more, and what comes
    /// next comes after the other.
    pub(crate) fn reset(from: &str, to: Option<Revision>, now: DateTime<Utc>) -> Self {
        let to = to.map(|revision| revision.to_string());
        let id = format!("{from}-{}", to.as_deref().unwrap_or_default());
        let body =
            json!({"type": "history.reset", "timestamp": written(now), "data": {"from": from, "to": to}});
        Self { id, body: body.to_string() }
    }

    /// The value of `webhook-signature`: HMAC-SHA256 over id, time and body.
    pub(crate) fn signature(&self, secret: &Secret, unix_s: i64) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes a key of any length");
        mac.update(format!("{}.{unix_s}.{}", self.id, self.body).as_bytes());
        format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes()))
    }
}

fn written(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn a_message_is_signed_as_the_standard_says() {
        let secret = Base64::decode_vec("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let message =
            Message { id: "msg_p5jXN8AQM9LWM0D4loKWxJek".into(), body: r#"{"test": 2432232314}"#.into() };
        assert_eq!(
            message.signature(&Secret(secret), 1_614_265_330),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    #[test]
    fn a_reset_has_the_same_id_however_often_it_is_told() {
        let to = Some(Revision::new([1; 20]));
        let at = |text: &str| Message::reset("00ff", to, text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:00:00Z").id, at("2026-01-02T00:00:00Z").id);
        assert!(at("2026-01-01T00:00:00Z").body.contains(r#""from":"00ff""#));
    }
}
