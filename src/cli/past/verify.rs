//! `collectory verify`: does every commit say what it did?

use std::ops::ControlFlow;

use serde_json::json;

use super::{Done, Failure, Ink, SHORT_LEN, Screen, Source, shown};
use crate::cli::note;
use crate::engine::history::{Maker, Signature, Verdict};

/// Check that every commit says what it did
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Walk the history along first parents, oldest first, and say of every commit whether the service or a \
person made it, and whether its trailers agree with what it did. The service's trailers under another \
committer are a disagreement. Exits with 1 if there is any.")]
pub(crate) struct Verify {
    /// Which commits: `A..B` those behind A up to B, `A..` up to the head, `B` all up to B;
    /// everything without it.
    #[arg(value_name = "RANGE")]
    range: Option<String>,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory verify              the whole history
  collectory verify v1.0..main   since a release
  collectory verify --json       for programs, one commit a line";

impl Verify {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let view = self.source.view()?;
        let (after, until) = sides(self.range.as_deref().unwrap_or_default());
        let resolved = |text: Option<&str>| text.map(|text| view.resolve(text)).transpose();
        let (after, until) = (resolved(after)?, resolved(until)?);
        let (mut commits, mut disagreeing) = (0_usize, 0_usize);
        let outcome = shown(Done::Well, |screen| {
            let mut told = Ok(());
            view.verify(after, until, &mut |verdict| {
                commits += 1;
                disagreeing += usize::from(!verdict.disagreements.is_empty());
                if told.is_ok() {
                    told = tell(screen, &verdict, self.source.json);
                }
                // Whoever stops reading still wants the exit code.
                ControlFlow::Continue(())
            })?;
            Ok(told?)
        });
        outcome?;
        note(&format!("{commits} commits, {disagreeing} with a disagreement"));
        Ok(if disagreeing == 0 { Done::Well } else { Done::FoundProblems })
    }
}

fn sides(range: &str) -> (Option<&str>, Option<&str>) {
    let side = |text| Some(text).filter(|text: &&str| !text.is_empty());
    match range.split_once("..") {
        Some((after, until)) => (side(after), side(until)),
        None => (None, side(range)),
    }
}

fn tell(screen: &mut Screen, verdict: &Verdict, as_json: bool) -> std::io::Result<()> {
    let maker = match verdict.maker {
        Maker::Service => "service",
        Maker::Person => "person",
    };
    let signature = match verdict.signature {
        Signature::None => "unsigned",
        Signature::Present => "signed, not checked",
    };
    let Verdict { commit, events_len, disagreements, .. } = verdict;
    let faults: Vec<String> = disagreements.iter().map(ToString::to_string).collect();
    if as_json {
        let told = json!({
            "revision": commit.revision.to_string(), "maker": maker, "events": events_len,
            "signature": signature, "disagreements": faults,
        });
        return screen.resource(told.to_string().as_bytes());
    }
    let revision = screen.ink(Ink::Name, &commit.revision.to_string()[..SHORT_LEN]);
    let good =
        if faults.is_empty() { screen.ink(Ink::Good, "ok") } else { screen.ink(Ink::Bad, "DISAGREES") };
    let subject = super::plain(commit.message.lines().next().unwrap_or_default());
    screen.line(&format!("{revision} {maker} {signature} {good} {subject}"))?;
    for fault in faults {
        let fault = screen.ink(Ink::Bad, &fault);
        screen.line(&format!("  ! {fault}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_sides_or_one() {
        assert_eq!(sides(""), (None, None));
        assert_eq!(sides("a..b"), (Some("a"), Some("b")));
        assert_eq!(sides("a.."), (Some("a"), None));
        assert_eq!(sides("..b"), (None, Some("b")));
        assert_eq!(sides("v1.0"), (None, Some("v1.0")));
    }
}
