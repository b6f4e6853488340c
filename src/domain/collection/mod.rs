//! Collections: kinds, attributes and their values, the rules for them, and differences between versions.
//!
//! The constructors enforce the rules. This module knows neither how a collection is written as JSON or YAML, nor
//! whether it exists in a repository.

mod attribute;
mod diff;
mod directory;
mod input;
mod kind;
mod media_type;
mod rule;
mod schema;
mod statuses;
mod value;
mod violation;

pub use crate::domain::collection::attribute::{Attribute, Extension, Shorthand};
pub use crate::domain::collection::diff::{Change, changes};
pub use crate::domain::collection::directory::Directory;
use crate::domain::collection::input::AttributeInput;
pub use crate::domain::collection::input::Patch;
pub use crate::domain::collection::kind::Kind;
pub use crate::domain::collection::media_type::MediaType;
pub use crate::domain::collection::schema::schema;
use crate::domain::collection::statuses::{apply_shorthands, missing_status_names};
pub(crate) use crate::domain::collection::value::excerpt;
pub use crate::domain::collection::value::{FloatRangeError, Number, VALUE_DEPTH_MAX, Value};
pub use crate::domain::collection::violation::{Segment, Violation};

use crate::domain::Key;

/// Maximum number of attributes of a collection: user-defined ones (`x-`) count, `type` does not.
///
/// Members of maps are not attributes.
pub const ATTRIBUTES_MAX: usize = 256;

/// One named folder's settings.
///
/// Every constructor enforces the rules; only statuses without a name are accepted from a file (see
/// [`missing_status_names`](Self::missing_status_names)). There are no defaults: an attribute that was not given is
/// absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    key: Key,
    kind: Kind,
    /// In canonical order, each attribute once.
    attributes: Box<[(Attribute, Value)]>,
}

impl Collection {
    /// Creates a collection from attributes as they were written, shorthands included.
    ///
    /// `type` may be among them and must then match `kind`.
    ///
    /// # Errors
    ///
    /// Returns every rule that the attributes break, at least one.
    pub fn new(
        key: Key,
        kind: Kind,
        written: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, Vec<Violation>> {
        Self::with(key, AttributeInput::of_new(kind, written).require_status_names().valid()?)
    }

    /// A collection without attributes.
    pub(crate) fn empty(key: Key, kind: Kind) -> Self {
        Self { key, kind, attributes: Box::default() }
    }

    /// Creates a collection from the attributes of a file, which may have statuses without a name
    /// ([`missing_status_names`](Self::missing_status_names) returns them).
    ///
    /// # Errors
    ///
    /// Returns every other rule that the attributes break, at least one.
    pub fn from_file(
        key: Key,
        kind: Kind,
        written: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, Vec<Violation>> {
        Self::with(key, AttributeInput::of_new(kind, written).valid()?)
    }

    /// Returns the violations that a file may have and a request may not: statuses without a `name`.
    #[must_use]
    pub fn missing_status_names(&self) -> Vec<Violation> {
        missing_status_names(&self.attributes)
    }

    fn with(key: Key, mut input: AttributeInput) -> Result<Self, Vec<Violation>> {
        apply_shorthands(&mut input.set, input.shorthands);
        Self::of(key, input.kind, input.set)
    }

    /// Creates a collection from checked attributes in any order.
    fn of(key: Key, kind: Kind, mut attributes: Vec<(Attribute, Value)>) -> Result<Self, Vec<Violation>> {
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(vec![Violation::too_many_attributes(attributes.len())]);
        }
        attributes.sort_by(|(one, _), (two, _)| one.cmp(two));
        Ok(Self { key, kind, attributes: attributes.into() })
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The attributes in canonical order, without `type`.
    #[must_use]
    pub fn attributes(&self) -> &[(Attribute, Value)] {
        &self.attributes
    }

    /// Approximate size of the collection in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let own = |name: &Attribute| size_of::<(Attribute, Value)>() + name.as_str().len();
        let attributes = self.attributes.iter().map(|(name, value)| own(name) + value.heap_bytes());
        size_of::<Self>() + attributes.sum::<usize>()
    }

    /// The value of an attribute, if the collection has it.
    #[must_use]
    pub fn get(&self, attribute: &Attribute) -> Option<&Value> {
        value_of(&self.attributes, attribute)
    }

    /// The value of an attribute, if the collection has it and it is a text.
    #[must_use]
    pub fn text(&self, attribute: &Attribute) -> Option<&str> {
        self.get(attribute)?.as_text()
    }

    /// The value of the attribute with this wire name, if the collection has it.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(present, _)| present.as_str() == name).map(|(_, value)| value)
    }

    /// Returns the collection with a patch applied.
    ///
    /// Attributes merge one by one; a list or a map is replaced as a whole. A shorthand sets the
    /// directory of its status and keeps the name that the status has. A shorthand of `null` removes
    /// the status.
    ///
    /// # Errors
    ///
    /// Returns every rule that the patch breaks, at least one.
    pub fn patched(&self, patch: &Patch) -> Result<Self, Vec<Violation>> {
        self.changed(AttributeInput::of_patch(self.kind, patch).require_status_names().valid()?)
    }

    /// Returns the collection with a patch applied that restores earlier values, which may come from a file.
    ///
    /// # Errors
    ///
    /// Returns every rule that the patch breaks, at least one, except those of
    /// [`missing_status_names`](Self::missing_status_names).
    pub fn patched_leniently(&self, patch: &Patch) -> Result<Self, Vec<Violation>> {
        self.changed(AttributeInput::of_patch(self.kind, patch).valid()?)
    }

    fn changed(&self, input: AttributeInput) -> Result<Self, Vec<Violation>> {
        let mut attributes = self.attributes.to_vec();
        for (attribute, value) in input.set {
            attributes.retain(|(present, _)| *present != attribute);
            if value != Value::Null {
                attributes.push((attribute, value));
            }
        }
        apply_shorthands(&mut attributes, input.shorthands);
        Self::of(self.key.clone(), self.kind, attributes)
    }
}

fn value_of<'a>(attributes: &'a [(Attribute, Value)], attribute: &Attribute) -> Option<&'a Value> {
    attributes.iter().find(|(present, _)| present == attribute).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::collection::statuses::status_entry;

    fn text(pairs: &[(&str, &str)]) -> Vec<(String, Value)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
    }

    fn document(pairs: &[(&str, &str)]) -> Collection {
        Collection::new(Key::parse("posts").unwrap(), Kind::Document, text(pairs)).unwrap()
    }

    fn statuses(entries: &[(&str, &str, &str)]) -> Value {
        let entries = entries.iter();
        Value::Map(
            entries
                .map(|(status, directory, name)| {
                    ((*status).to_owned(), status_entry((*directory).into(), (*name).into()))
                })
                .collect(),
        )
    }

    fn shown(collection: &Collection) -> String {
        collection.attributes().iter().map(|(name, value)| format!("{name}={value}\n")).collect()
    }

    #[test]
    fn nothing_is_invented() {
        assert_eq!(document(&[]).attributes(), &[]);
    }

    #[test]
    fn attributes_stand_in_canonical_order() {
        let collection = document(&[("x-b", "1"), ("format", "md"), ("x-a", "2"), ("name", "Posts")]);
        assert_eq!(shown(&collection), "name=\"Posts\"\nformat=\"md\"\nx-a=\"2\"\nx-b=\"1\"\n");
    }

    #[test]
    fn a_shorthand_becomes_a_status_and_is_not_kept() {
        let collection = document(&[("trashDirectory", "bin/"), ("draftDirectory", "drafts")]);
        assert_eq!(
            shown(&collection),
            "unpublishedStatuses={\"trash\": {\"directory\": \"bin\", \"name\": \"Trash\"}, \
             \"draft\": {\"directory\": \"drafts\", \"name\": \"Draft\"}}\n"
        );
    }

    #[test]
    fn an_explicit_status_wins_over_its_shorthand() {
        let explicit = statuses(&[("draft", "own", "Entwurf")]);
        let written = vec![
            ("draftDirectory".to_owned(), Value::from("drafts")),
            ("unpublishedStatuses".to_owned(), explicit.clone()),
        ];
        let collection = Collection::new(Key::parse("posts").unwrap(), Kind::Document, written).unwrap();
        assert_eq!(collection.get(&Attribute::UnpublishedStatuses), Some(&explicit));
    }

    #[test]
    fn a_patch_merges_attribute_by_attribute_and_null_removes() {
        let before = document(&[("name", "Posts"), ("directory", "posts"), ("format", "md")]);
        let patch = Patch::new([("name".into(), "All".into()), ("format".into(), Value::Null)]);
        assert_eq!(before.patched(&patch).unwrap(), document(&[("name", "All"), ("directory", "posts")]));
        assert_eq!(before.patched(&Patch::default()).unwrap(), before);
    }

    #[test]
    fn a_patched_shorthand_keeps_the_name_of_its_status() {
        let named = statuses(&[("draft", "a", "Entwurf")]);
        let before = document(&[]).patched(&Patch::new([("unpublishedStatuses".into(), named)])).unwrap();
        let after = before.patched(&Patch::new([("draftDirectory".into(), "b".into())])).unwrap();
        let expected = statuses(&[("draft", "b", "Entwurf")]);
        assert_eq!(after.get(&Attribute::UnpublishedStatuses), Some(&expected));
        let gone = after.patched(&Patch::new([("draftDirectory".into(), Value::Null)])).unwrap();
        assert_eq!(gone, document(&[]));
    }

    #[test]
    fn a_file_need_not_name_its_statuses_and_a_request_must() {
        let nameless =
            Value::Map([("draft".into(), Value::Map([("directory".into(), "a".into())].into()))].into());
        let written = [("unpublishedStatuses".to_owned(), nameless)];
        let assert_nameless = |violations: Vec<Violation>| {
            assert_eq!(violations.len(), 1);
            assert_eq!(violations[0].to_string(), "unpublishedStatuses.draft: a status needs a `name`");
        };
        let key = Key::parse("posts").unwrap();
        assert_nameless(Collection::new(key.clone(), Kind::Document, written.clone()).unwrap_err());
        let no_directory = Value::Map([("draft".into(), Value::Map([].into()))].into());
        let both = [("unpublishedStatuses".to_owned(), no_directory)];
        let both = Collection::new(key.clone(), Kind::Document, both).unwrap_err();
        assert_eq!(both.len(), 2, "all faults at once: {both:?}");
        assert_nameless(document(&[]).patched(&Patch::new(written.clone())).unwrap_err());
        assert!(document(&[]).patched_leniently(&Patch::new(written.clone())).is_ok());
        let read = Collection::from_file(key, Kind::Document, written).unwrap();
        assert_nameless(read.missing_status_names());
        let touched = read.patched(&Patch::new([("name".into(), "Posts".into())])).unwrap();
        assert_nameless(touched.missing_status_names());
        let named = touched.patched(&Patch::new([("draftDirectory".into(), "b".into())])).unwrap();
        assert_eq!(named.get(&Attribute::UnpublishedStatuses), Some(&statuses(&[("draft", "b", "Draft")])));
        assert_eq!(named.missing_status_names(), []);
    }

    #[test]
    fn null_is_refused_where_nothing_can_be_removed() {
        let key = Key::parse("posts").unwrap();
        for name in ["name", "draftDirectory", "unpublishedStatuses"] {
            let written = vec![(name.to_owned(), Value::Null)];
            assert!(Collection::new(key.clone(), Kind::Document, written).is_err(), "{name}");
        }
        let free = vec![("x-none".to_owned(), Value::Null)];
        assert!(Collection::new(key, Kind::Document, free).is_ok());
    }

    #[test]
    fn a_type_that_disagrees_is_refused() {
        let patch = |value: Value| document(&[]).patched(&Patch::new([("type".into(), value)]));
        assert!(patch("document".into()).is_ok());
        for wrong in ["media".into(), Value::Null, "Document".into(), true.into()] {
            assert!(patch(wrong).is_err());
        }
    }

    #[test]
    fn a_collection_has_as_many_attributes_as_it_may_and_no_more() {
        let free = |count: usize| (0..count).map(|n| (format!("x-{n}"), Value::Null));
        let new = |count| Collection::new(Key::parse("a").unwrap(), Kind::Media, free(count));
        let full = new(ATTRIBUTES_MAX).unwrap();
        let violations = new(ATTRIBUTES_MAX + 1).unwrap_err();
        assert_eq!(
            violations[0].to_string(),
            "a collection has at most 256 attributes, these are 257; put some of them into one map"
        );
        let named = |name: &str| full.patched(&Patch::new([(name.to_owned(), "a".into())]));
        assert_eq!(named("name").unwrap_err(), violations);
        assert!(named("x-7").is_ok());
    }

    #[test]
    fn all_violations_are_told_at_once() {
        let written =
            vec![("nmae".to_owned(), Value::from("x")), ("recursive".to_owned(), Value::from("no"))];
        let violations = Collection::new(Key::parse("a").unwrap(), Kind::Document, written).unwrap_err();
        assert_eq!(violations.len(), 2);
    }
}
