//! The attributes of collections: their names, the kinds that have them, and the rule for each.

use std::fmt;

use crate::domain::collection::rule::{NAME_BYTES_MAX, Rule, directory};
use crate::domain::{Kind, Value, Violation};

/// The name of a setting of a collection, except `type`.
///
/// The order of the variants is the canonical order of attributes in new files and in responses.
/// Extensions come last, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attribute {
    /// What people call the collection.
    Name,
    /// Where the content store keeps it.
    Directory,
    /// Whether folders inside the directory belong to it.
    Recursive,
    /// The format of documents.
    Format,
    /// Which key of a document holds its title.
    DocumentTitleKey,
    /// Which key of a document holds its description.
    DocumentDescriptionKey,
    /// Which key of a document holds its status.
    DocumentStatusKey,
    /// Where documents of each unpublished status are kept: status to directory and name.
    UnpublishedStatuses,
    /// Where old revisions of documents are kept.
    RevisionDirectory,
    /// Which media the collection takes.
    Accept,
    /// Where media are served.
    Url,
    /// How the path of a new medium is made.
    PathFormat,
    /// A user-defined setting, `x-` included: any JSON value, kept and served.
    Extension(Extension),
}

/// The name of a user-defined setting.
///
/// Boxed twice to make [`Attribute`] one word smaller: few collections have extensions, but a hundred
/// thousand collections have many attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extension(Box<Box<str>>);

const BOTH: &[Kind] = &Kind::ALL;
const DOCUMENT: &[Kind] = &[Kind::Document];
const MEDIA: &[Kind] = &[Kind::Media];

/// All attributes with a fixed name: attribute, wire name, kinds that have it, meaning.
const KNOWN: &[(Attribute, &str, &[Kind], &str)] = &[
    (Attribute::Name, "name", BOTH, "What people call the collection."),
    (
        Attribute::Directory,
        "directory",
        BOTH,
        "Where the content store keeps it: a relative path such as content/posts. Without it, the key.",
    ),
    (Attribute::Recursive, "recursive", BOTH, "Whether folders inside the directory belong to it."),
    (Attribute::Format, "format", DOCUMENT, "The format of documents, such as markdown, json or yaml."),
    (Attribute::DocumentTitleKey, "documentTitleKey", DOCUMENT, "Which key of a document holds its title."),
    (
        Attribute::DocumentDescriptionKey,
        "documentDescriptionKey",
        DOCUMENT,
        "Which key of a document holds its description.",
    ),
    (
        Attribute::DocumentStatusKey,
        "documentStatusKey",
        DOCUMENT,
        "Which key of a document holds its status.",
    ),
    (
        Attribute::UnpublishedStatuses,
        "unpublishedStatuses",
        DOCUMENT,
        "Where documents of each unpublished status are kept: status to directory and name.",
    ),
    (
        Attribute::RevisionDirectory,
        "revisionDirectory",
        DOCUMENT,
        "Where old revisions of documents are kept.",
    ),
    (
        Attribute::Accept,
        "accept",
        MEDIA,
        "Which media the collection takes: types such as image/png and image/*, or extensions such as .pdf.",
    ),
    (Attribute::Url, "url", MEDIA, "Where media are served, such as https://example.org/uploads/{filename}."),
    (Attribute::PathFormat, "pathFormat", MEDIA, "How the path of a new medium is made."),
];

impl Attribute {
    /// Finds the attribute with this wire name, if collections of this kind have it.
    #[must_use]
    pub fn parse(kind: Kind, name: &str) -> Option<Self> {
        if is_extension(name) {
            return Some(Self::Extension(Extension(Box::new(name.into()))));
        }
        KNOWN
            .iter()
            .find(|(_, known, kinds, _)| *known == name && kinds.contains(&kind))
            .map(|(attribute, ..)| attribute.clone())
    }

    /// The name on the wire and in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if let Self::Extension(Extension(name)) = self {
            return name;
        }
        KNOWN.iter().find(|(known, ..)| known == self).map_or("", |(_, name, ..)| name)
    }

    /// Every attribute with a fixed name that collections of this kind have, in canonical order.
    pub fn known(kind: Kind) -> impl Iterator<Item = Self> {
        KNOWN
            .iter()
            .filter(move |(_, _, kinds, _)| kinds.contains(&kind))
            .map(|(attribute, ..)| attribute.clone())
    }

    /// What the attribute means, for a person who edits it.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        KNOWN
            .iter()
            .find(|(known, ..)| known == self)
            .map_or("A setting of your own.", |(.., meaning)| meaning)
    }

    /// Checks a value and converts it to its stored form (a directory without its trailing `/`).
    ///
    /// # Errors
    ///
    /// Returns every rule that the value breaks, with its path.
    pub fn check(&self, value: Value) -> Result<Value, Vec<Violation>> {
        let here = |fault: Violation| fault.within(self.as_str());
        self.rule().check(value).map_err(|faults| faults.into_iter().map(here).collect())
    }

    /// Whether the value is a directory.
    pub(crate) const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory | Self::RevisionDirectory)
    }

    pub(super) fn rule(&self) -> Rule {
        match self {
            Self::Directory | Self::RevisionDirectory => Rule::Directory,
            Self::Recursive => Rule::Boolean,
            Self::UnpublishedStatuses => Rule::Statuses,
            Self::Accept => Rule::Accept,
            Self::Extension(_) => Rule::Anything,
            Self::Name
            | Self::Format
            | Self::DocumentTitleKey
            | Self::DocumentDescriptionKey
            | Self::DocumentStatusKey
            | Self::Url
            | Self::PathFormat => Rule::Text,
        }
    }

    /// The violation of a name that is not an attribute of this kind; it says which one may have been meant.
    pub(super) fn unknown(kind: Kind, name: &str) -> Violation {
        Violation::at(name, Self::unknown_message(kind, name))
    }

    fn unknown_message(kind: Kind, name: &str) -> String {
        if name.starts_with("x-") {
            return format!(
                "the name of an `x-` attribute has at most {NAME_BYTES_MAX} bytes of letters, digits, `-` and `_` and ends in a letter or digit"
            );
        }
        if let Some((_, known, kinds, _)) = KNOWN.iter().find(|(_, known, ..)| *known == name) {
            let owner = kinds.first().copied().unwrap_or(kind);
            return format!("only {owner} collections have `{known}`, this is a {kind} collection");
        }
        if kind == Kind::Media
            && let Some(shorthand) = Shorthand::parse(name)
        {
            return format!("only document collections have `{}`", shorthand.as_str());
        }
        let nearest = KNOWN
            .iter()
            .filter(|(_, _, kinds, _)| kinds.contains(&kind))
            .map(|(_, known, ..)| *known)
            .chain(["type"])
            .map(|known| (distance(known, name), known))
            .min()
            .filter(|(far, _)| *far <= 2);
        match nearest {
            Some((_, known)) => format!("there is no such attribute; did you mean `{known}`?"),
            None => "there is no such attribute; names that begin with `x-` are free".into(),
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An input shorthand for one entry of `unpublishedStatuses`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shorthand {
    /// `draftDirectory`
    Draft,
    /// `archiveDirectory`
    Archive,
    /// `trashDirectory`
    Trash,
}

impl Shorthand {
    /// All shorthands, in the order in which their entries are added.
    pub const ALL: [Self; 3] = [Self::Draft, Self::Archive, Self::Trash];

    /// Finds the shorthand with this wire name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shorthand| shorthand.as_str() == name)
    }

    /// The name on the wire and in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draftDirectory",
            Self::Archive => "archiveDirectory",
            Self::Trash => "trashDirectory",
        }
    }

    /// The status that the shorthand stands for.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Archive => "archived",
            Self::Trash => "trash",
        }
    }

    /// The name that the entry gets.
    #[must_use]
    pub const fn status_name(self) -> &'static str {
        match self {
            Self::Draft => "Draft",
            Self::Archive => "Archived",
            Self::Trash => "Trash",
        }
    }

    pub(crate) fn check(self, value: Value) -> Result<Value, Violation> {
        directory(value).map_err(|message| Violation::at(self.as_str(), message))
    }
}

/// Whether a name is `x-` followed by a member name of JSON:API 1.1 ("Member Names").
fn is_extension(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_control());
    let inner = |c: char| edge(c) || matches!(c, '-' | '_');
    name.len() <= NAME_BYTES_MAX
        && name.strip_prefix("x-").is_some_and(|rest| rest.chars().all(inner) && rest.ends_with(edge))
}

/// The Levenshtein distance between two names, ignoring letter case.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.to_ascii_lowercase().chars().take(NAME_BYTES_MAX).collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.to_ascii_lowercase().chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, &b) in two.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (corner + usize::from(a != b)).min(above + 1).min(row[j] + 1);
            corner = above;
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::collection::rule::TEXT_CHARS_MAX;
    use crate::domain::{Directory, Number};

    fn number(n: i64) -> Value {
        Value::Number(Number::Integer(n))
    }

    #[track_caller]
    fn refuses(attribute: &Attribute, value: Value, shown: &str) {
        let violations = attribute.check(value).unwrap_err();
        let all: Vec<_> = violations.iter().map(Violation::to_string).collect();
        assert_eq!(all.join("\n"), shown);
    }

    #[test]
    fn every_attribute_is_found_by_its_own_name() {
        for kind in Kind::ALL {
            for attribute in Attribute::known(kind) {
                assert_eq!(Attribute::parse(kind, attribute.as_str()), Some(attribute));
            }
        }
    }

    #[test]
    fn a_message_says_what_was_found_and_how_to_write_it() {
        refuses(
            &Attribute::Name,
            number(2024),
            "name: expected a string, found a number (2024); write \"2024\" in quotes",
        );
        refuses(
            &Attribute::Recursive,
            "yes".into(),
            "recursive: expected `true` or `false`, found the string \"yes\"; write true without quotes",
        );
        refuses(
            &Attribute::Name,
            Value::Null,
            "name: expected a string, found null; leave the attribute out to have none",
        );
        refuses(
            &Attribute::Accept,
            "image/png".into(),
            "accept: expected a list of media types, found the string \"image/png\"; write [\"image/png\"]",
        );
    }

    #[test]
    fn all_faults_of_a_nested_value_are_told_at_once() {
        let map = |members: &[(&str, Value)]| {
            Value::Map(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
        };
        let value = map(&[
            ("draft", map(&[("directory", "../x".into()), ("nmae", "Draft".into())])),
            ("gone", map(&[("name", "Gone".into())])),
            ("trash", "trash".into()),
        ]);
        refuses(
            &Attribute::UnpublishedStatuses,
            value,
            "unpublishedStatuses.draft.directory: \"../x\" has the part `..`; write the path without it\n\
             unpublishedStatuses.draft.nmae: a status has only `directory` and `name`\n\
             unpublishedStatuses.gone: a status needs a `directory`\n\
             unpublishedStatuses.trash: expected a map with `directory` and `name`, found the string \"trash\"",
        );
        refuses(
            &Attribute::Accept,
            Value::List(["image/*".into(), number(1), "png".into()].into()),
            "accept[1]: expected a string, found a number (1); write \"1\" in quotes\n\
             accept[2]: \"png\" is neither a media type such as \"image/png\" or \"image/*\" nor an extension such as \".pdf\"",
        );
    }

    #[test]
    fn an_unknown_name_is_met_with_the_nearest_known_one() {
        let message = |name| Attribute::unknown_message(Kind::Document, name);
        assert_eq!(message("directroy"), "there is no such attribute; did you mean `directory`?");
        assert_eq!(message("Name"), "there is no such attribute; did you mean `name`?");
        assert_eq!(message("colour"), "there is no such attribute; names that begin with `x-` are free");
        assert_eq!(message("accept"), "only media collections have `accept`, this is a document collection");
        assert_eq!(
            Attribute::unknown_message(Kind::Media, "draftDirectory"),
            "only document collections have `draftDirectory`"
        );
    }

    #[test]
    fn extensions_are_free_but_are_member_names() {
        for name in ["x-a", "x-colour", "x-0_b-c", "x-größe"] {
            assert!(Attribute::parse(Kind::Media, name).is_some(), "{name}");
        }
        for name in ["x-", "x", "X-a", "x-a-", "x-a b", "x-a.b", "x-a/b", "x-a\n"] {
            assert!(Attribute::parse(Kind::Media, name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn a_directory_of_the_longest_length_is_taken() {
        assert!(Attribute::Directory.check(Value::from("d".repeat(Directory::BYTES_MAX))).is_ok());
    }

    #[test]
    fn a_text_of_the_longest_length_is_taken() {
        assert!(Attribute::Name.check(Value::from("ä".repeat(TEXT_CHARS_MAX))).is_ok());
        assert!(Attribute::Name.check(Value::from("ä".repeat(TEXT_CHARS_MAX + 1))).is_err());
    }
}
