//! The entries of `unpublishedStatuses` and their shorthands.

use crate::domain::Violation;
use crate::domain::collection::attribute::{Attribute, Shorthand};
use crate::domain::collection::value::Value;
use crate::domain::collection::value_of;

/// Returns a violation for each status without a name.
pub(super) fn missing_status_names(attributes: &[(Attribute, Value)]) -> Vec<Violation> {
    value_of(attributes, &Attribute::UnpublishedStatuses).map(nameless).unwrap_or_default()
}

/// Returns a violation for each status without a name in the value of `unpublishedStatuses`, which may break other
/// rules.
pub(super) fn nameless(statuses: &Value) -> Vec<Violation> {
    let Value::Map(statuses) = statuses else { return Vec::new() };
    let is_nameless = |entry: &Value| matches!(entry, Value::Map(_)) && entry.get("name").is_none();
    let nameless = statuses.iter().filter(|(_, entry)| is_nameless(entry));
    let violation = |(status, _): &(String, Value)| {
        Violation::at(status, "a status needs a `name`").within(Attribute::UnpublishedStatuses.as_str())
    };
    nameless.map(violation).collect()
}

type Entries = Vec<(String, Value)>;

/// Changes the entries of `unpublishedStatuses`. The attribute is added if absent, and removed with
/// its last entry.
fn change_statuses(attributes: &mut Vec<(Attribute, Value)>, change: impl FnOnce(&mut Entries)) {
    let at = attributes.iter().position(|(present, _)| *present == Attribute::UnpublishedStatuses);
    let mut entries = match at.map(|at| attributes.swap_remove(at)) {
        Some((_, Value::Map(entries))) => entries.into_vec(),
        Some((_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_))) => {
            unreachable!("BUG: `unpublishedStatuses` passed its check without being a map")
        }
        None => Vec::new(),
    };
    change(&mut entries);
    if !entries.is_empty() {
        attributes.push((Attribute::UnpublishedStatuses, Value::Map(entries.into())));
    }
}

/// Applies shorthands: each sets the directory of its status, or removes the status.
pub(super) fn apply_shorthands(
    attributes: &mut Vec<(Attribute, Value)>,
    shorthands: Vec<(Shorthand, Option<Value>)>,
) {
    for (shorthand, directory) in shorthands {
        match directory {
            Some(directory) => set_status(attributes, shorthand, directory),
            None => change_statuses(attributes, |entries| {
                entries.retain(|(status, _)| status != shorthand.status());
            }),
        }
    }
}

/// Sets the directory of a shorthand's status and keeps its name, if it has one.
fn set_status(attributes: &mut Vec<(Attribute, Value)>, shorthand: Shorthand, directory: Value) {
    change_statuses(attributes, |entries| {
        match entries.iter_mut().find(|(status, _)| status == shorthand.status()) {
            Some((_, entry)) => {
                let name = entry.get("name").cloned().unwrap_or_else(|| shorthand.status_name().into());
                *entry = status_entry(directory, name);
            }
            None => {
                let entry = status_entry(directory, shorthand.status_name().into());
                entries.push((shorthand.status().to_owned(), entry));
            }
        }
    });
}

pub(super) fn status_entry(directory: Value, name: Value) -> Value {
    Value::from([("directory", directory), ("name", name)])
}
