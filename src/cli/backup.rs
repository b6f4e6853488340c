//! `collectory backup`: copies the history into one file, also beside a running service.
//!
//! The copy is a git bundle of the served branch, the kept former heads of rewritten branches, and everything that
//! they reach. Git reads the refs once and then only objects, which never change, so the service can continue to
//! write. Before it replaces an older copy, the bundle is restored into a separate folder to prove it complete.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, anyhow, bail};

use crate::cli::flags::repository::{Repository, open_as_served};
use crate::cli::scratch::Scratch;
use crate::cli::{Done, Failure, counted, folder_of, note};
use crate::store::KeptHead;
use crate::store::git::{Access, GitJournal, Options};
use crate::store::git_command::{git, git_read_only};

/// Copy the history into one file, beside a running service
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Copy the history into one file: a git bundle of the served branch and of the kept heads of rewritten \
branches. A service may run and write meanwhile: every write that it had answered when the command \
began is in the copy. Without --branch it is the branch that the service serves, or else the one that HEAD names.

The bundle is restored into a temporary folder and checked before it takes the place of an older one, in one \
step. That needs as much room beside FILE as two copies have. What is saved but not committed is not in it. \
Needs git.")]
pub(crate) struct Backup {
    /// The bundle; an older one is replaced.
    file: PathBuf,

    #[command(flatten)]
    repository: Repository,
}

const EXAMPLES: &str = "\
Examples:
  collectory backup /backup/settings.bundle --repo /srv/settings
  git clone --branch main /backup/settings.bundle settings       the way back, with a work tree
  git clone --mirror /backup/settings.bundle settings.git        the way back, bare, with what was kept";

const NO_GIT: &str = "cannot run git, which a backup needs";

impl Backup {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let options = Options {
            branch: self.repository.branch.clone(),
            access: Access::Read,
            ..Options::new(self.repository.find()?)
        };
        let journal = open_as_served(&options, GitJournal::open)?;
        // What a symbolic link leads to is replaced, and not the link.
        let file = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let older = fs::metadata(&file).ok();
        if older.as_ref().is_some_and(|older| !older.is_file()) {
            return Err(
                anyhow!("{} is no ordinary file, and only such a file is replaced", file.display()).into()
            );
        }
        let folder = folder_of(&file);
        let failed = || format!("cannot write in {}", folder.display());
        let beside = fs::canonicalize(folder).with_context(failed)?;
        let scratch = Scratch::inside(&beside, ".collectory-backup").with_context(failed)?;
        let bundle = scratch.path().join("bundle");
        let copied = || {
            let refs = bundled(journal.common_dir(), &format!("refs/heads/{}", journal.branch()), &bundle)?;
            restored(&bundle, &scratch.path().join("restored"))
                .context("the copy can't be restored, so it was not kept")?;
            anyhow::Ok(refs)
        };
        let refs = match (copied(), journal.incomplete_reason()?) {
            (Err(error), Some(incomplete)) => return Err(error.context(incomplete).into()),
            (copied, _) => copied?,
        };
        if let Some(older) = older {
            fs::set_permissions(&bundle, older.permissions()).with_context(failed)?;
        }
        put(&bundle, &file, folder).with_context(|| format!("cannot write {}", self.file.display()))?;
        note(&format!("copied {} to {}", counted(refs, "ref"), self.file.display()));
        Ok(Done::Well)
    }
}

/// Writes the bundle; returns the number of refs in it.
///
/// Git's own `bundle create` reads each ref separately, so under load `HEAD` could differ from its branch. This reads
/// all refs at once.
fn bundled(repository: &Path, branch: &str, bundle: &Path) -> anyhow::Result<usize> {
    let git = |arguments: &[&str]| git_output(git_read_only(repository), arguments);
    let format = "--format=%(objectname) %(refname)";
    let listed = git(&["for-each-ref", format, branch, KeptHead::REFS])?;
    let mut refs: Vec<&str> = listed.lines().collect();
    let Some(head) = refs.iter().find_map(|line| line.strip_suffix(branch)) else {
        bail!("there is nothing to copy: {branch} has no commit yet");
    };
    // With HEAD in the bundle, `git clone` needs no branch name.
    let is_head = git(&["symbolic-ref", "--quiet", "HEAD"]).is_ok_and(|named| named.trim_end() == branch);
    let head = format!("{head}HEAD");
    refs.splice(0..0, is_head.then_some(head.as_str()));
    let mut file = File::create(bundle)?;
    write!(file, "# v2 git bundle\n{}\n\n", refs.join("\n"))?;
    let wanted: String =
        refs.iter().filter_map(|line| line.split(' ').next()).map(|id| format!("{id}\n")).collect();
    packed(repository, &wanted, file)?;
    Ok(refs.len())
}

/// Restores a bundle into a new folder: every object is read and checked, and all links between objects too.
fn restored(bundle: &Path, folder: &Path) -> anyhow::Result<()> {
    let path = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| anyhow!("{} is no UTF-8", path.display()))
    };
    let (bundle, folder) = (fs::canonicalize(bundle)?, path(folder)?);
    let clone =
        ["clone", "--quiet", "--mirror", "--config", "transfer.fsckObjects=true", &path(&bundle)?, &folder];
    let mut git = git();
    // Without a name git explains at length which one it takes.
    git.args(["-c", "init.defaultBranch=main"]);
    git_output(git, &clone).map(drop)
}

/// Appends a pack with everything that the commits reach.
fn packed(repository: &Path, commits: &str, file: File) -> anyhow::Result<()> {
    let mut command = git_read_only(repository);
    command.args(["pack-objects", "--quiet", "--revs", "--delta-base-offset", "--stdout"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(file).stderr(Stdio::piped()).spawn().context(NO_GIT)?;
    // If git has already ended, its own error is reported, not that of the write.
    let asked = child.stdin.take().map(|mut stdin| stdin.write_all(commits.as_bytes()));
    finished("pack-objects", &child.wait_with_output()?)?;
    Ok(asked.transpose().map(drop)?)
}

/// Runs git and returns its standard output.
fn git_output(mut git: Command, arguments: &[&str]) -> anyhow::Result<String> {
    let output = git.args(arguments).output().context(NO_GIT)?;
    finished(arguments[0], &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn finished(name: &str, output: &Output) -> anyhow::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.trim_end() {
        // Git prints nothing when a signal ends it.
        "" => bail!("git {name} failed: {}", output.status),
        said => bail!("git {name} failed: {said}"),
    }
}

/// Moves a finished file into place, so that readers see either the old file or the complete new one.
fn put(made: &Path, file: &Path, folder: &Path) -> io::Result<()> {
    File::open(made)?.sync_all()?;
    fs::rename(made, file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_that_was_ended_is_told_of() {
        let output = Command::new("sh").args(["-c", "kill -KILL $$"]).output().unwrap();
        let error = finished("pack-objects", &output).unwrap_err().to_string();
        assert!(error.starts_with("git pack-objects failed: signal: 9"), "{error}");
    }
}
