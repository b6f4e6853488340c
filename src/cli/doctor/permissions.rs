//! Whether the current user and the repository's owner may write everything that a service writes.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use crate::cli::doctor::{Finding, Repo};

const CHECK: &str = "permissions";

/// The mode bit that lets the owner write; [`ANOTHER_WRITES`] lets the group or others write.
const OWNER_WRITES: u32 = 0o200;
const ANOTHER_WRITES: u32 = 0o022;

pub(super) fn check_permissions(repo: &Repo, findings: &mut Vec<Finding>) {
    let (me, owner) = (geteuid().as_raw(), fs::metadata(&repo.common_dir).map(|there| there.uid()).ok());
    for written in &repo.written {
        let (path, there) = (written.path.display(), fs::metadata(&written.path).ok());
        if let Err(error) = may_write(&written.path, there.as_ref()) {
            let whose =
                there.as_ref().map(|there| ownership_hint(there.uid(), there.mode(), me)).unwrap_or_default();
            let what = format!("{path} can't be written by this user: {error}{whose}");
            let fix = there.as_ref().map_or(ANOTHER_S, |there| repair(there.uid(), there.mode(), me));
            findings.push(Finding::wrong(CHECK, what, written.consequence, fix));
            continue;
        }
        // The current user may have more rights than the service, as root does.
        let Some((there, owner)) = there.zip(owner) else { continue };
        if !may(there.uid(), there.mode(), owner) {
            let what = format!(
                "{path} can't be written by the user that the repository belongs to ({owner}){}",
                ownership_hint(there.uid(), there.mode(), owner)
            );
            let fix = repair(there.uid(), there.mode(), owner);
            findings.push(Finding::hint(CHECK, what, written.consequence, fix));
        }
    }
}

/// Whether the path exists but may not be written.
pub(super) fn is_closed(path: &Path) -> bool {
    let there = fs::metadata(path);
    !matches!(&there, Err(error) if error.kind() == io::ErrorKind::NotFound)
        && may_write(path, there.as_ref().ok()).is_err()
}

/// Asks the kernel, which considers groups, access lists and read-only file systems.
fn may_write(path: &Path, there: Option<&Metadata>) -> io::Result<()> {
    let is_folder = there.is_some_and(Metadata::is_dir);
    let wanted = if is_folder { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
    Ok(accessat(CWD, path, wanted, AtFlags::EACCESS)?)
}

/// Whether a user may write a file with this owner and mode; the user counts as a member of the group.
const fn may(owner: u32, mode: u32, user: u32) -> bool {
    let bits = if owner == user { OWNER_WRITES } else { ANOTHER_WRITES };
    user == 0 || mode & bits != 0
}

/// Explains why a user may not write a file with this owner and mode; empty if these are not the reason.
fn ownership_hint(owner: u32, mode: u32, user: u32) -> String {
    if may(owner, mode, user) {
        return String::new();
    }
    let mode = mode & 0o7777;
    match owner == user {
        true => format!(", it is theirs, with the mode {mode:o}"),
        false => format!(", it belongs to user {owner}, with the mode {mode:o}"),
    }
}

const ANOTHER_S: &str = "run this as the user of the service; if it is that one: chown it to that user";

/// Returns what lets a user write a file with this owner and mode.
const fn repair(owner: u32, mode: u32, user: u32) -> &'static str {
    match (may(owner, mode, user), owner == user) {
        (true, _) => {
            "look at the folders above it, its access list, and whether its file system is read-only"
        }
        (false, true) => "chmod u+w, for it is a file or folder of that user's own",
        (false, false) => ANOTHER_S,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_owns_something_writes_it_by_its_first_bits_and_another_by_the_others() {
        assert!(may(7, 0o100_644, 7) && may(7, 0o40_755, 7));
        assert!(!may(7, 0o40_500, 7), "its owner has closed it");
        assert!(!may(7, 0o40_577, 7), "the owner is no other");
        assert!(!may(0, 0o100_644, 7) && !may(8, 0o40_755, 7));
        assert!(may(8, 0o42_775, 7), "the group may be theirs");
        assert!(may(8, 0o41_777, 7));
        assert!(may(8, 0o40_500, 0), "root writes everywhere");
    }

    #[test]
    fn what_is_to_be_done_fits_what_is_wrong() {
        assert_eq!(ownership_hint(7, 0o40_500, 7), ", it is theirs, with the mode 500");
        assert!(repair(7, 0o40_500, 7).starts_with("chmod u+w"));
        assert_eq!(ownership_hint(0, 0o100_644, 7), ", it belongs to user 0, with the mode 644");
        assert!(repair(0, 0o100_644, 7).contains("chown it to that user"));
        // As on a read-only file system.
        assert_eq!(ownership_hint(7, 0o100_644, 7), "");
        assert!(repair(7, 0o100_644, 7).contains("read-only"));
    }
}
