//! The evidence that a run of many calls leaves when its judge finds a fault: enough to explain it, because the next
//! run may not reproduce it.

use std::fmt::Write as _;
use std::fs;
use std::time::{Instant, SystemTime};

use crate::linearizable::Call;
use crate::support::{Repo, copy_folder};

/// The faults that a run caused, and when.
pub(super) struct Evidence {
    seed: u64,
    began: Instant,
    /// The start of the run, by the clock of the logs.
    clock: SystemTime,
    faults: Vec<(Instant, String)>,
}

impl Evidence {
    #[expect(clippy::disallowed_methods, reason = "the logs of the services tell the time by this clock")]
    pub(super) fn begin(seed: u64) -> Self {
        Self { seed, began: Instant::now(), clock: SystemTime::now(), faults: Vec::new() }
    }

    pub(super) fn note(&mut self, fault: String) {
        self.faults.push((Instant::now(), fault));
    }

    /// Collects everything known of a run. It is written to disk if this is dropped in a panic.
    pub(super) const fn of<'a>(
        &'a self,
        calls: &'a [Call],
        logs: &'a dyn Fn() -> Vec<String>,
        repos: &'a [&'a Repo],
    ) -> Kept<'a> {
        Kept { evidence: self, calls, logs, repos }
    }

    /// Lists the calls and faults in the order in which they began, in seconds since the start.
    fn report(&self, calls: &[Call]) -> String {
        let since = |at: Instant| at.duration_since(self.began).as_secs_f64();
        let faults = self.faults.iter().map(|(at, what)| (*at, format!("{:.3} {what}", since(*at))));
        let calls = calls.iter().map(|call| {
            let Call { id, began, ended, asked, answered, is_latest, connection } = call;
            let (from, to) = (since(*began), since(*ended));
            let summary = format!(
                "{from:.3} to {to:.3} {id} on {connection:?}, latest {is_latest}: {asked:?}: {answered:?}"
            );
            (*began, summary)
        });
        let mut all: Vec<_> = faults.chain(calls).collect();
        all.sort_by_key(|(at, _)| *at);
        let began = self.clock.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut text = format!("begun at {began:.3} seconds since 1970\n");
        all.iter().for_each(|(_, line)| writeln!(text, "{line}").expect("a text can be written to"));
        text
    }
}

/// A run, and everything known of it.
pub(super) struct Kept<'a> {
    evidence: &'a Evidence,
    calls: &'a [Call],
    logs: &'a dyn Fn() -> Vec<String>,
    repos: &'a [&'a Repo],
}

impl Drop for Kept<'_> {
    #[expect(clippy::print_stdout, reason = "the test runner shows it beside the failure")]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let prefix = format!("collectory-violation-{}-", self.evidence.seed);
        let Ok(folder) = tempfile::Builder::new().prefix(&prefix).tempdir().map(tempfile::TempDir::keep)
        else {
            return;
        };
        drop(fs::write(folder.join("calls.txt"), self.evidence.report(self.calls)));
        for (number, log) in (self.logs)().iter().enumerate() {
            drop(fs::write(folder.join(format!("log-{number}.txt")), log));
        }
        // The last is the remote, with the reflog of its branch in `logs/refs/heads/main`.
        for (number, repo) in self.repos.iter().enumerate() {
            copy_folder(repo.path(), &folder.join(format!("repo-{number}.git")));
        }
        println!("what there is to explain it: {}", folder.display());
    }
}
