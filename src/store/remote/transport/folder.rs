//! The private `GIT_DIR` inside the repository.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file for the name that the remote reports; empty until it has. A power cut may leave something else, and the
/// repository may come from someone else.
pub(crate) const BRANCH: &str = "branch";

/// Exists from when neither side had a commit of the branch until the remote has one.
pub(crate) const BEGUN: &str = "begun";

/// The namespace of the refs.
pub(crate) const NOTES: &str = "refs/collectory/";

/// A private ref, which no remote has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrivateRef {
    /// The head of the remote that the local branch contains.
    Base,
    /// The head of the remote that the local branch is about to contain; once it does, the same as the base.
    Coming,
    /// The head that a poll fetched.
    Polled,
    /// The head that the writer fetched, after a push for instance.
    Judged,
    /// The head that was fetched after a background push.
    Behind,
}

impl PrivateRef {
    pub(crate) const ALL: [Self; 5] = [Self::Base, Self::Coming, Self::Polled, Self::Judged, Self::Behind];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Base => "refs/collectory/base",
            Self::Coming => "refs/collectory/coming",
            Self::Polled => "refs/collectory/polled",
            Self::Judged => "refs/collectory/judged",
            Self::Behind => "refs/collectory/behind",
        }
    }
}

/// The `pre-push` hook, which git runs when it knows what the remote has and before it sends anything: it leaves a
/// mark if there is something to send.
const PRE_PUSH: &str = "#!/bin/sh\n\
    if read -r line && [ -n \"$COLLECTORY_PUSH_MARK\" ]; then : > \"$COLLECTORY_PUSH_MARK\"; fi\nexit 0\n";

/// Creates what git needs of a `GIT_DIR`, and our hook. The repository may come from someone else, and git would run
/// and follow what the folder contains, so only our own refs and notes are kept of that.
pub(crate) fn fill(folder: &Path) -> io::Result<()> {
    let is_folder = |path: &Path| fs::symlink_metadata(path).map(|there| there.is_dir());
    if is_folder(folder).is_ok_and(|is_folder| !is_folder) {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no folder"));
    }
    fs::create_dir_all(folder)?;
    let is_ours = |name: &str| name == BEGUN || name == BRANCH;
    keep_only(folder, |name, kind| (name == "refs" && kind.is_dir()) || (is_ours(name) && kind.is_file()))?;
    let (refs, notes) = (folder.join("refs"), folder.join("refs/collectory"));
    fs::create_dir_all(&refs)?;
    keep_only(&refs, |name, kind| name == "collectory" && kind.is_dir())?;
    fs::create_dir_all(&notes)?;
    let is_note =
        |name: &str| PrivateRef::ALL.iter().any(|note| note.name().strip_prefix(NOTES) == Some(name));
    keep_only(&notes, |name, kind| kind.is_file() && is_note(name))?;
    for inner in ["hooks", "objects"] {
        fs::create_dir_all(folder.join(inner))?;
    }
    fs::write(folder.join("HEAD"), "ref: refs/heads/none\n")?;
    fs::write(folder.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")?;
    let draft = folder.join("hooks/pre-push.new");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&draft)?;
    file.write_all(PRE_PUSH.as_bytes())?;
    drop(file);
    fs::rename(draft, folder.join("hooks/pre-push"))
}

/// Removes everything else from a folder, including locks of a git that was killed.
fn keep_only(folder: &Path, is_kept: impl Fn(&str, FileType) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()? {
        let kind = entry.file_type()?;
        if !entry.file_name().to_str().is_some_and(|name| is_kept(name, kind)) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file or a folder; a symbolic link is not followed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    }
}

/// Creates a file anew in place of an existing one.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}
