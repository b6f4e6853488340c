//! Asks the remote which branch its `HEAD` names.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::store::git::{REMOTE_FOLDER, is_branch_name};
use crate::store::git_command;
use crate::store::remote::error::RemoteError;
use crate::store::remote::transport::access::RemoteSecrets;
use crate::store::remote::transport::folder::{BRANCH, create};
use crate::store::remote::transport::git::Git;
use crate::store::remote::transport::process::{ProcessOutput, Processes};
use crate::store::remote::transport::url::RemoteUrl;

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
