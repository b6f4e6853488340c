//! The messages of merges that the service makes, and the conflicts in them.
//!
//! ```text
//! Merge 3 commits made here with what the remote has
//!
//! Both sides changed these; the other value is in 41d7a3e:
//!  posts: name
//!  docs/notes.txt
//!
//! Collectory-Origin: merge
//! Collectory-Conflict: posts name               an attribute that both sides changed
//! Collectory-Conflict: docs/notes.txt           a file that was taken as one value
//! ```

use std::fmt;

use crate::domain::{Attribute, Key, Kind, Revision};
use crate::format::message::{CONFLICT, MERGE, ORIGIN, one_line, parse};

/// Something that both sides of a merge changed in different ways; one of the two values is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conflict {
    /// An attribute of a collection.
    Attribute {
        /// The collection.
        key: Key,
        /// The wire name, or `type`.
        attribute: String,
    },
    /// A file that is merged as one value, by its path in the repository.
    File(String),
}

/// Formats the conflict as in its trailer: `KEY ATTRIBUTE` or `PATH`.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute { key, attribute } => write!(f, "{key} {attribute}"),
            Self::File(path) => f.write_str(path),
        }
    }
}

impl Conflict {
    /// Parses the value of a trailer.
    fn parse(text: &str) -> Self {
        let pair = text.split_once(' ').and_then(|(key, attribute)| Some((Key::parse(key).ok()?, attribute)));
        match pair.filter(|(_, attribute)| is_attribute(attribute)) {
            Some((key, attribute)) => Self::Attribute { key, attribute: attribute.to_owned() },
            None => Self::File(text.to_owned()),
        }
    }
}

fn is_attribute(name: &str) -> bool {
    let is_known = |kind| Attribute::parse(kind, name).is_some();
    name == "type" || Kind::ALL.into_iter().any(is_known)
}

/// The side that a merge adds to the remote's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergedSide {
    /// The second parent, which has the other values.
    pub revision: Revision,
    /// The number of commits that come with it.
    pub commits: usize,
    /// Whether the remote once had these commits and lost them.
    pub is_restored: bool,
}

/// Composes the message of a merge.
#[must_use]
pub fn compose_merge(joined: MergedSide, conflicts: &[Conflict]) -> String {
    let MergedSide { revision, commits, is_restored } = joined;
    let commits = if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") };
    let mut message = match is_restored {
        false => format!("Merge {commits} made here with what the remote has\n"),
        true => format!("Bring back {commits} that the remote had lost\n"),
    };
    if !conflicts.is_empty() {
        message.push_str(&format!(
            "\nBoth sides changed these; the other value is in {}:\n",
            &revision.to_string()[..7]
        ));
        for conflict in conflicts {
            let line = match conflict {
                Conflict::Attribute { key, attribute } => format!("{key}: {}", one_line(attribute)),
                Conflict::File(path) => one_line(path),
            };
            // Indented, so that no line is taken for a trailer, a comment or the end of the message.
            message.push_str(&format!(" {line}\n"));
        }
    }
    message.push_str(&format!("\n{ORIGIN}: {MERGE}\n"));
    for conflict in conflicts {
        message.push_str(&format!("{CONFLICT}: {}\n", one_line(&conflict.to_string())));
    }
    message
}

/// Whether a message is that of a merge by the service.
#[must_use]
pub fn is_merge(message: &str) -> bool {
    message.contains(ORIGIN) && parse::values_in(message, ORIGIN).first().is_some_and(|value| value == MERGE)
}

/// Returns the conflicts in the message of a merge.
#[must_use]
pub fn conflicts(message: &str) -> Vec<Conflict> {
    // Checked first because hardly any message has a conflict, and a history may be long.
    if !message.contains(CONFLICT) || !is_merge(message) {
        return Vec::new();
    }
    parse::values_in(message, CONFLICT).iter().map(|value| Conflict::parse(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(key: &str, attribute: &str) -> Conflict {
        Conflict::Attribute { key: Key::parse(key).unwrap(), attribute: attribute.to_owned() }
    }

    #[test]
    fn a_merge_tells_what_stood_against_what() {
        let joined = MergedSide { revision: Revision::new([0x41; 20]), commits: 2, is_restored: false };
        let given = [attribute("posts", "name"), Conflict::File("docs/a b.txt".to_owned())];
        let message = compose_merge(joined, &given);
        assert!(message.starts_with("Merge 2 commits made here with what the remote has\n\n"), "{message}");
        assert!(message.contains("\nCollectory-Conflict: posts name\n"), "{message}");
        assert!(message.contains("\nCollectory-Conflict: docs/a b.txt\n"), "{message}");
        assert!(is_merge(&message));
        assert_eq!(conflicts(&message), given);
        let plain = compose_merge(MergedSide { commits: 1, is_restored: true, ..joined }, &[]);
        assert_eq!(plain, "Bring back 1 commit that the remote had lost\n\nCollectory-Origin: merge\n");
    }

    #[test]
    fn a_path_with_a_blank_is_no_attribute() {
        for text in ["docs/a name", "a b.txt", "README.md"] {
            assert_eq!(Conflict::parse(text), Conflict::File(text.to_owned()));
        }
        assert_eq!(Conflict::parse("posts x-colour"), attribute("posts", "x-colour"));
        assert!(!is_merge("Merge branch 'x'\n\nCollectory-Origin: work-tree\n"));
    }
}
