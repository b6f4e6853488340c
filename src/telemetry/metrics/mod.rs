//! What happens, in numbers.
//!
//! ```text
//! the parts ──count──▶ Counter, Gauge, Histogram ──read──▶ Scrape ──▶ text for Prometheus
//!                      plain numbers                      one reading
//! ```
//!
//! Each part of the service owns the numbers that it counts in, and knows nothing of how they are shown: to
//! count is an addition to a number in memory. Which number is shown by which name is said where the parts are
//! wired together. Only `exposition` here knows the crate that writes the text.

mod exposition;
mod number;
mod process;
mod text;

pub use crate::telemetry::metrics::exposition::{Exposition, Scrape};
pub use crate::telemetry::metrics::number::{Counter, Gauge, Histogram};
pub use crate::telemetry::metrics::process::show as show_process;
pub use crate::telemetry::metrics::text::Format;
