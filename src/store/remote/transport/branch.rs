//! The name of the remote's branch: the one that the operator has given, or else the one that the remote's `HEAD`
//! names. A remote that could not be asked when the repository was made is asked when it can be reached.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::store::git::is_branch_name;
use crate::store::remote::transport::folder::BRANCH;

/// The name of the branch.
#[derive(Debug)]
pub(crate) struct BranchName {
    /// The given name, which holds unless the remote reports its own.
    pub(super) named: String,
    /// The name that the remote reports.
    pub(super) reported: OnceLock<String>,
    /// Whether the remote is to be asked for the name.
    pub(super) is_asked_for: bool,
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
