//! Locates the parts of a repository and checks whether it can be served.
//!
//! Everything is found by our own implementation of `gitrepository-layout(5)`, and from the repository's own
//! configuration, which libgit2 parses; no other configuration and no environment variable matters.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::domain::Revision;
use crate::store::git::disk::barrier::read_if_there;
use crate::store::git::repo::refs::{self, GitHead};
use crate::store::git::repo::sharing::SharedPermissions;
use crate::store::{AtPath as _, StoreError};

#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The path that the caller named, for errors.
    pub(crate) path: PathBuf,
    /// Contains `HEAD` and the index.
    pub(crate) git_dir: PathBuf,
    /// Contains objects, refs and configuration; the same folder except in a linked work tree.
    pub(crate) common_dir: PathBuf,
    /// The checked-out files; `None` if the repository is bare.
    pub(crate) work_tree: Option<PathBuf>,
    /// The components of the collections folder; empty for the root.
    pub(crate) folder: Vec<String>,
    /// Whether reflogs are created for new refs.
    pub(crate) log_new_branches: bool,
    /// Whether no object may be removed, even if it exists elsewhere too (`extensions.preciousObjects`).
    pub(crate) has_precious_objects: bool,
    /// The permissions for sharing it with other users (`core.sharedRepository`).
    pub(crate) shared: Option<SharedPermissions>,
}

/// The maximum size of a configuration file: none in use is larger, and reading one takes thirty times its size in
/// memory.
const CONFIG_BYTES_MAX: u64 = 1_024 * 1_024;

pub(crate) const STATE_FOLDER: &str = "collectory";

/// The `GIT_DIR` for the remote that the branch is shared with, relative to the repository.
pub(crate) const REMOTE_FOLDER: &str = "collectory/remote";

impl Layout {
    pub(crate) fn find(path: &Path, folder: &str) -> Result<Self, StoreError> {
        let unsuitable = |why: String| StoreError::Unsuitable { path: path.to_owned(), why };
        let folder = parse_folder(folder)?;
        let path_read = fs::canonicalize(path).at("open", path)?;
        let Some(git_dir) = find_git_dir(&path_read)? else {
            return Err(unsuitable(not_a_repository(&path_read)));
        };
        let common_dir = match read_if_there(&git_dir.join("commondir"))? {
            Some(text) => resolve(&git_dir, &text)?,
            None => git_dir.clone(),
        };
        let config = Config::read(&git_dir, &common_dir)?;
        config.check(&common_dir).map_err(unsuitable)?;
        let work_tree = find_work_tree(&path_read, &git_dir, git_dir != common_dir, &config)?;
        Ok(Self {
            path: path.to_owned(),
            log_new_branches: config.logs_new_branches(work_tree.is_none()),
            has_precious_objects: config.flag("extensions.preciousobjects").unwrap_or(false),
            shared: config.text("core.sharedrepository").and_then(|text| SharedPermissions::parse(&text)),
            git_dir,
            common_dir,
            work_tree,
            folder,
        })
    }

    /// Finds a part of the repository that is a symbolic link: anything written there would end up outside the
    /// repository.
    pub(crate) fn find_symlinked_part(&self) -> Option<String> {
        let shared = ["objects", "objects/pack", "objects/info", "refs", "refs/heads", "logs", "logs/refs"];
        let parts = shared.map(|part| self.common_dir.join(part)).into_iter();
        let own = [self.state(), self.work_tree_state(), self.git_dir.join("logs/HEAD")];
        parts.chain(own).find_map(|part| {
            let is_link = fs::symlink_metadata(&part).is_ok_and(|there| there.is_symlink());
            is_link.then(|| format!("{} is a symbolic link, which is not followed", part.display()))
        })
    }

    pub(crate) fn head(&self) -> Result<GitHead, StoreError> {
        refs::head(&self.git_dir)
    }

    pub(crate) fn head_commit(&self) -> Result<Option<Revision>, StoreError> {
        match self.head()? {
            GitHead::Detached(revision) => Ok(Some(revision)),
            GitHead::Ref(name) => Ok(refs::read(&self.common_dir, &name)?.map(Revision::new)),
        }
    }

    /// Our own folder in the part of the repository that all work trees share.
    pub(crate) fn state(&self) -> PathBuf {
        self.common_dir.join(STATE_FOLDER)
    }

    /// Reports whether services share, or once shared, the branch through a remote.
    pub(crate) fn has_remote(&self) -> bool {
        self.common_dir.join(REMOTE_FOLDER).try_exists().unwrap_or(true)
    }

    /// Our own folder in this work tree's part of the repository.
    pub(crate) fn work_tree_state(&self) -> PathBuf {
        self.git_dir.join(STATE_FOLDER)
    }

    pub(crate) fn packs(&self) -> PathBuf {
        self.common_dir.join("objects/pack")
    }

    pub(crate) fn path_in_repository(&self, name: &str) -> String {
        self.folder.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/")
    }

    pub(crate) fn unsuitable(&self, why: impl Into<String>) -> StoreError {
        StoreError::Unsuitable { path: self.path.clone(), why: why.into() }
    }
}

/// Sets the umask of this process to what the repository at `path` asks for, if it exists and asks for any. This is
/// for a process that does nothing else; it also affects the files of the work tree.
///
/// # Errors
///
/// Fails if the repository can't be served.
pub fn set_shared_umask(path: &Path) -> Result<(), StoreError> {
    // Its creation may have been interrupted; that there is no repository at all is reported when it is opened.
    if find_git_dir(path)?.is_some()
        && let Some(shared) = Layout::find(path, ".")?.shared
    {
        shared.set_umask();
    }
    Ok(())
}

/// Returns the innermost repository that contains a folder, or is it.
#[must_use]
pub fn enclosing_repository(folder: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    folder.ancestors().find(|above| matches!(find_git_dir(above), Ok(Some(_)))).map(Path::to_owned)
}

fn not_a_repository(path: &Path) -> String {
    match path.parent().and_then(enclosing_repository) {
        Some(above) => format!(
            "it is not a repository itself but lies in the one at {}; name that and, with --path, the folder",
            above.display()
        ),
        None => {
            "it is not a git repository; run `git init` there, or name an empty or absent folder".to_owned()
        }
    }
}

pub(crate) fn parse_folder(folder: &str) -> Result<Vec<String>, StoreError> {
    let trimmed = folder.trim_end_matches('/');
    if matches!(trimmed, "" | ".") && !folder.starts_with('/') {
        return Ok(Vec::new());
    }
    let parts: Vec<String> = trimmed.split('/').map(str::to_owned).collect();
    let wrong = |part: &String| {
        matches!(part.as_str(), "" | "." | "..")
            || part.eq_ignore_ascii_case(".git")
            || part.chars().any(|c| c.is_control() || c == '\\')
    };
    if parts.iter().any(wrong) {
        return Err(StoreError::Misnamed(format!(
            "`{folder}` is no folder inside a repository; write it as collections or .cms/collections"
        )));
    }
    Ok(parts)
}

fn is_git_dir(path: &Path) -> bool {
    // `HEAD` may be a symbolic link to a branch that has no commit yet.
    let shared = path.join("objects").is_dir() && path.join("refs").is_dir();
    fs::symlink_metadata(path.join("HEAD")).is_ok() && (shared || path.join("commondir").is_file())
}

pub(crate) fn find_git_dir(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let dot_git = path.join(".git");
    if dot_git.is_file() {
        let text = read_if_there(&dot_git)?.unwrap_or_default();
        let target = text.strip_prefix(b"gitdir: ".as_slice()).unwrap_or(&text);
        return resolve(path, target).map(Some);
    }
    let candidates = [dot_git, path.to_owned()];
    let found = candidates.into_iter().find(|candidate| is_git_dir(candidate));
    found.map(|path| fs::canonicalize(&path).at("open", &path)).transpose()
}

/// Resolves a path from a file of git's, relative to `base`.
fn resolve(base: &Path, text: &[u8]) -> Result<PathBuf, StoreError> {
    let path = path_named_in(base, text);
    fs::canonicalize(&path).at("open", &path)
}

/// Returns the path that a file of git's contains, relative to `base`.
pub(crate) fn path_named_in(base: &Path, text: &[u8]) -> PathBuf {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    base.join(OsStr::from_bytes(&text[..end]))
}

fn find_work_tree(
    path: &Path,
    git_dir: &Path,
    linked: bool,
    config: &Config,
) -> Result<Option<PathBuf>, StoreError> {
    if linked {
        // The file contains the path of the work tree's `.git`.
        let at = read_if_there(&git_dir.join("gitdir"))?.unwrap_or_default();
        return Ok(resolve(git_dir, &at)?.parent().map(Path::to_owned));
    }
    if let Some(at) = config.text("core.worktree") {
        return resolve(git_dir, at.as_bytes()).map(Some);
    }
    let inside = git_dir.file_name().is_some_and(|name| name == ".git");
    match config.flag("core.bare") {
        Some(true) => Ok(None),
        _ if inside => Ok(git_dir.parent().map(Path::to_owned)),
        // A `.git` file may point to a folder of any name.
        _ if path != git_dir => Ok(Some(path.to_owned())),
        _ => Ok(None),
    }
}

/// Reports whether a configuration file exists; fails if it is not a regular file or far too large.
fn is_readable(path: &Path) -> Result<bool, StoreError> {
    let unfit = |why| Err(StoreError::at("read", path, io::Error::new(io::ErrorKind::InvalidData, why)));
    match fs::metadata(path) {
        Err(_) => Ok(false),
        Ok(there) if !there.is_file() => unfit("it is no ordinary file"),
        Ok(there) if there.len() > CONFIG_BYTES_MAX => unfit("it is larger than a megabyte"),
        Ok(_) => Ok(true),
    }
}

struct Config(git2::Config);

impl Config {
    fn read(git_dir: &Path, common_dir: &Path) -> Result<Self, StoreError> {
        let failed =
            |source| StoreError::Git { action: "read the repository's configuration".to_owned(), source };
        let mut config = git2::Config::new().map_err(failed)?;
        let shared = common_dir.join("config");
        if is_readable(&shared)? {
            config.add_file(&shared, git2::ConfigLevel::Local, false).map_err(failed)?;
        }
        let own = git_dir.join("config.worktree");
        if is_readable(&own)? && config.get_bool("extensions.worktreeconfig").unwrap_or(false) {
            config.add_file(&own, git2::ConfigLevel::Worktree, false).map_err(failed)?;
        }
        Ok(Self(config))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get_string(name).ok()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.0.get_bool(name).ok()
    }

    /// Evaluates `core.logAllRefUpdates`; by default it is set if there is a work tree.
    fn logs_new_branches(&self, bare: bool) -> bool {
        match self.text("core.logallrefupdates") {
            Some(text) if text.eq_ignore_ascii_case("always") => true,
            Some(_) => self.flag("core.logallrefupdates").unwrap_or(!bare),
            None => !bare,
        }
    }

    fn check(&self, common_dir: &Path) -> Result<(), String> {
        let is =
            |name: &str, wanted: &str| self.text(name).is_none_or(|text| text.eq_ignore_ascii_case(wanted));
        if !is("extensions.objectformat", "sha1") {
            return Err(
                "its objects have SHA-256 names, which are not supported; convert it to SHA-1".to_owned()
            );
        }
        if !is("extensions.refstorage", "files") || common_dir.join("reftable").is_dir() {
            return Err("its refs are stored as a reftable, which is not supported; run \
                        `git refs migrate --ref-format=files` there"
                .to_owned());
        }
        if self.flag("core.sparsecheckout") == Some(true) {
            return Err("its work tree is sparse, so files are missing on purpose; run `git sparse-checkout disable` \
                        there, or serve a bare clone"
                .to_owned());
        }
        self.check_extensions()
    }

    /// A repository of format 1 must not be changed by a program that does not know all its extensions
    /// (gitrepository-layout(5)).
    fn check_extensions(&self) -> Result<(), String> {
        const KNOWN: [&str; 7] = [
            "noop",
            "noop-v1",
            "preciousobjects",
            "worktreeconfig",
            "objectformat",
            "refstorage",
            "relativeworktrees",
        ];
        let version = self.0.get_i64("core.repositoryformatversion").unwrap_or(0);
        if !(0..=1).contains(&version) {
            return Err(format!("its format is version {version}, and only 0 and 1 are known"));
        }
        let mut unknown = None;
        let read = self.0.entries(Some("^extensions\\.")).and_then(|entries| {
            entries.for_each(|entry| {
                let name = entry.name().unwrap_or_default().trim_start_matches("extensions.").to_owned();
                if !KNOWN.contains(&name.to_ascii_lowercase().as_str()) {
                    unknown = Some(name);
                }
            })
        });
        match (read, unknown) {
            (Err(error), _) => Err(format!("its configuration can't be read: {}", error.message())),
            (Ok(()), Some(name)) if version == 1 => {
                Err(format!("it needs the extension `{name}`, which is unknown here"))
            }
            (Ok(()), _) => Ok(()),
        }
    }
}

/// Explains why a folder can't be used: its first component below `root` that is a link, not a folder, or a submodule.
pub(crate) fn find_obstacle(root: &Path, parts: &[String]) -> Option<String> {
    let mut at = root.to_owned();
    for part in parts {
        at.push(Component::Normal(part.as_ref()));
        let Ok(there) = fs::symlink_metadata(&at) else { return None };
        if there.is_symlink() {
            return Some(format!("{} is a symbolic link, which is not followed", at.display()));
        }
        if !there.is_dir() {
            return Some(format!("{} is not a folder", at.display()));
        }
        if at.join(".git").exists() {
            return Some(format!(
                "{} is a repository of its own (a submodule); serve that instead",
                at.display()
            ));
        }
    }
    None
}
