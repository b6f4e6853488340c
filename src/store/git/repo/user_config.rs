//! The configuration of the user who runs the service. This is the only place that reads more than the repository's
//! own configuration, and only for six things: the author of hand edits, the trusted signers, the hooks folder,
//! whether a filter program changes a file, whether file modes matter, and the repositories of other users that may be
//! served (`safe.directory`).
//!
//! The files are those of git (git-config(1), FILES and ENVIRONMENT), later ones taking precedence over earlier
//! ones: the system's, unless `GIT_CONFIG_NOSYSTEM` is set; the user's, or the one file that `GIT_CONFIG_GLOBAL`
//! names; the repository's. Nothing in them is ever executed.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use git2::{AttrCheckFlags, AttrValue, Config, ConfigLevel, Repository, RepositoryOpenFlags};

use crate::domain::Actor;
use crate::store::StoreError;
use crate::store::git::repo::layout::Layout;

/// Looks up an environment variable; these are git's own, not settings of the service.
type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Returns the person on whose behalf hand edits are committed.
pub(crate) fn hand_edit_author(layout: &Layout) -> Actor {
    // Includes what is configured for some repositories or branches only (`includeIf`).
    let config = open_by_libgit2(layout).and_then(|it| it.config()).unwrap_or_else(|_| open(layout));
    let text = |name| config.get_string(name).unwrap_or_default();
    Actor::new(&text("user.name"), &text("user.email"))
}

/// The files by which git verifies SSH signatures, as far as its configuration names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignatureFiles {
    /// The trusted signers, `gpg.ssh.allowedSignersFile`.
    pub allowed_signers: Option<PathBuf>,
    /// The revoked keys, `gpg.ssh.revocationFile`.
    pub revoked_keys: Option<PathBuf>,
    /// The checked-out files, which may come from anyone whose commits are accepted.
    pub work_tree: Option<PathBuf>,
}

impl SignatureFiles {
    /// Reports whether the list of trusted signers is one of the checked-out files.
    #[must_use]
    pub fn is_checked_out(&self) -> bool {
        let (Some(signers), Some(root)) = (&self.allowed_signers, &self.work_tree) else { return false };
        let [signers, root] = [signers, root].map(std::fs::canonicalize);
        signers.is_ok_and(|signers| root.is_ok_and(|root| signers.starts_with(root)))
    }
}

/// Returns what git's configuration says about signatures in this repository. Relative paths start at the root of
/// the work tree, where git runs when it reads them.
///
/// # Errors
///
/// Fails if there is no repository, or one that can't be served.
pub fn signature_files(repository: &Path) -> Result<SignatureFiles, StoreError> {
    let layout = Layout::find(repository, ".")?;
    let config = open(&layout);
    let root = layout.work_tree.as_ref().unwrap_or(&layout.git_dir);
    let path = |name| config.get_path(name).ok().map(|path| root.join(path));
    Ok(SignatureFiles {
        allowed_signers: path("gpg.ssh.allowedSignersFile"),
        revoked_keys: path("gpg.ssh.revocationFile"),
        work_tree: layout.work_tree.clone(),
    })
}

/// Returns the folder that git takes its hooks from instead of its own (`core.hooksPath`).
///
/// # Errors
///
/// Fails if there is no repository, or one that can't be served.
pub fn hooks_folder(repository: &Path) -> Result<Option<PathBuf>, StoreError> {
    let layout = Layout::find(repository, ".")?;
    let named = open(&layout).get_path("core.hooksPath").ok();
    let root = layout.work_tree.as_ref().unwrap_or(&layout.git_dir);
    Ok(named.map(|path| root.join(path)))
}

/// Reports whether git tracks the executable bit of files (`core.fileMode`).
pub(crate) fn has_file_modes(layout: &Layout) -> bool {
    open(layout).get_bool("core.fileMode").unwrap_or(true)
}

/// Reads an environment variable of git's own.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    env::var_os(name)
}

/// Returns the folders whose owner does not matter (`safe.directory`), from the configuration of the user and the
/// system.
pub(crate) fn safe_directories() -> Vec<String> {
    let config = open_outside();
    let mut found = Vec::new();
    let home = environment("HOME").unwrap_or_default().to_string_lossy().into_owned();
    if let Ok(values) = config.multivar("safe.directory", None) {
        let add = |entry: &git2::ConfigEntry<'_>| {
            let text = entry.value().unwrap_or_default();
            found.push(text.strip_prefix("~/").map_or(text.to_owned(), |rest| format!("{home}/{rest}")));
        };
        // A value that can't be read is ignored.
        drop(values.for_each(add));
    }
    found
}

/// Reports whether git changes this content of a file of the collections folder before committing it
/// (gitattributes(5)), or may do so: it runs a configured program (`filter`), or converts its line ends (`text`, `eol`),
/// its encoding (`working-tree-encoding`) or `$Id: ...$` (`ident`).
pub(crate) fn is_converted(layout: &Layout, name: &str, content: &[u8]) -> bool {
    let converts = || {
        let repository = open_by_libgit2(layout)?;
        let path = layout.path_in_repository(name);
        let attribute = |name| repository.get_attr(Path::new(&path), name, AttrCheckFlags::default());
        if let AttrValue::String(_) = AttrValue::from_string(attribute("working-tree-encoding")?) {
            return Ok(true);
        }
        let has = |text: &[u8]| content.windows(text.len()).any(|part| part == text);
        if has(b"$Id:") && AttrValue::from_string(attribute("ident")?) == AttrValue::True {
            return Ok(true);
        }
        if has(b"\r\n") {
            // Of a file that git only takes for text (`auto`), it leaves the line ends as they were committed.
            let is_text = match AttrValue::from_string(attribute("text")?) {
                AttrValue::True => true,
                AttrValue::Unspecified => {
                    matches!(AttrValue::from_string(attribute("eol")?), AttrValue::String(_))
                }
                AttrValue::False | AttrValue::String(_) | AttrValue::Bytes(_) => false,
            };
            if is_text {
                return Ok(true);
            }
        }
        let AttrValue::String(filter) = AttrValue::from_string(attribute("filter")?) else {
            return Ok(false);
        };
        let config = repository.config()?;
        let is_set = |what: &str| config.get_string(&format!("filter.{filter}.{what}")).is_ok();
        Ok::<_, git2::Error>(is_set("clean") || is_set("process"))
    };
    // Where the attributes can't be read, any program may be meant for any file: what it hides must not be committed.
    converts().unwrap_or_else(|_| has_filters(&open(layout)))
}

/// Returns whether the configuration names a filter program, for whatever files.
fn has_filters(config: &Config) -> bool {
    let mut has_any = false;
    let read = config
        .entries(Some(r"^filter\..*\.(clean|process)$"))
        .and_then(|entries| entries.for_each(|_| has_any = true));
    has_any || read.is_err()
}

/// Opens the repository with libgit2, which does not support every repository that we serve.
fn open_by_libgit2(layout: &Layout) -> Result<Repository, git2::Error> {
    let flags =
        RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT | RepositoryOpenFlags::FROM_ENV;
    Repository::open_ext(&layout.git_dir, flags, [""; 0])
}

/// Opens all files that git would read, except `git -c` and its variables. A file that can't be read is ignored.
fn open(layout: &Layout) -> Config {
    let mut config = open_outside();
    add(&mut config, ConfigLevel::Local, &layout.common_dir.join("config"));
    if config.get_bool("extensions.worktreeconfig").unwrap_or(false) {
        add(&mut config, ConfigLevel::Worktree, &layout.git_dir.join("config.worktree"));
    }
    config
}

fn open_outside() -> Config {
    let mut config = Config::new().expect("libgit2 has memory for an empty configuration");
    outside(&environment).iter().for_each(|(level, path)| add(&mut config, *level, path));
    config
}

/// Adds a file; one that is absent or can't be read is ignored.
fn add(config: &mut Config, level: ConfigLevel, path: &Path) {
    drop(path.is_file().then(|| config.add_file(path, level, false)));
}

/// The files outside of any repository.
fn outside(variable: Variable<'_>) -> Vec<(ConfigLevel, PathBuf)> {
    let path = |name: &str| variable(name).map(PathBuf::from);
    let mut files = Vec::new();
    let is_left_out = variable("GIT_CONFIG_NOSYSTEM").map(Config::parse_bool);
    if !matches!(is_left_out, Some(Ok(true))) {
        let system = path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
        files.push((ConfigLevel::System, system));
    }
    // An empty value names no file, but still replaces the user's.
    if let Some(global) = path("GIT_CONFIG_GLOBAL") {
        files.push((ConfigLevel::Global, global));
        return files;
    }
    let home = path("HOME").filter(|home| !home.as_os_str().is_empty());
    let xdg = path("XDG_CONFIG_HOME").filter(|folder| !folder.as_os_str().is_empty());
    let xdg = xdg.or_else(|| Some(home.as_ref()?.join(".config")));
    files.extend(xdg.map(|folder| (ConfigLevel::XDG, folder.join("git/config"))));
    files.extend(home.map(|home| (ConfigLevel::Global, home.join(".gitconfig"))));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the files that are read in this environment.
    fn files(environment: &[(&str, &str)]) -> Vec<String> {
        let variable =
            |name: &str| Some(OsString::from(environment.iter().find(|(known, _)| *known == name)?.1));
        outside(&variable).into_iter().map(|(_, path)| path.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_files_are_those_that_git_reads() {
        let home = ("HOME", "/h");
        assert_eq!(files(&[home]), ["/etc/gitconfig", "/h/.config/git/config", "/h/.gitconfig"]);
        assert_eq!(files(&[home, ("XDG_CONFIG_HOME", "/x")])[1], "/x/git/config");
        assert_eq!(files(&[home, ("XDG_CONFIG_HOME", "")])[1], "/h/.config/git/config");
        assert_eq!(files(&[home, ("GIT_CONFIG_GLOBAL", "/g")]), ["/etc/gitconfig", "/g"]);
        assert_eq!(files(&[home, ("GIT_CONFIG_GLOBAL", "")]), ["/etc/gitconfig", ""]);
        assert_eq!(files(&[("GIT_CONFIG_SYSTEM", "/s"), ("GIT_CONFIG_NOSYSTEM", "0")]), ["/s"]);
        for set in ["1", "true", "YES", "on"] {
            let none = files(&[("GIT_CONFIG_SYSTEM", "/s"), ("GIT_CONFIG_NOSYSTEM", set)]);
            assert_eq!(none, [""; 0], "{set}");
        }
    }
}
