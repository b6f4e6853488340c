//! Progress of long work: a bar in a terminal, log lines elsewhere.
//!
//! ```text
//! reading collections  ▕████████████████▌               ▏ 54,272 of 100,000
//! ```
//!
//! Short work shows nothing. The bar is on the terminal's last line; a log line replaces it, and the next bar comes
//! below.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The delay before the first bar, and the interval between redraws.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// The delay before the first log line, and the interval between log lines.
const LOG_EVERY: Duration = Duration::from_secs(2);

/// The width of a bar in characters.
const BAR_CHARS: usize = 32;

/// Clears the cursor's line (ECMA-48, "erase in line").
const EMPTY_LINE: &str = "\r\x1b[K";

/// Whether to draw bars; set when logging starts.
static DRAWS: AtomicBool = AtomicBool::new(false);

/// Whether a bar is visible on the terminal's last line.
static STANDS: AtomicBool = AtomicBool::new(false);

/// Sets whether to draw bars, which needs a terminal on standard error.
pub(crate) fn draw_bars(draws: bool) {
    DRAWS.store(draws, Ordering::Relaxed);
}

/// Work that may take long; dropping it removes its bar.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    done: usize,
    total: usize,
    /// When to report next.
    due: Instant,
    every: Duration,
}

impl Progress {
    /// Starts reading `total` things; `what` is their plural noun.
    #[must_use]
    pub fn begin(what: &'static str, total: usize) -> Self {
        let every = if DRAWS.load(Ordering::Relaxed) { BAR_EVERY } else { LOG_EVERY };
        Self { what, done: 0, total, due: Instant::now() + every, every }
    }

    /// Adds `more` things to those done.
    pub fn advance(&mut self, more: usize) {
        self.done += more;
        let now = Instant::now();
        if now >= self.due && self.done < self.total {
            self.due = now + self.every;
            self.log();
        }
    }

    fn log(&self) {
        let Self { what, done, total, .. } = *self;
        if DRAWS.load(Ordering::Relaxed) {
            let bar = format!("{EMPTY_LINE}{}", bar(what, done, total));
            // A bar that can't be drawn is harmless.
            drop(io::stderr().write_all(bar.as_bytes()));
            STANDS.store(true, Ordering::Relaxed);
        } else {
            tracing::info!(done, total, "reading {what}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        clear_bar();
    }
}

/// Removes the bar if one is visible.
fn clear_bar() {
    if STANDS.swap(false, Ordering::Relaxed) {
        drop(io::stderr().write_all(EMPTY_LINE.as_bytes()));
    }
}

/// Writes log lines to standard error, in place of a visible bar.
pub(crate) fn write_lines(lines: &[u8]) {
    clear_bar();
    // A failure is ignored, for instance when the reader has closed the pipe: nobody could be told.
    drop(io::stderr().write_all(lines));
}

/// Renders the bar without a line ending. It is never full, because it is removed when the work is done.
fn bar(what: &str, done: usize, total: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (done * BAR_CHARS * 8).checked_div(total).unwrap_or(0).min(BAR_CHARS * 8);
    let filled = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
    format!("reading {what}  ▕{filled:<BAR_CHARS$}▏ {} of {}", grouped(done), grouped(total))
}

/// Formats a number with thousands separators.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_with_what_is_done() {
        assert_eq!(
            bar("collections", 0, 8),
            "reading collections  ▕                                ▏ 0 of 8"
        );
        assert_eq!(
            bar("collections", 54_272, 100_000),
            "reading collections  ▕█████████████████▎              ▏ 54,272 of 100,000"
        );
        assert_eq!(
            bar("collections", 1_000_000, 1_000_000),
            "reading collections  ▕████████████████████████████████▏ 1,000,000 of 1,000,000"
        );
        assert!(bar("collections", 0, 0).ends_with("0 of 0"));
    }

    #[test]
    fn what_is_over_soon_tells_nothing() {
        let mut progress = Progress::begin("collections", 10);
        let due = progress.due;
        progress.advance(5);
        assert_eq!(progress.due, due, "it was not reported");
        progress.due = Instant::now();
        progress.advance(1);
        assert!(progress.due > due, "now it was");
        let due = progress.due;
        progress.due = Instant::now();
        progress.advance(4);
        assert!(progress.due < due, "the end is reported by whoever began it");
    }
}
