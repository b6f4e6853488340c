//! Converts the settings of a collection to the fields of a form, and back.
//!
//! An untouched field sends the value that it was made from, and only what differs from `was`, the settings that
//! the form was made from, is sent to the API. A value that no plain field can hold (a line break in a name, an
//! empty text) is therefore edited as JSON, which loses nothing.

mod input;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::domain::{Attribute, Collection, Kind, Value};
use crate::engine::Clash;
use crate::http::jsonapi::request;
use crate::http::ui::fields::input::{DEPTH_MAX, OWN_RULE, escaped, json_text, sent, simplest_input};
use crate::http::ui::form::PostedForm;
use crate::http::ui::words::shown;

pub(crate) use crate::http::ui::fields::input::{Field, FieldError, FieldInput, Overlap};

/// The settings in a form, as they were and as the visitor wants them.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormSettings {
    /// The settings that the form was made from.
    pub(crate) was: Vec<(String, Value)>,
    pub(crate) fields: Vec<Field>,
}

impl FormSettings {
    pub(crate) fn of(collection: &Collection) -> Self {
        let was: Vec<_> = collection
            .attributes()
            .iter()
            .map(|(attribute, value)| (attribute.as_str().to_owned(), value.clone()))
            .collect();
        Self { fields: fields(collection.kind(), &was), was }
    }

    pub(crate) fn new(kind: Kind) -> Self {
        Self { was: Vec::new(), fields: fields(kind, &[]) }
    }

    pub(crate) fn posted(kind: Kind, posted: &PostedForm) -> Self {
        let was = match request::parse(posted.get("was").as_bytes(), DEPTH_MAX) {
            Ok(Value::Map(members)) => members.into_vec(),
            _ => Vec::new(),
        };
        let mut fields: Vec<Field> = Attribute::known(kind).map(|it| sent(&it, posted)).collect();
        let own = posted.below("j.").filter(|(name, _)| name.starts_with("x-"));
        fields.extend(own.map(|(name, text)| extension(kind, name, FieldInput::Json(text.to_owned()))));
        let (name, text) = (posted.get("x.name").trim(), posted.get("x.value"));
        if !name.is_empty() || !text.trim().is_empty() {
            let name =
                if name.is_empty() || name.starts_with("x-") { name.to_owned() } else { format!("x-{name}") };
            fields.push(extension(kind, &name, FieldInput::Json(text.to_owned())));
        }
        Self { was, fields }
    }

    /// Returns the changes: each attribute that differs, `null` if it is to be removed.
    ///
    /// # Errors
    ///
    /// If a field can't be parsed, adds the error to that field and returns the changes of the others.
    pub(crate) fn changes(&mut self) -> Result<Changes, Changes> {
        let mut changes = Vec::new();
        let was = by_name(&self.was);
        let mut is_readable = true;
        for field in &mut self.fields {
            match field.value() {
                Ok(value) if value.as_ref() == was.get(field.name.as_str()).copied() => {}
                Ok(value) => changes.push((field.name.clone(), value.unwrap_or(Value::Null))),
                Err(why) => {
                    field.errors.push(why);
                    is_readable = false;
                }
            }
        }
        if is_readable { Ok(changes) } else { Err(changes) }
    }

    /// Moves the form onto the current collection, which others have changed since. What the visitor changed stays
    /// as it was typed, and everything else becomes current. `clashes` are shown side by side.
    pub(crate) fn rebase(self, current: &Collection, changed: &[(String, Value)], clashes: &[Clash]) -> Self {
        let mut next = Self::of(current);
        let (were, wanted_of) = (by_name(&self.was), by_name(changed));
        let clashing: HashSet<&str> = clashes.iter().map(|clash| clash.attribute.as_str()).collect();
        let mut places = next.field_indexes();
        for field in self.fields {
            let Some(wanted) = wanted_of.get(field.name.as_str()).copied() else { continue };
            let theirs = next.was.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
            let before = were.get(field.name.as_str()).copied();
            let is_clash = clashing.contains(field.name.as_str())
                || (clashes.is_empty() && theirs != before && theirs.unwrap_or(&Value::Null) != wanted);
            let overlap = is_clash.then(|| Overlap {
                before: before.map(shown),
                theirs: theirs.map(shown),
                yours: (*wanted != Value::Null).then(|| shown(wanted)),
            });
            let kept = Field { overlap, ..field };
            match places.get(&kept.name) {
                Some(&at) => next.fields[at] = kept,
                None => {
                    places.insert(kept.name.clone(), next.fields.len());
                    next.fields.push(kept);
                }
            }
        }
        next
    }

    /// Where the visitor chose the others' value of an attribute, takes it in place of what was typed.
    pub(crate) fn apply_choices(&mut self, kind: Kind, posted: &PostedForm) {
        let picked = posted.below("pick.").filter(|(_, choice)| *choice == "theirs");
        let picked: HashSet<&str> = picked.map(|(name, _)| name).collect();
        if picked.is_empty() {
            return;
        }
        let theirs = fields(kind, &self.was).into_iter();
        let theirs: HashMap<String, Field> = theirs.map(|field| (field.name.clone(), field)).collect();
        self.fields.retain_mut(|field| {
            let is_picked = picked.contains(field.name.as_str());
            let known = theirs.get(&field.name).filter(|_| is_picked);
            known.iter().for_each(|known| field.clone_from(known));
            !is_picked || known.is_some()
        });
    }

    /// Returns the index of the first field of each name.
    pub(crate) fn field_indexes(&self) -> HashMap<String, usize> {
        self.fields.iter().enumerate().rev().map(|(at, field)| (field.name.clone(), at)).collect()
    }

    /// Adds an error to the first field of its name. Returns `false` if there is none.
    pub(crate) fn blame(&mut self, places: &HashMap<String, usize>, pointer: &str, detail: &str) -> bool {
        let Some(path) = pointer.strip_prefix("/data/attributes/") else { return false };
        let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let name = steps.next().unwrap_or_default();
        let below: Vec<String> = steps.collect();
        let Some(field) = places.get(&name).and_then(|&at| self.fields.get_mut(at)) else { return false };
        field.blame(&below, detail);
        true
    }

    /// The settings that the form was made from, which it sends back.
    pub(crate) fn original_json(&self) -> String {
        escaped(&Value::Map(self.was.clone().into()).to_string())
    }
}

/// The first value of each attribute, by name.
fn by_name(attributes: &[(String, Value)]) -> HashMap<&str, &Value> {
    attributes.iter().rev().map(|(name, value)| (name.as_str(), value)).collect()
}

/// Attributes and their new values.
type Changes = Vec<(String, Value)>;

/// The fields of all attributes that a collection of this kind can have, and of its extension attributes.
fn fields(kind: Kind, was: &[(String, Value)]) -> Vec<Field> {
    let value = |name: &str| was.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let mut fields: Vec<Field> =
        Attribute::known(kind).map(|it| Field::new(&it, simplest_input(&it, value(it.as_str())))).collect();
    let own = was.iter().filter(|(name, _)| name.starts_with("x-"));
    fields.extend(own.map(|(name, value)| extension(kind, name, FieldInput::Json(json_text(value)))));
    fields
}

fn extension(kind: Kind, name: &str, input: FieldInput) -> Field {
    match Attribute::parse(kind, name) {
        Some(attribute) => Field::new(&attribute, input),
        None => Field {
            name: name.to_owned(),
            meaning: "A setting of your own.",
            rule: OWN_RULE,
            is_directory: false,
            input,
            errors: Vec::new(),
            overlap: None,
        },
    }
}
