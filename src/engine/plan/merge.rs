//! Merging an update of an older version into the current one, attribute by attribute.

use crate::domain::{Change, Collection, Patch, Value, Violation, changes};
use crate::engine::submission::error::Clash;

/// The result of merging an update of an older version.
#[derive(Debug, PartialEq)]
pub(crate) enum Merged {
    /// No conflict: the patch to apply to the current version.
    Clean(Patch),
    /// Others have changed the same attributes in different ways.
    Clashing(Vec<Clash>),
}

/// Merges the changes that `patch` makes to `base` into `theirs`, the current version. An attribute that is sent with
/// its value in `base` does not count as changed.
///
/// # Errors
///
/// Returns what is invalid in the patch.
pub(crate) fn merged(
    base: &Collection,
    patch: &Patch,
    theirs: &Collection,
) -> Result<Merged, Vec<Violation>> {
    let yours = changes(Some(base), Some(&base.patched(patch)?));
    let (mut written, mut clashes) = (Vec::with_capacity(yours.len()), Vec::new());
    for Change { attribute, from, to } in yours {
        let theirs = theirs.by_name(&attribute);
        if theirs == from.as_ref() || theirs == to.as_ref() {
            written.push((attribute, to.unwrap_or(Value::Null)));
        } else {
            clashes.push(Clash { attribute, base: from, yours: to, theirs: theirs.cloned() });
        }
    }
    if !clashes.is_empty() {
        return Ok(Merged::Clashing(clashes));
    }
    Ok(Merged::Clean(Patch::new(written)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Key, Kind};

    fn posts(attributes: &[(&str, &str)]) -> Collection {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Collection::new(Key::parse("posts").unwrap(), Kind::Document, attributes).unwrap()
    }

    fn patch(attributes: &[(&str, Option<&str>)]) -> Patch {
        let value = |value: &Option<&str>| value.map_or(Value::Null, Value::from);
        Patch::new(attributes.iter().map(|(name, to)| ((*name).to_owned(), value(to))))
    }

    #[test]
    fn what_only_one_side_changed_is_merged() {
        let base = posts(&[("name", "A"), ("directory", "a")]);
        let theirs = posts(&[("name", "A"), ("directory", "b")]);
        for (sent, kept) in [
            (patch(&[("name", Some("B"))]), patch(&[("name", Some("B"))])),
            (patch(&[("name", Some("B")), ("directory", Some("a"))]), patch(&[("name", Some("B"))])),
            (patch(&[("directory", Some("b"))]), patch(&[("directory", Some("b"))])),
            (patch(&[("name", None)]), patch(&[("name", None)])),
            (patch(&[]), patch(&[])),
        ] {
            assert_eq!(merged(&base, &sent, &theirs), Ok(Merged::Clean(kept)), "{sent:?}");
        }
    }

    #[test]
    fn what_both_sides_changed_otherwise_clashes() {
        let base = posts(&[("name", "A"), ("directory", "a")]);
        let theirs = posts(&[("directory", "b")]);
        let sent = patch(&[("name", Some("B")), ("directory", None)]);
        let text = |text: &str| Some(Value::from(text));
        let clash =
            |attribute: &str, base, yours, theirs| Clash { attribute: attribute.into(), base, yours, theirs };
        let clashes =
            vec![clash("name", text("A"), text("B"), None), clash("directory", text("a"), None, text("b"))];
        assert_eq!(merged(&base, &sent, &theirs), Ok(Merged::Clashing(clashes)));
    }
}
