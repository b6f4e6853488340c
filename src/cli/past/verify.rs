//! `collectory verify`: checks that every commit says what it did, and who signed it.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::cli::past::{Done, Failure, SHORT_LEN, Screen, Source, Style, shown};
use crate::cli::{counted, note, plain};
use crate::domain::Revision;
use crate::engine::history::{CommitOrigin, Disagreement, Rules, Verdict, View};
use crate::store::fsck::{FaultsByCommit, attribute_to_commits, fsck};
use crate::store::git::{Access, SignatureFiles, signature_files};
use crate::store::signature::{AllowedSigners, SignatureChecker, SignatureStatus};

/// Check that every commit says what it did, and who signed it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Walk the history along first parents, oldest first, and say of every commit whether the service or a \
person made it, whether its trailers agree with what it did, and whether its signature is valid and whose \
it is. Exits with 1 if there is any disagreement:

- the service's trailers under another committer, or trailers that say something else than what happened;
- an event id that an earlier commit has;
- a commit that brings what `git fsck --full --strict` calls an error: a damaged or missing object, or one that is \
not as git writes it (git checks the whole repository for that; without git it is not looked for);
- a signature that does not hold: the commit was altered, it was signed for something else than git, or the \
signature is damaged;
- a signature with a key that is revoked or, when there is a file of allowed signers, is not allowed by it \
at the time of the commit. Without such a file a signature is only checked against its own key, and the \
output says so;
- a commit of the service with a signature of a key that is not listed for the committer's e-mail address;
- with --require-signature, a commit of the service without a valid signature.

SSH signatures are checked here, with Ed25519, ECDSA P-256 (both also on security keys) and RSA keys; \
nothing is executed. OpenPGP and X.509 signatures and SSH certificates are reported as not checked. With --json, \
signature.state is one of unsigned, valid, unattributed (no file says whose it is), not-allowed, bad, \
not-checked.")]
pub(crate) struct Verify {
    /// The commits to check: `A..B` those after A up to B, `A..` those after A up to the head, `B` all up to B. The
    /// default is all commits.
    #[arg(value_name = "RANGE")]
    range: Option<String>,

    /// The allowed signers: a file in the format of `ssh-keygen`, see ALLOWED SIGNERS in ssh-keygen(1). Without it
    /// the file that git's configuration names, `gpg.ssh.allowedSignersFile`, if any.
    #[arg(long, env = "COLLECTORY_ALLOWED_SIGNERS", value_name = "FILE")]
    allowed_signers: Option<PathBuf>,

    /// The revoked keys: a file of public keys, one per line. Without it the file that git's configuration names,
    /// `gpg.ssh.revocationFile`, if any.
    #[arg(long, env = "COLLECTORY_REVOKED_KEYS", value_name = "FILE")]
    revoked_keys: Option<PathBuf>,

    /// Also fail if this commit is no longer part of the branch: write down `git rev-parse HEAD`, and prove later
    /// that nothing up to there was rewritten.
    #[arg(long, env = "COLLECTORY_HEAD_WAS", value_name = "R")]
    head_was: Option<String>,

    /// Require a valid signature on every commit of the service in the range. The allowed signers must not be a
    /// checked-out file, unless --allowed-signers names it.
    #[arg(long, env = "COLLECTORY_REQUIRE_SIGNATURE")]
    require_signature: bool,

    #[command(flatten)]
    source: Source,
}

const EXAMPLES: &str = "\
Examples:
  collectory verify              the whole history
  collectory verify v1.0..main   since a release
  collectory verify --json       for programs, one commit per line
  collectory verify --allowed-signers signers --require-signature v1.0..
                                 nothing since a release that the service's key does not vouch for

A file of allowed signers for the service:
  collectory@localhost namespaces=\"git\" ssh-ed25519 AAAA...";

const SIGNERS_MISSING: &str = "\
to learn whose they are, name the allowed signers with --allowed-signers FILE or git's \
gpg.ssh.allowedSignersFile";

const SIGNERS_CHECKED_OUT: &str = "\
--require-signature takes no allowed signers from a checked-out file, which whoever commits can change; keep the \
file elsewhere, or name it with --allowed-signers FILE if you have looked at it";

impl Verify {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        self.source.output.refuse_csv()?;
        let mut rules = self.signature_rules()?;
        let view = self.source.place.view()?;
        let kept = self.head_was.as_deref().is_none_or(|revision| is_kept(&view, revision));
        let (after, until) = range_sides(self.range.as_deref().unwrap_or_default());
        let resolved = |text: Option<&str>| text.map(|text| view.resolve(text)).transpose();
        let (after, until) = (resolved(after)?, resolved(until)?);
        let faults = self.fsck(&view, after, until)?;
        rules.faults = faults.by_commit;
        let (mut commits, mut disagreeing, mut unattributed_signatures) = (0_usize, 0_usize, 0_usize);
        let outcome = shown(|screen| {
            let mut printed = Ok(());
            view.verify(after, until, &rules, &mut |verdict| {
                commits += 1;
                unattributed_signatures +=
                    usize::from(matches!(verdict.signature, SignatureStatus::Unattributed(_)));
                disagreeing += usize::from(!verdict.disagreements.is_empty());
                if printed.is_ok() {
                    printed = print_verdict(screen, &verdict, self.source.output.is_json());
                }
                // Continue when the reader stops reading, because the exit code still matters.
                ControlFlow::Continue(())
            })?;
            printed?;
            Ok(print_unattributed(screen, &faults.unattributed, self.source.output.is_json())?)
        });
        outcome?;
        note(&format!("{}, {disagreeing} with a disagreement", counted(commits, "commit")));
        if unattributed_signatures > 0 {
            let signatures = counted(unattributed_signatures, "signature");
            note(&format!("{signatures} checked against the signer's own key only; {SIGNERS_MISSING}"));
        }
        Ok(if disagreeing == 0 && faults.unattributed.is_empty() && kept {
            Done::Well
        } else {
            Done::FoundProblems
        })
    }

    /// Returns what git finds wrong with the commits of the range.
    fn fsck(
        &self,
        view: &View,
        after: Option<Revision>,
        until: Option<Revision>,
    ) -> anyhow::Result<FaultsByCommit> {
        let line = view.line(after, until)?;
        if line.is_empty() {
            return Ok(FaultsByCommit::default());
        }
        let journal = self.source.place.journal(Access::Read)?;
        match fsck(journal.git_dir()) {
            Ok(faults) if faults.is_empty() => Ok(FaultsByCommit::default()),
            Ok(faults) => Ok(attribute_to_commits(journal.git_dir(), faults, after, &line)?),
            Err(error) => {
                note(&format!("`git fsck` was not run, so objects were not checked: {error}"));
                Ok(FaultsByCommit::default())
            }
        }
    }

    /// Returns the rules for signatures, from the flags or else from git's configuration.
    fn signature_rules(&self) -> Result<Rules, Failure> {
        let configured = match (&self.allowed_signers, &self.revoked_keys) {
            (Some(_), Some(_)) => SignatureFiles::default(),
            _ => signature_files(&self.source.place.repository.find()?)?,
        };
        if self.require_signature && self.allowed_signers.is_none() && configured.is_checked_out() {
            return Err(Failure::Usage(SIGNERS_CHECKED_OUT.to_owned()));
        }
        let mut allowed = None;
        if let Some(path) = self.allowed_signers.as_ref().or(configured.allowed_signers.as_ref()) {
            let (signers, left_out) = AllowedSigners::parse(&read(path, "allowed signers")?);
            if self.allowed_signers.is_none() {
                note(&format!("the allowed signers are those of {}, as git is configured", path.display()));
            }
            for line in left_out {
                note(&format!("{}: {line}", path.display()));
            }
            allowed = Some(signers);
        }
        if self.require_signature && allowed.is_none() {
            let sentence =
                format!("--require-signature needs to know whose signatures count; {SIGNERS_MISSING}");
            return Err(Failure::Usage(sentence));
        }
        let mut checker = SignatureChecker::new(allowed);
        if let Some(path) = self.revoked_keys.as_ref().or(configured.revoked_keys.as_ref()) {
            let revoked = checker.revoke(&read(path, "revoked keys")?);
            revoked.with_context(|| format!("cannot take the revoked keys from {}", path.display()))?;
        }
        Ok(Rules { checker, require_signature: self.require_signature, ..Rules::default() })
    }
}

/// Whether the branch still contains a former head; reports a rewritten history if not.
fn is_kept(view: &View, revision: &str) -> bool {
    let kept = view.resolve(revision);
    if let Err(error) = &kept {
        note(&format!("the history was rewritten: {error}"));
    }
    kept.is_ok()
}

fn read(path: &Path, what: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}

fn range_sides(range: &str) -> (Option<&str>, Option<&str>) {
    let side = |text| Some(text).filter(|text: &&str| !text.is_empty());
    match range.split_once("..") {
        Some((after, until)) => (side(after), side(until)),
        None => (None, side(range)),
    }
}

fn print_verdict(screen: &mut Screen, verdict: &Verdict, as_json: bool) -> std::io::Result<()> {
    let maker = match verdict.maker {
        CommitOrigin::Service => "service",
        CommitOrigin::Person => "person",
    };
    let Verdict { commit, events_len, disagreements, signature, .. } = verdict;
    let faults: Vec<String> = disagreements.iter().map(ToString::to_string).collect();
    if as_json {
        let document = json!({
            "revision": commit.revision.to_string(), "maker": maker, "events": events_len,
            "signature": resource(signature), "disagreements": faults,
        });
        return screen.resource(document.to_string().as_bytes());
    }
    let revision = screen.ink(Style::Name, &commit.revision.to_string()[..SHORT_LEN]);
    let good =
        if faults.is_empty() { screen.ink(Style::Good, "ok") } else { screen.ink(Style::Bad, "DISAGREES") };
    let subject = plain(commit.message.lines().next().unwrap_or_default());
    screen.line(&format!("{revision} {maker} {} {good} {subject}", plain(&signature.to_string())))?;
    if let SignatureStatus::NotChecked(why) = signature {
        let why = screen.ink(Style::Faint, &why.to_string());
        screen.line(&format!("    {why}"))?;
    }
    for fault in faults {
        let fault = screen.ink(Style::Bad, &fault);
        screen.line(&format!("  ! {fault}"))?;
    }
    Ok(())
}

/// Reports what git finds wrong with objects that belong to no single commit.
fn print_unattributed(screen: &mut Screen, faults: &[String], as_json: bool) -> std::io::Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    let faults = faults.iter().cloned().map(|fault| Disagreement::Fsck(fault).to_string());
    if as_json {
        let document = json!({"revision": null, "disagreements": faults.collect::<Vec<_>>()});
        return screen.resource(document.to_string().as_bytes());
    }
    let bad = screen.ink(Style::Bad, "DISAGREES");
    screen.line(&format!("repository {bad}"))?;
    for fault in faults {
        let fault = screen.ink(Style::Bad, &fault);
        screen.line(&format!("  ! {fault}"))?;
    }
    Ok(())
}

/// Formats a signature for programs; what does not apply is left out.
fn resource(signature: &SignatureStatus) -> Value {
    let of = |state: &str, why: &dyn ToString| json!({"state": state, "detail": why.to_string()});
    match signature {
        SignatureStatus::None => json!({"state": "unsigned"}),
        SignatureStatus::Valid { key, signer } => json!({
            "state": "valid", "signer": signer.principals, "key": key.fingerprint, "algorithm": key.algorithm,
        }),
        SignatureStatus::Unattributed(key) => json!({
            "state": "unattributed", "key": key.fingerprint, "algorithm": key.algorithm,
        }),
        SignatureStatus::NotAllowed { key, why } => json!({
            "state": "not-allowed", "key": key.fingerprint, "algorithm": key.algorithm, "detail": why.to_string(),
        }),
        SignatureStatus::Bad(why) => of("bad", why),
        SignatureStatus::NotChecked(why) => of("not-checked", why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_sides_or_one() {
        assert_eq!(range_sides(""), (None, None));
        assert_eq!(range_sides("a..b"), (Some("a"), Some("b")));
        assert_eq!(range_sides("a.."), (Some("a"), None));
        assert_eq!(range_sides("..b"), (None, Some("b")));
        assert_eq!(range_sides("v1.0"), (None, Some("v1.0")));
    }
}
