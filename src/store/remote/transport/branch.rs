//! The name of the remote's branch: the one that the operator has given, or else the one that the remote's `HEAD`
//! names. A remote that could not be asked when the repository was made is asked when it can be reached.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use crate::store::git::{REMOTE_FOLDER, is_branch_name};
use crate::store::git_command;
use crate::store::remote::error::RemoteError;
use crate::store::remote::transport::access::RemoteSecrets;
use crate::store::remote::transport::folder::create;
use crate::store::remote::transport::git::Git;
use crate::store::remote::transport::process::{ProcessOutput, Processes};
use crate::store::remote::transport::url::RemoteUrl;

/// The file for the name that the remote reports; empty until it has. A power cut may leave something else, and the
/// repository may come from someone else.
pub(crate) const BRANCH: &str = "branch";

/// The name of the branch.
#[derive(Debug)]
pub(crate) struct BranchName {
    /// The given name, which holds unless the remote reports its own.
    named: String,
    /// The name that the remote reports.
    reported: OnceLock<String>,
    /// Whether the remote is to be asked for the name.
    is_asked_for: bool,
}

impl BranchName {
    /// A branch named by the operator.
    pub(crate) fn of(name: &str) -> Self {
        let named = name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
        Self { named, reported: OnceLock::new(), is_asked_for: false }
    }

    /// A branch with this name unless the remote has reported its own; a note in the folder says whether it is still
    /// to be asked.
    pub(crate) fn asked_for(name: &str, folder: &Path) -> Self {
        let mut branch = Self::of(name);
        if let Ok(reported) = fs::read_to_string(folder.join(BRANCH)) {
            branch.is_asked_for = !is_branch_name(&reported);
            if !branch.is_asked_for {
                branch.reported = reported.into();
            }
        }
        branch
    }

    pub(crate) fn as_str(&self) -> &str {
        self.reported.get().unwrap_or(&self.named)
    }
}

impl Git {
    /// Records, for a repository that was just made, that the remote is to be asked for the name of its branch.
    ///
    /// # Errors
    ///
    /// Fails when it can't be written.
    pub fn note_unnamed(common_dir: &Path) -> Result<(), RemoteError> {
        let folder = common_dir.join(REMOTE_FOLDER);
        let noted = fs::create_dir_all(&folder).and_then(|()| create(&folder.join(BRANCH)));
        noted.map(drop).map_err(|error| {
            RemoteError::Unreachable(format!("cannot write in {}: {error}", folder.display()))
        })
    }

    /// Asks the remote for the name of its branch, if it is not known.
    pub(crate) fn learn_branch(&self, until: Instant) -> Result<(), RemoteError> {
        if !self.branch.is_asked_for || self.branch.reported.get().is_some() {
            return Ok(());
        }
        let ended = self.talk(&["ls-remote", "--symref", "--", &self.address(), "HEAD"], until)?;
        let name = head_of(&ended).unwrap_or_else(|| self.branch.named.clone());
        if let Err(error) = fs::write(self.folder().join(BRANCH), &name) {
            return Err(RemoteError::Unreachable(format!("cannot note the name of its branch: {error}")));
        }
        tracing::info!(remote = %self.url(), branch = name, "the remote has named the branch that is shared");
        self.branch.reported.get_or_init(|| name);
        Ok(())
    }
}

/// Returns the branch that the remote's `HEAD` names, for a clone that is yet to be made; `None` if it names none.
///
/// # Errors
///
/// Fails when the remote does not answer.
pub fn default_branch(
    url: &RemoteUrl,
    access: &RemoteSecrets,
    until: Instant,
) -> Result<Option<String>, RemoteError> {
    let mut command = git_command::git();
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CEILING_DIRECTORIES", "/").current_dir("/");
    command.args(["-c", "core.askPass="]);
    access.configure_auth(&mut command, url, None);
    command.args(["ls-remote", "--symref", "--", &url.for_git(!access.has_token()), "HEAD"]);
    let away = |why: &str| RemoteError::Unreachable(why.to_owned());
    let ended = Processes::default().run(command, until).map_err(|_| away("cannot run git"))?;
    if ended.is_success() { Ok(head_of(&ended)) } else { Err(away("it has not answered")) }
}

/// Parses the branch that `HEAD` names from the output of `git ls-remote --symref`.
fn head_of(ended: &ProcessOutput) -> Option<String> {
    let name = |line: &str| line.strip_prefix("ref: refs/heads/")?.strip_suffix("\tHEAD").map(str::to_owned);
    ended.output.lines().find_map(name).filter(|name| is_branch_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_is_no_branch_name_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        for (note, name, is_asked_for) in
            [("trunk", "trunk", false), ("", "main", true), ("\0\0\0\0", "main", true), ("a:b", "main", true)]
        {
            fs::write(folder.path().join(BRANCH), note).unwrap();
            let branch = BranchName::asked_for("main", folder.path());
            assert_eq!((branch.as_str(), branch.is_asked_for), (name, is_asked_for), "{note:?}");
        }
    }
}
