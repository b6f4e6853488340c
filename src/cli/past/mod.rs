//! `collectory list`, `get`, `log`, `show`, `diff`, `blame` and `verify`: the present and the past on the command
//! line, read from the repository itself, with or without a running service.
//!
//! People get lines, with colours on a terminal; programs get `--json`, one resource per line, as in the API. Control
//! characters in text that people wrote are replaced, so that a commit message can't control a terminal.

mod blame;
mod diff;
mod log;
mod show;
mod state;
mod verify;

use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _};
use std::sync::Arc;

use anyhow::anyhow;

use crate::cli::flags::output::Output;
use crate::cli::flags::repository::{FolderArgs, Repository, open_as_served};
pub(crate) use crate::cli::past::blame::Blame;
pub(crate) use crate::cli::past::diff::Diff;
pub(crate) use crate::cli::past::log::Log;
pub(crate) use crate::cli::past::show::Show;
pub(crate) use crate::cli::past::state::{AsOfArgs, Get, List};
pub(crate) use crate::cli::past::verify::Verify;
use crate::cli::{Done, Failure, json_line, plain};
use crate::domain::{Change, Key, Reversal, to_the_second};
use crate::engine::history::{Action, Effect, EventRecord, History, HistoryError, Options, View};
use crate::service::committers;
use crate::store::git::{Access, GitJournal};

/// From this number of new commits on, reading them takes so long that its progress is reported.
const LONG_READING_LEN: usize = 10_000;

/// The history to read.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    repository: Repository,

    #[command(flatten)]
    folder: FolderArgs,

    /// The committer e-mail address of the service, if it is not the default.
    #[arg(long, env = "COLLECTORY_COMMITTER_EMAIL", value_name = "EMAIL", default_value = "collectory@localhost",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    committer_email: String,
}

/// The history to read, and how to show it.
#[derive(Debug, clap::Args)]
struct Source {
    #[command(flatten)]
    place: HistoryArgs,

    #[command(flatten)]
    output: Output,
}

impl HistoryArgs {
    /// Reads the history up to the current head of the branch.
    pub(crate) fn view(&self) -> anyhow::Result<View> {
        let journal = self.journal(Access::Read)?;
        if let Some(incomplete) = journal.incomplete_reason()? {
            crate::cli::note(incomplete);
        }
        Ok(History::read(Arc::new(journal.archive()), &self.history_options())?)
    }

    fn journal(&self, access: Access) -> anyhow::Result<GitJournal> {
        Ok(open_as_served(&self.repository.options(&self.folder, access)?, GitJournal::open)?)
    }

    fn history_options(&self) -> Options {
        Options {
            committers: committers(&self.committer_email),
            progress: Arc::new(report_progress),
            ..Options::new(self.folder.path.trim_matches('/'))
        }
    }
}

/// Reports the progress of a long read, and nothing of a short one.
fn report_progress(done: usize, total: usize) {
    if total >= LONG_READING_LEN {
        crate::cli::note(&format!("read {done} of {total} commits"));
    }
}

/// The error for a missing collection, with its deletion if there was one.
fn not_there(view: &View, key: &Key) -> anyhow::Error {
    let unknown = HistoryError::UnknownKey(key.clone());
    match view.fate_of(key) {
        Ok(Some(deletion)) => anyhow!("{unknown} {deletion}"),
        // Without a known deletion, the error stands alone.
        Ok(None) | Err(_) => unknown.into(),
    }
}

/// The kind of a part of a line, which determines its colour.
#[derive(Debug, Clone, Copy)]
enum Style {
    Name,
    Good,
    Bad,
    Faint,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Name => "33",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Faint => "2",
        }
    }
}

/// Standard output, written line by line.
struct Screen {
    out: BufWriter<StdoutLock<'static>>,
    is_coloured: bool,
    is_terminal: bool,
}

impl Screen {
    fn new() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let out = io::stdout();
        let is_terminal = out.is_terminal();
        let is_coloured = is_terminal && !is_set("NO_COLOR") && !is_dumb;
        Self { out: BufWriter::new(out.lock()), is_coloured, is_terminal }
    }

    /// Returns a text in its colour, without what controls a terminal.
    fn ink(&self, ink: Style, text: &str) -> String {
        let text = plain(text);
        if self.is_coloured { format!("\x1b[{}m{text}\x1b[m", ink.code()) } else { text }
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")
    }

    fn resource(&mut self, resource: &[u8]) -> io::Result<()> {
        self.out.write_all(json_line(&String::from_utf8_lossy(resource)).as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Prints rows of a table: unchanged for other programs, and without control characters on a terminal.
    fn table(&mut self, rows: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            return self.out.write_all(rows);
        }
        self.out.write_all(rows_for_terminal(rows).as_bytes())
    }

    /// Prints one event: a line that identifies it, and its effect below.
    fn event(&mut self, event: &EventRecord) -> io::Result<()> {
        let revision = self.ink(Style::Name, &event.commit.revision.to_string()[..SHORT_LEN]);
        let at = to_the_second(event.commit.at);
        let what = self.ink(Style::Good, &format!("{} {}", event.action.as_str(), event.key));
        let who = plain(event.commit.actor.name());
        let origin = self.ink(Style::Faint, event.commit.origin.as_str());
        let moved = event.moved.as_ref().map_or_else(String::new, |other| match event.action {
            Action::Deleted => format!(", moved to {other}"),
            Action::Created | Action::Updated => format!(", moved from {other}"),
        });
        self.line(&format!("{revision} {at} {what}{moved} by {who} ({origin})"))?;
        match &event.commit.message.reverses {
            Some(Reversal::Event(id)) => self.line(&format!("    undoes {id}"))?,
            Some(Reversal::Since(revision)) => self.line(&format!("    restores {revision}"))?,
            None => {}
        }
        for line in event.commit.message.reason.iter().flat_map(|reason| reason.lines()) {
            self.line(format!("    {}", plain(line)).trim_end())?;
        }
        self.effect(&event.effect)
    }

    fn effect(&mut self, effect: &Effect) -> io::Result<()> {
        match effect {
            Effect::Changes(changes) => changes.iter().try_for_each(|change| self.change(change)),
            Effect::Problem(fault) => {
                let fault = self.ink(Style::Bad, &fault.to_string());
                self.line(&format!("  ! {fault}"))
            }
        }
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        let attribute = plain(&change.attribute);
        let shown = |value: &crate::domain::Value| plain(&value.to_string());
        let line = match (&change.from, &change.to) {
            (Some(from), Some(to)) => {
                let (from, to) = (self.ink(Style::Bad, &shown(from)), self.ink(Style::Good, &shown(to)));
                format!("  ~ {attribute}: {from} -> {to}")
            }
            (None, Some(to)) => format!("  + {attribute}: {}", self.ink(Style::Good, &shown(to))),
            (Some(from), None) => format!("  - {attribute}: {}", self.ink(Style::Bad, &shown(from))),
            (None, None) => return Ok(()),
        };
        self.line(&line)
    }
}

/// How many digits of a revision are shown to people.
const SHORT_LEN: usize = 10;

/// Replaces in rows what controls a terminal.
fn rows_for_terminal(rows: &[u8]) -> String {
    let rows = String::from_utf8_lossy(rows).replace("\r\n", "\n");
    rows.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Prints something; a reader that closes the pipe early is no error.
fn shown(show: impl FnOnce(&mut Screen) -> Result<(), Failure>) -> Result<Done, Failure> {
    let mut screen = Screen::new();
    match show(&mut screen).and_then(|()| Ok(screen.out.flush()?)) {
        Err(Failure::Failed(error)) if is_broken_pipe(&error) => Ok(Done::Well),
        outcome => outcome.map(|()| Done::Well),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_does_not_drive_the_terminal() {
        let rows = "time,reason\r\n1,\"a\u{1b}[31m\u{7}\u{202e}\nb\"\r\n";
        assert_eq!(
            rows_for_terminal(rows.as_bytes()),
            "time,reason\n1,\"a\u{fffd}[31m\u{fffd}\u{fffd}\nb\"\n"
        );
    }
}
