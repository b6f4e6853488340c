//! The thread that writes the log to standard error.
//!
//! Nobody waits for whoever reads the log: lines are buffered and written by a thread of their own. While standard error
//! takes nothing (a stopped terminal, a full pipe), the service goes on, and what exceeds the buffer is dropped and
//! counted. Buffered lines are lost if the process is killed, but not at an orderly end.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::telemetry::progress::write_lines;

/// How long lines that are in no hurry are buffered: requests are answered faster than single lines can be written.
const GATHER: Duration = Duration::from_millis(100);

/// The buffer size at which lines are written at once.
const BYTES_MAX: usize = 256 * 1024;

/// The maximum size of the buffer while nothing can be written; further lines are dropped and counted.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the end of the process waits for standard error.
const FINISH_WAIT: Duration = Duration::from_secs(1);

/// The log of this process.
pub(crate) static LOG: LogWriter = LogWriter::new();

#[derive(Debug)]
pub(crate) struct LogWriter {
    buffer: Mutex<Buffer>,
    /// There is something to write.
    news: Condvar,
    /// Everything is written.
    idle: Condvar,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    /// The number of dropped lines.
    lost: usize,
    is_urgent: bool,
    is_writing: bool,
    is_started: bool,
}

impl LogWriter {
    const fn new() -> Self {
        let bytes = Vec::new();
        let buffer = Buffer { bytes, lost: 0, is_urgent: false, is_writing: false, is_started: false };
        Self { buffer: Mutex::new(buffer), news: Condvar::new(), idle: Condvar::new() }
    }

    /// Starts the thread, unless it runs already.
    ///
    /// # Errors
    ///
    /// Fails when the thread can't be started.
    pub(crate) fn start(&'static self) -> io::Result<()> {
        let mut buffer = self.buffer();
        if !buffer.is_started {
            thread::Builder::new().name("log".into()).spawn(|| self.write())?;
            buffer.is_started = true;
        }
        Ok(())
    }

    /// Adds a line that may wait for others; `append` writes it to the buffer.
    pub(crate) fn add(&self, append: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = self.buffer();
        if buffer.bytes.len() >= KEPT_BYTES_MAX {
            buffer.lost += 1;
            return;
        }
        let was_empty = buffer.bytes.is_empty();
        append(&mut buffer.bytes);
        if was_empty || buffer.bytes.len() >= BYTES_MAX {
            self.news.notify_one();
        }
    }

    /// Writes whole lines as soon as possible, without waiting for that if the thread runs.
    pub(crate) fn write_now(&self, lines: &[u8]) {
        let is_started = self.buffer().is_started;
        if !is_started {
            return write_lines(lines);
        }
        self.add(|bytes| bytes.extend_from_slice(lines));
        drop(self.hurry());
    }

    /// Waits until everything is written, but not for long: standard error may take nothing.
    pub(crate) fn finish(&self) {
        let buffer = self.hurry();
        let is_busy =
            |buffer: &mut Buffer| buffer.is_started && (buffer.is_writing || !buffer.bytes.is_empty());
        drop(self.idle.wait_timeout_while(buffer, FINISH_WAIT, is_busy));
    }

    fn hurry(&self) -> MutexGuard<'_, Buffer> {
        let mut buffer = self.buffer();
        buffer.is_urgent = true;
        self.news.notify_one();
        buffer
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        let mut written = Vec::new();
        let mut buffer = self.buffer();
        loop {
            buffer.is_writing = false;
            if buffer.bytes.is_empty() {
                self.idle.notify_all();
            }
            let is_idle = |buffer: &mut Buffer| buffer.bytes.is_empty();
            buffer = self.news.wait_while(buffer, is_idle).unwrap_or_else(PoisonError::into_inner);
            let gathers = |buffer: &mut Buffer| !buffer.is_urgent && buffer.bytes.len() < BYTES_MAX;
            let waited = self.news.wait_timeout_while(buffer, GATHER, gathers);
            buffer = waited.unwrap_or_else(PoisonError::into_inner).0;
            (buffer.is_urgent, buffer.is_writing) = (false, true);
            std::mem::swap(&mut written, &mut buffer.bytes);
            let lost = std::mem::take(&mut buffer.lost);
            drop(buffer);
            write_lines(&written);
            written.clear();
            if lost > 0 {
                tracing::warn!(lost, "lines of the log were lost, standard error took none for too long");
            }
            buffer = self.buffer();
        }
    }
}

/// The log as a writer of whole lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogLines;

impl Write for LogLines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        LOG.write_now(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
