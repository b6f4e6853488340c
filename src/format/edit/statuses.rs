//! Changing `unpublishedStatuses`, which a file may contain in two forms at once: as a map, and as
//! shorthands (`draftDirectory`) for one of its entries each.

use crate::domain::{Attribute, Shorthand, Value};
use crate::format::edit::splice::SourceText;
use crate::format::edit::step::RootEdit;
use crate::format::read;
use crate::format::tree::{MapEntry, Node};

/// Changes the statuses to `to`, or removes them.
///
/// A shorthand is kept if it can express all of its status; then only its directory changes. Any
/// other status is written into the map.
pub(crate) fn changed(source: SourceText<'_>, root: &Node, to: Option<&Value>) -> Option<RootEdit> {
    let name = Attribute::UnpublishedStatuses;
    let explicit = root.entry(name.as_str());
    let from = explicit.and_then(|_| value_in(root, name.as_str()));
    let mut wanted = match to {
        Some(Value::Map(entries)) => entries.to_vec(),
        _ => Vec::new(),
    };
    let mut step = RootEdit::default();
    let mut kept = false;
    for (shorthand, entry) in shorthands(root) {
        let status = shorthand.status();
        let new = wanted.iter().position(|(known, _)| known == status);
        let hidden = from.as_ref().is_some_and(|from| from.get(status).is_some());
        let new = new.map(|at| (at, directory(shorthand, &wanted[at].1)));
        match new {
            Some(_) if hidden => {}
            Some((at, Some(directory))) => {
                wanted.remove(at);
                kept = true;
                let old = value_in(root, shorthand.as_str())?;
                if normal(&old) != directory {
                    step.change(source, root, entry, &old, &directory)?;
                }
            }
            Some((_, None)) | None => step.remove(entry),
        }
    }
    let needed = !wanted.is_empty() || (to.is_some() && !kept);
    let wanted = Value::Map(wanted.into());
    match (explicit, needed) {
        (Some(entry), true) => step.change(source, root, entry, &from?, &wanted)?,
        (Some(entry), false) if !(kept && from.as_ref() == Some(&wanted)) => step.remove(entry),
        (None, true) => step.add(name.as_str(), &wanted),
        (Some(_) | None, false) => {}
    }
    Some(step)
}

fn shorthands(root: &Node) -> impl Iterator<Item = (Shorthand, &MapEntry)> {
    Shorthand::ALL.into_iter().filter_map(|shorthand| Some((shorthand, root.entry(shorthand.as_str())?)))
}

fn value_in(root: &Node, name: &str) -> Option<Value> {
    read::written_attributes(root).into_iter().find(|(written, _)| written == name).map(|(_, value)| value)
}

/// A directory in its stored form.
fn normal(value: &Value) -> Value {
    let text = value.as_text().unwrap_or_default();
    Value::from(text.strip_suffix('/').unwrap_or(text))
}

/// The directory of a status, if the shorthand can express all of it.
fn directory(shorthand: Shorthand, status: &Value) -> Option<Value> {
    let Value::Map(members) = status else {
        return None;
    };
    let named = status.get("name").and_then(Value::as_text) == Some(shorthand.status_name());
    status.get("directory").filter(|_| named && members.len() == 2).cloned()
}
