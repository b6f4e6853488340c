//! Opens files that others may have put there. Only regular files are read or written, opening a pipe does not
//! block, and symbolic links are not followed for files of our own.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file of git's for reading; symbolic links are followed, as git does.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    ordinary(OpenOptions::new().read(true), OFlags::NONBLOCK, path)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    whole(open(path)?)
}

/// Opens a file of our own, where no symbolic link is expected; one is not followed.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    ordinary(options, OFlags::NONBLOCK | OFlags::NOFOLLOW, path)
}

pub(crate) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    whole(open_own(OpenOptions::new().read(true), path)?)
}

/// Creates a file of our own, or truncates it.
pub(crate) fn create_own(path: &Path) -> io::Result<File> {
    // It is truncated only once it is known to be a regular file.
    let file = open_own(OpenOptions::new().write(true).create(true).truncate(false), path)?;
    file.set_len(0).map(|()| file)
}

fn ordinary(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let flags = i32::try_from(flags.bits()).expect("flags of open(2) are a C int");
    let file = options.custom_flags(flags).open(path)?;
    let there = file.metadata()?.file_type();
    match there.is_file() {
        true => Ok(file),
        false if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file")),
    }
}

fn whole(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_in_a_file_s_place_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(create_own(&path).is_err());
        assert!(open_own(OpenOptions::new().append(true).create(true), &path).is_err());
        assert_eq!(read(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn a_link_in_the_place_of_a_file_of_ours_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [link, victim] = ["link", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "theirs").unwrap();
        symlink(&victim, &link).unwrap();
        assert_eq!(read(&link).unwrap(), b"theirs");
        assert!(read_own(&link).is_err());
        assert!(create_own(&link).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"theirs");
        create_own(&folder.path().join("new")).unwrap().write_all(b"ours").unwrap();
        assert_eq!(read_own(&folder.path().join("new")).unwrap(), b"ours");
    }
}
