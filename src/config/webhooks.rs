//! Webhook receivers.

use std::path::PathBuf;
use std::time::Duration;

/// Webhook receivers, and how events are delivered to them.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Webhooks")]
pub struct WebhookConfig {
    /// Deliver every event of the branch to the receivers that this YAML file lists, at least once and in order: a
    /// list of `url` and `secret` (whsec_…), and optionally `name`, `keys`, `actions`, `since`.
    ///
    /// Deliveries follow Standard Webhooks. The position of each receiver is recorded beside the repository, so that
    /// neither a restart nor a day without the receiver loses anything. SIGHUP makes the service read the file again.
    /// If several services share a branch, give the file to only one of them.
    #[arg(id = "webhooks", long = "webhooks", env = "COLLECTORY_WEBHOOKS", value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Deliver to private addresses too (of this machine, of a local network); otherwise they are refused.
    #[arg(
        id = "webhook_allow_private",
        long = "webhook-allow-private",
        env = "COLLECTORY_WEBHOOK_ALLOW_PRIVATE"
    )]
    pub allow_private: bool,

    /// The longest pause between two attempts to deliver, in seconds (`300`) or with a unit (`500ms`, `30s`, `5m`,
    /// `1h`). The first pause is half a second, and each further one is twice as long.
    #[arg(id = "webhook_retry_max", long = "webhook-retry-max", env = "COLLECTORY_WEBHOOK_RETRY_MAX", value_name = "TIME",
          default_value = "5m", value_parser = duration)]
    pub retry_max: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self { file: None, allow_private: false, retry_max: Duration::from_secs(300) }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number of seconds, or one with a unit: 500ms, 30s, 5m, 1h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u32 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "ms" => Duration::from_millis(1),
        "" | "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3_600),
        _ => return Err(wrong()),
    };
    unit.checked_mul(count).filter(|time| !time.is_zero()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_one_of_seconds() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("7", 7_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "m", "-1s", "1d", "99999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
