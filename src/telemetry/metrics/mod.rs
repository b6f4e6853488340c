//! Metrics.
//!
//! ```text
//! the parts ──count──▶ Counter, Gauge, Histogram ──read──▶ Scrape ──▶ text for Prometheus
//!                      plain numbers                      one reading
//! ```
//!
//! Each part of the service owns its numbers and does not know how they are exposed: counting is an addition to a
//! number in memory. The code that wires the parts names the metrics. Only `exposition` uses the crate for the text.

mod exposition;
mod number;
mod process;
mod text;

pub use crate::telemetry::metrics::exposition::{Exposition, Scrape};
pub use crate::telemetry::metrics::number::{Counter, Gauge, Histogram};
pub use crate::telemetry::metrics::process::show as show_process;
pub use crate::telemetry::metrics::text::Format;
