//! The policy file on disk, replaced atomically.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cli::folder_of;

/// A policy file, which may not exist yet.
pub(crate) struct PolicyFile {
    path: PathBuf,
    folder: PathBuf,
}

impl fmt::Display for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl PolicyFile {
    /// Finds the file; follows a link, so that the link stays in place.
    pub(crate) fn find(path: &Path) -> anyhow::Result<Self> {
        let path = match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
                Ok(target) => folder_of(path).join(target),
                Err(_) => path.to_owned(),
            },
            found => found.with_context(|| format!("cannot find {}", path.display()))?,
        };
        let folder = folder_of(&path).to_owned();
        Ok(Self { path, folder })
    }

    /// Returns the contents, if the file exists.
    pub(crate) fn read(&self) -> anyhow::Result<Option<String>> {
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).with_context(|| format!("cannot read {self}")),
        }
    }

    /// Replaces the contents with what `edit` returns, unless it fails or returns the same contents.
    pub(crate) fn edit(
        &self,
        edit: impl FnOnce(Option<&str>) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let shown = self.folder.display();
        let handle = File::open(&self.folder).with_context(|| format!("cannot open {shown}"))?;
        // Prevents a lost update by another process; released when the handle is closed.
        handle.lock().with_context(|| format!("cannot lock {shown}"))?;
        let old = self.read()?;
        let new = edit(old.as_deref())?;
        if old.as_deref() == Some(&new) {
            return Ok(());
        }
        self.replace(new.as_bytes()).with_context(|| format!("cannot write {self}"))?;
        // The rename is durable once the folder is flushed.
        handle.sync_all().with_context(|| format!("cannot flush {shown}"))
    }

    /// Writes a temporary file and renames it, so a reader sees either the old or the new contents. Owner and mode
    /// stay the same; a new file is accessible only to its owner.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.folder.join(format!(".policy-{}.tmp", uuid::Uuid::new_v4().simple()));
        let written =
            write_like(&temporary, &self.path, bytes).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            // A failure to remove the file is ignored, because the first error matters.
            let _left = fs::remove_file(&temporary);
        }
        written
    }
}

fn write_like(temporary: &Path, model: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    match fs::metadata(model) {
        Ok(metadata) => {
            let made = file.metadata()?;
            if (made.uid(), made.gid()) != (metadata.uid(), metadata.gid()) {
                fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::policy;
    use crate::format::policy::testing::token;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn add(path: &Path, name: &str) {
        let file = PolicyFile::find(path).unwrap();
        file.edit(|old| Ok(policy::add(old, &token(name))?)).unwrap();
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        add(&path, "Mara");
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        add(&path, "Ann");
        assert_eq!(mode(&path), 0o640);
        let tokens = policy::read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(tokens.iter().map(|token| token.actor.name()).collect::<Vec<_>>(), ["Mara", "Ann"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_failed_edit_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        add(&path, "Mara");
        let before = fs::read(&path).unwrap();
        let file = PolicyFile::find(&path).unwrap();
        assert!(file.edit(|old| Ok(policy::add(old, &token("<"))?)).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("policy.yaml"), folder.path().join("link.yaml"));
        add(&path, "Mara");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        add(&link, "Ann");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(policy::read(&fs::read(&path).unwrap()).unwrap().len(), 2);
    }
}
