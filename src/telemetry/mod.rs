//! Observability: logs on standard error (text or JSON), the progress of a long start, and metrics.
//!
//! Logs never contain a token, a header, a body or an e-mail address. Each log statement of the service must ensure
//! that. Libraries are limited to warnings, because at finer levels some of them print what they transport.

mod access_log;
mod limit_counters;
mod log_writer;
pub mod metrics;
mod progress;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use crate::telemetry::access_log::{AccessLog, AccessLogEntry};
pub use crate::telemetry::limit_counters::{Limit, LimitCounters};
use crate::telemetry::log_writer::{LOG, LogLines};
pub use crate::telemetry::progress::Progress;

/// The logging flags.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogConfig {
    /// Text for people, or one JSON object per line for machines; both on standard error.
    #[arg(long, env = "COLLECTORY_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What to log: error, warn, info, debug, trace or off; or filter directives such as
    /// `info,collectory::engine=debug`. A bare level applies to the service; libraries stay at warn.
    #[arg(long = "log-level", env = "COLLECTORY_LOG", value_name = "FILTER", default_value = "info",
          value_parser = directives)]
    pub log_filter: String,

    /// Log one line for each answered request, on standard error too, as text or JSON; without a FORMAT in that of
    /// --log-format. The lines have the level info.
    ///
    /// A line has `method`, `route`, `status`, `duration_ms`, `bytes`, `actor`, `request.id`, `revision` and, if the
    /// client sent one, traceparent; never a secret. Lines are buffered for a tenth of a second.
    #[arg(long, env = "COLLECTORY_ACCESS_LOG", value_name = "FORMAT", value_enum, num_args = 0..=1,
          default_missing_value = "on", default_value = "off", hide_default_value = true)]
    pub access_log: AccessLogging,
}

/// Whether and in which format requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AccessLogging {
    /// No access log.
    #[value(alias = "false", alias = "0")]
    Off,
    /// In the format of the other lines.
    #[value(alias = "true", alias = "1")]
    On,
    /// As text.
    Text,
    /// As JSON.
    Json,
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line of text; colours only in a terminal.
    Text,
    /// A JSON object with the event's fields at the top level.
    Json,
}

/// Why logging could not start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid.
    #[error("cannot log with the filter {0:?}: {FILTERS}")]
    Filter(String),
    /// This process already logs.
    #[error("cannot start logging a second time")]
    Started,
    /// The thread that writes the log can't be started.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
}

/// Starts logging for the whole process.
///
/// # Errors
///
/// Fails for an invalid filter, when logging was already started, and when its thread can't be started.
pub fn start(config: &LogConfig) -> Result<(), LogError> {
    let filter = filter(&config.log_filter)?;
    LOG.start().map_err(LogError::Thread)?;
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(|| LogLines);
    let for_people = config.log_format == LogFormat::Text && io::stderr().is_terminal();
    progress::draw_bars(for_people);
    match config.log_format {
        // In a terminal the default applies, which respects the variable `NO_COLOR`.
        LogFormat::Text if for_people => builder.finish().with(filter).try_init(),
        LogFormat::Text => builder.with_ansi(false).finish().with(filter).try_init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
            builder.finish().with(filter).try_init()
        }
    }
    .map_err(|_| LogError::Started)
}

/// Writes a message to standard error, among the lines of the log.
pub(crate) fn print(message: &str) {
    LOG.write_now(message.as_bytes());
}

/// Waits until the log is written, but not for long: standard error may take nothing.
pub(crate) fn finish() {
    LOG.finish();
}

/// Starts the access log if it is enabled and the log's filter allows it.
///
/// # Errors
///
/// Fails when the thread can't be started.
pub fn start_access_log(config: &LogConfig) -> io::Result<Option<AccessLog>> {
    let format = match config.access_log {
        AccessLogging::Off => return Ok(None),
        AccessLogging::On => config.log_format,
        AccessLogging::Text => LogFormat::Text,
        AccessLogging::Json => LogFormat::Json,
    };
    let is_wanted = tracing::enabled!(target: access_log::TARGET, tracing::Level::INFO);
    is_wanted.then(|| AccessLog::start(format)).transpose()
}

/// The error text with the valid filters.
const FILTERS: &str =
    "write a level (error, warn, info, debug, trace or off), or directives as info,collectory::engine=debug";

fn filter(text: &str) -> Result<Targets, LogError> {
    let wrong = || LogError::Filter(text.to_owned());
    // A single word would be a target at all levels and silence everything else; it is usually a mistyped level.
    let is_known = |it: &str| it.contains('=') || it.parse::<LevelFilter>().is_ok();
    if text.is_empty() || !text.split(',').all(is_known) {
        return Err(wrong());
    }
    let is_level = text.parse::<LevelFilter>().is_ok();
    let directives = if is_level { format!("warn,notify=error,collectory={text}") } else { text.to_owned() };
    let directives = if text.eq_ignore_ascii_case("off") { "off".to_owned() } else { directives };
    directives.parse::<Targets>().map_err(|_| wrong())
}

fn directives(text: &str) -> Result<String, String> {
    filter(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Returns a duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats an error with all its causes on one line, for the log.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_level_keeps_libraries_at_warnings() {
        assert_eq!(filter("debug").unwrap().to_string(), "collectory=debug,notify=error,warn");
        assert_eq!(filter("off").unwrap().to_string(), "off");
        assert_eq!(
            filter("info,collectory::engine=trace").unwrap().to_string(),
            "collectory::engine=trace,info"
        );
    }

    #[test]
    fn a_filter_that_makes_no_sense_is_wrong_usage() {
        for text in ["loud", "collectory=loud", "info,loud", "collectory", ""] {
            assert!(
                directives(text).unwrap_err().contains("error, warn, info, debug, trace or off"),
                "{text}"
            );
        }
        for text in ["WARN", "collectory=debug", "info,collectory::engine=trace", "off"] {
            assert_eq!(directives(text).as_deref(), Ok(text));
        }
    }
}
