//! The outcome of a push, as far as git can tell.

use crate::store::remote::transport::process::ProcessOutput;
use crate::store::remote::transport::words::visible;

/// The maximum number of characters shown of the short reason that a remote gives for refusing a push.
const WORD_CHARS_MAX: usize = 200;

/// The outcome of a push. Except for `Accepted`, only the remote's head can tell what it means for the commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// The remote accepted the push.
    Accepted,
    /// The remote refused the push, and why.
    Answered(String),
    /// Nothing was sent: the remote was not reached, or its branch was not at the lease.
    NotSent(String),
    /// Something was sent, and no answer arrived.
    NoAnswer(String),
}

impl PushOutcome {
    /// Returns why the push was not accepted.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Accepted => "it was accepted",
            Self::Answered(why) | Self::NotSent(why) | Self::NoAnswer(why) if !why.is_empty() => why,
            Self::Answered(_) | Self::NotSent(_) | Self::NoAnswer(_) => "it has not answered a push",
        }
    }

    /// Parses the output of `git push --porcelain`; `said` is its error output.
    pub(crate) fn of(ended: &ProcessOutput, branch: &str, is_sent: bool, said: String) -> Self {
        match status_of(&ended.output, branch) {
            Some(('!', summary)) if summary.starts_with("[remote rejected]") => {
                Self::Answered(said_or(said, &summary))
            }
            Some(('!', summary)) if summary.starts_with("[rejected]") => Self::NotSent(summary),
            Some((' ' | '+' | '*' | '=', _)) if ended.is_success() => Self::Accepted,
            Some(_) | None if is_sent => Self::NoAnswer(said),
            Some(_) | None => Self::NotSent(said),
        }
    }
}

/// Returns the remote's messages and its short reason, or only the latter if there are none.
fn said_or(said: String, summary: &str) -> String {
    let word = summary.trim_start_matches("[remote rejected]").trim();
    let word: String = visible(word).chars().take(WORD_CHARS_MAX).collect();
    let parts: Vec<&str> =
        said.split("; ").filter(|part| !part.starts_with("error: failed to push")).collect();
    match parts.is_empty() {
        true => word,
        false => format!("{} {word}", parts.join("; ")),
    }
}

/// Returns the flag and the summary on the branch's line.
pub(crate) fn status_of(output: &str, branch: &str) -> Option<(char, String)> {
    output.lines().find_map(|line| {
        let mut fields = line.splitn(3, '\t');
        let (flag, refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        let (_, to) = refs.split_once(':')?;
        (to == format!("refs/heads/{branch}")).then_some((flag.chars().next()?, summary.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn pushed(code: i32, output: &str, is_sent: bool) -> PushOutcome {
        let output = format!("To /srv/x\n{output}Done\n");
        let ended =
            ProcessOutput { status: Some(ExitStatus::from_raw(code << 8)), output, error: String::new() };
        PushOutcome::of(&ended, "main", is_sent, "error: failed to push some refs".to_owned())
    }

    #[test]
    fn what_became_of_a_push_is_read_from_its_line() {
        assert_eq!(pushed(0, " \tabc:refs/heads/main\ta..b\n", true), PushOutcome::Accepted);
        assert_eq!(pushed(0, "*\tabc:refs/heads/main\t[new branch]\n", true), PushOutcome::Accepted);
        let declined = "!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n";
        assert_eq!(
            pushed(1, declined, true),
            PushOutcome::Answered("(pre-receive hook declined)".to_owned())
        );
        let stale = "!\tabc:refs/heads/main\t[rejected] (stale info)\n";
        assert_eq!(pushed(1, stale, false), PushOutcome::NotSent("[rejected] (stale info)".to_owned()));
        let failure = "!\tabc:refs/heads/main\t[remote failure] (remote failed to report status)\n";
        assert!(matches!(pushed(1, failure, true), PushOutcome::NoAnswer(_)));
        assert!(matches!(pushed(128, "", true), PushOutcome::NoAnswer(_)));
        assert!(matches!(pushed(128, "", false), PushOutcome::NotSent(_)));
    }
}
