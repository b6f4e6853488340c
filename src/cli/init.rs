//! `collectory init`: creates a repository with an example.

mod editor;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use uuid::Uuid;

use crate::cli::flags::repository::FolderArgs;
use crate::cli::{Done, Failure, note};
use crate::config::{FOLDER_DEFAULT, REPOSITORY_DEFAULT};
use crate::domain::file_name;
use crate::domain::{Event, Key};
use crate::format::{self, message};
use crate::http::Clock;
use crate::store::git::{Access, GitJournal, Options, hooks_folder};
use crate::store::git_command::quoted;
use crate::store::signature::SigningKey;
use crate::store::{Draft, Journal as _};

/// Make a repository and commit a commented example
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Make a repository with a work tree at DIR (./settings without it), which must be absent or empty, and commit a commented example \
of a collection. It is an ordinary git repository: edit, commit, pull and push as you like, also while it \
is served.")]
pub(crate) struct Init {
    /// The folder of the new repository.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,

    /// The same as DIR, which takes precedence.
    #[arg(long = "repo", env = "COLLECTORY_REPO", value_name = "DIR", default_value = REPOSITORY_DEFAULT)]
    repository: PathBuf,

    #[command(flatten)]
    folder: FolderArgs,

    /// Sign the example with the SSH key in this file, as `serve --signing-key` does.
    #[arg(long, env = "COLLECTORY_SIGNING_KEY", value_name = "FILE")]
    signing_key: Option<PathBuf>,

    /// Install a pre-commit hook too, which refuses a commit with a broken collection file; DIR may then be a
    /// repository already. Where git would not run the hook (no work tree, `core.hooksPath`), this is reported and
    /// nothing is installed.
    #[arg(long, env = "COLLECTORY_HOOK")]
    hook: bool,
}

const EXAMPLES: &str = "\
Examples:
  collectory init settings                make it
  $EDITOR settings/collections/posts.yaml look at the example
  collectory serve --auth allow-all       serve it";

const EXAMPLE_KEY: &str = "posts";

const EXAMPLE: &str = "\
# One collection: a named folder of the content store. Its key is the name of this file, `posts`.
# Save a change and the service has it at once; commit it when it is to stay.
type: document             # or media; stays as it is once the collection exists
name: Posts                # what people call it
directory: content/posts   # where the content store keeps it
recursive: true            # whether folders inside the directory belong to it
# An unknown attribute is refused, so that a typing error is noticed. Settings of your own begin
# with `x-`:
# x-colour: teal
";

impl Init {
    pub(crate) fn run(mut self) -> Result<Done, Failure> {
        self.repository = self.dir.take().unwrap_or(self.repository);
        // Check first, so that a typing error creates no repository.
        self.options(Access::Serve).check()?;
        let signing_key = self.signing_key.as_deref().map(SigningKey::read).transpose()?;
        if GitJournal::init(&self.repository)? {
            let options = Options { signing_key, ..self.options(Access::Serve) };
            commit_example(&mut GitJournal::open(options)?)?;
            let example = file_name::path_in(&self.folder.path, "posts.yaml");
            note(&format!("made {} with an example, {example}", self.repository.display()));
            editor::write_settings(&self.repository, &self.folder.path)?;
            note("VS Code completes and checks collection files there, with its YAML extension (.vscode)");
        } else if !self.hook {
            let dir = self.repository.display();
            return Err(
                anyhow!("{dir} is a repository already; `collectory serve --repo {dir}` serves it").into()
            );
        }
        if self.hook {
            // Surveying works beside a running service too.
            let journal = GitJournal::open(self.options(Access::Survey))?;
            note(&self.install_hook(&journal)?);
        }
        Ok(Done::Well)
    }

    /// Installs the hook where git looks for it; returns what was done.
    fn install_hook(&self, journal: &GitJournal) -> anyhow::Result<String> {
        let repository = self.repository.display();
        if journal.work_tree_root().is_none() {
            bail!("{repository} has no work tree, so nobody commits there and git runs no pre-commit hook");
        }
        if let Some(folder) = hooks_folder(&self.repository)? {
            // The configured folder may hold the hooks of all repositories of the person.
            let (folder, command) = (folder.display(), command(&self.folder.path));
            bail!("git takes its hooks from {folder} (core.hooksPath); add `{command}` to pre-commit there");
        }
        install_hook(journal.common_dir(), &self.folder.path)
    }

    fn options(&self, access: Access) -> Options {
        Options { folder: self.folder.path.clone(), access, ..Options::new(&self.repository) }
    }
}

/// Commits the example as its creation, with the person in git's configuration as the author.
fn commit_example(journal: &mut GitJournal) -> anyhow::Result<()> {
    let key = Key::parse(EXAMPLE_KEY).expect("the example's key keeps to the rule");
    let collection =
        format::read(&key, EXAMPLE.as_bytes()).map_err(|faults| anyhow!("BUG: {}", faults[0].message))?;
    let event = Event::Created(Arc::new(collection));
    let about = message::MessageDetails { by_command: true, ..message::MessageDetails::default() };
    let draft = Draft {
        files: vec![(file_name::default_name(&key), Some(EXAMPLE.into()))],
        message: message::compose(&[(Uuid::now_v7(), &event)], &about),
        author: journal.hand_edit_author(),
        at: Clock::system().now(),
    };
    journal.append(None, &[draft])?;
    Ok(())
}

/// Installs the pre-commit hook, unless there is one; returns what was done.
///
/// The hook names a folder that is not the default, so that it works in a shell without our variables.
fn install_hook(git_dir: &Path, folder: &str) -> anyhow::Result<String> {
    let hooks = git_dir.join("hooks");
    let path = hooks.join("pre-commit");
    let script = script(folder)?;
    fs::create_dir_all(&hooks).with_context(|| format!("cannot make {}", hooks.display()))?;
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o755).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::read_to_string(&path).is_ok_and(|there| there == script) {
                return Ok(format!("{} is installed already", path.display()));
            }
            bail!("there is a hook already; add `{}` to {}", command(folder), path.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
    };
    file.write_all(script.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(format!("installed {}", path.display()))
}

/// Returns the script of the hook. It also names this program by its path, because graphical programs have a short
/// PATH. If the program no longer exists, the commit passes: a hook that stops every commit would help no one.
fn script(folder: &str) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(format!(
        "#!/bin/sh\n\
         # Refuses a commit with a broken collection file; `git commit --no-verify` passes it by.\n\
         for program in collectory {}; do\n  \
           if command -v \"$program\" >/dev/null 2>&1; then exec \"$program\" {}; fi\n\
         done\n\
         echo 'collectory is not installed here, so the collection files are not checked' >&2\n",
        quoted(&program.to_string_lossy()),
        arguments(folder),
    ))
}

fn command(folder: &str) -> String {
    format!("collectory {}", arguments(folder))
}

fn arguments(folder: &str) -> String {
    match folder {
        FOLDER_DEFAULT => "check --staged .".to_owned(),
        _ => format!("check --staged --path {} .", quoted(folder)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_example_is_a_collection() {
        let key = Key::parse(EXAMPLE_KEY).unwrap();
        let collection = format::read(&key, EXAMPLE.as_bytes()).unwrap();
        assert_eq!(collection.attributes().len(), 3);
        let uncommented = EXAMPLE.replace("# x-colour", "x-colour");
        assert_eq!(format::read(&key, uncommented.as_bytes()).unwrap().attributes().len(), 4);
    }

    #[test]
    fn a_hook_is_installed_once_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let install = |folder_name| install_hook(folder.path(), folder_name);
        assert!(install("it's/here").unwrap().starts_with("installed "));
        let path = folder.path().join("hooks/pre-commit");
        let script = fs::read_to_string(&path).unwrap();
        assert!(script.contains("\"$program\" check --staged --path 'it'\\''s/here' .;"), "{script}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0o111);
        assert!(install("it's/here").unwrap().ends_with(" is installed already"));
        assert!(install("collections").unwrap_err().to_string().contains("there is a hook already"));
        assert_eq!(fs::read_to_string(&path).unwrap(), script);
    }

    #[test]
    fn a_hook_without_its_program_lets_the_commit_pass_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let own = script("collections").unwrap();
        let program = std::env::current_exe().unwrap();
        let gone = own.replace(&*program.to_string_lossy(), "/nowhere/collectory");
        fs::write(folder.path().join("hook"), gone).unwrap();
        let run =
            std::process::Command::new("/bin/sh").arg(folder.path().join("hook")).env("PATH", "").output();
        let run = run.unwrap();
        assert!(run.status.success());
        assert!(String::from_utf8_lossy(&run.stderr).contains("collectory is not installed"));
    }
}
