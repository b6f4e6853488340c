//! Ends connections whose clients read too slowly: an answer is held in memory, and its room is unavailable to
//! others, until the client has read it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::config::AnswerLimits;
use crate::http::server::counts::Counts;
use crate::telemetry::Limit;

/// Watches how fast a client reads its answers.
#[derive(Debug)]
pub(crate) struct ReadPace {
    /// How long it may read nothing.
    wait_max: Duration,
    /// The minimum rate at which it reads, averaged over `wait_max`.
    bytes_per_s_min: usize,
    /// The timer that runs while the client reads nothing.
    waiting: Option<Pin<Box<Sleep>>>,
    /// When the client began to fall behind, and how many bytes it has read since.
    behind: Option<(Instant, usize)>,
}

impl ReadPace {
    pub(crate) const fn of(limits: &AnswerLimits) -> Self {
        Self {
            wait_max: Duration::from_millis(limits.answer_wait_ms_max),
            bytes_per_s_min: limits.answer_bytes_per_s_min,
            waiting: None,
            behind: None,
        }
    }

    /// Fails a write of `bytes` bytes that has made no progress for too long, or too little.
    pub(crate) fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        bytes: usize,
        counts: &Counts,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.waiting = None;
            match written {
                Ok(taken) if taken == bytes => self.behind = None,
                Ok(taken) => self.record_slow_read(taken, counts)?,
                Err(_) => {}
            }
            return Poll::Ready(written);
        }
        self.record_slow_read(0, counts)?;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(self.wait_max)));
        if waiting.as_mut().poll(cx).is_ready() {
            counts.count_limit(Limit::AnswerWait);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")));
        }
        Poll::Pending
    }

    /// Records how much a client that falls behind has read. Fails if it is too slow, because it would otherwise
    /// hold its answer, or block those of others, for as long as it likes.
    fn record_slow_read(&mut self, taken: usize, counts: &Counts) -> io::Result<()> {
        let (since, sum) = self.behind.get_or_insert_with(|| (Instant::now(), 0));
        *sum += taken;
        let (watched, sum) = (since.elapsed(), *sum);
        if watched < self.wait_max {
            return Ok(());
        }
        self.behind = None;
        if self.is_too_slow(sum, watched) {
            counts.count_limit(Limit::AnswerRate);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes its answer too slowly"));
        }
        Ok(())
    }

    /// Reports whether a client has read too few bytes in this time.
    fn is_too_slow(&self, bytes: usize, time: Duration) -> bool {
        (bytes as u128) < self.bytes_per_s_min as u128 * time.as_millis() / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_is_less_than_is_wanted_however_much_that_is() {
        for (bytes_per_s_min, bytes, is_too_little) in
            [(0, 0, false), (100, 199, true), (100, 200, false), (usize::MAX, 1_000_000, true)]
        {
            let pace = ReadPace::of(&AnswerLimits {
                answer_bytes_per_s_min: bytes_per_s_min,
                ..AnswerLimits::DEFAULT
            });
            let is_refused = pace.is_too_slow(bytes, Duration::from_secs(2));
            assert_eq!(is_refused, is_too_little, "{bytes} where {bytes_per_s_min} are wanted");
        }
    }
}
