//! The difference between two versions of a collection, attribute by attribute.

use crate::domain::{Collection, Value};

/// One attribute that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The wire name, or `type`.
    pub attribute: String,
    /// The value before, absent if there was none.
    pub from: Option<Value>,
    /// The value after, absent if there is none.
    pub to: Option<Value>,
}

/// Returns the attributes that differ between two versions, in canonical order.
///
/// A created or deleted collection differs in all its attributes, including `type`.
#[must_use]
pub fn changes(before: Option<&Collection>, after: Option<&Collection>) -> Vec<Change> {
    let mut changes = Vec::new();
    let kind = |collection: &Collection| Value::from(collection.kind().as_str());
    let mut note = |attribute: &str, from: Option<Value>, to: Option<Value>| {
        if from != to {
            changes.push(Change { attribute: attribute.to_owned(), from, to });
        }
    };
    note("type", before.map(kind), after.map(kind));
    let mut names: Vec<_> = [before, after]
        .into_iter()
        .flatten()
        .flat_map(Collection::attributes)
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    for name in names {
        let value = |collection: Option<&Collection>| collection.and_then(|it| it.get(name)).cloned();
        note(name.as_str(), value(before), value(after));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Key, Kind, Patch};

    #[test]
    fn only_what_differs_is_listed_and_creation_lists_all() {
        let posts = Collection::new(
            Key::parse("posts").unwrap(),
            Kind::Document,
            [("name".to_owned(), "Posts".into()), ("recursive".to_owned(), true.into())],
        )
        .unwrap();
        let renamed = posts
            .patched(&Patch::new([("name".into(), "All".into()), ("recursive".into(), Value::Null)]))
            .unwrap();
        let names = |before, after| -> Vec<String> {
            changes(before, after).into_iter().map(|change| change.attribute).collect()
        };
        assert_eq!(names(None, Some(&posts)), ["type", "name", "recursive"]);
        assert_eq!(names(Some(&posts), None), ["type", "name", "recursive"]);
        assert_eq!(names(Some(&posts), Some(&posts)), [""; 0]);
        assert_eq!(
            changes(Some(&posts), Some(&renamed)),
            [
                Change { attribute: "name".into(), from: Some("Posts".into()), to: Some("All".into()) },
                Change { attribute: "recursive".into(), from: Some(true.into()), to: None },
            ]
        );
    }
}
