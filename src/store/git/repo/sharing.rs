//! Sharing a repository with other users (`core.sharedRepository` in git-config(1)): the permissions of its files,
//! whatever the user's umask is.

use rustix::fs::Mode;
use rustix::process::umask;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedPermissions {
    AtLeast(u32),
    Exactly(u32),
}

impl SharedPermissions {
    /// Sets the umask of this process to what these permissions ask for.
    pub(super) fn set_umask(self) {
        let habit = umask(Mode::empty());
        umask(Mode::from_raw_mode(mask(self, habit.as_raw_mode())));
    }

    /// Parses the value like `git_config_perm` in git's `setup.c`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "" | "group" | "true" | "yes" | "on" | "1" => Some(Self::AtLeast(0o660)),
            "all" | "world" | "everybody" | "2" => Some(Self::AtLeast(0o664)),
            text => {
                let mode = u32::from_str_radix(text, 8).ok()?;
                // The owner must be able to read and write.
                (mode & 0o600 == 0o600).then_some(Self::Exactly(mode & 0o666))
            }
        }
    }
}

/// Returns the umask for these permissions: read permission on a folder implies search permission.
fn mask(shared: SharedPermissions, habit: u32) -> u32 {
    let (SharedPermissions::AtLeast(rights) | SharedPermissions::Exactly(rights)) = shared;
    let taken = !(rights | (rights & 0o444) >> 2) & 0o777;
    match shared {
        SharedPermissions::AtLeast(_) => habit & taken,
        SharedPermissions::Exactly(_) => taken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_have_the_rights_that_git_gives_them() {
        let made = |text: &str, habit: u32| {
            let mask = SharedPermissions::parse(text).map_or(habit, |shared| mask(shared, habit));
            format!("{:o} {:o}", 0o666 & !mask, 0o777 & !mask)
        };
        assert_eq!(made("umask", 0o022), "644 755");
        assert_eq!(made("false", 0o077), "600 700");
        assert_eq!(made("group", 0o022), "664 775");
        assert_eq!(made("group", 0o077), "660 770");
        assert_eq!(made("all", 0o077), "664 775");
        assert_eq!(made("0600", 0o000), "600 700");
        assert_eq!(made("0640", 0o077), "640 750");
        assert_eq!(made("0440", 0o022), "644 755", "its owner could not write");
    }
}
