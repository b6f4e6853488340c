//! What a body asks for, checked by hand-written rules that report everything at once.
//!
//! A pointer always leads to something that exists in the body, so what is missing is reported at
//! its parent. Members that JSON:API does not define, `@`-members and the ones that have no
//! meaning here (`meta`, `links`, `relationships`) are ignored, as the specification asks.

#[cfg(test)]
mod tests;

use crate::domain::{Attribute, Collection, Key, Kind, Patch, Refusal, Value};
use crate::http::jsonapi::document::{kind_of, resource_type};
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject, More};
use crate::http::jsonapi::json;
use crate::telemetry::Limit;

/// A body or a part of one: how far it could be read, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    kind: Option<Kind>,
    id: Option<String>,
    attributes: Vec<(String, Value)>,
    faults: Vec<ErrorObject>,
}

/// The members of an object, by their names.
pub(crate) type ObjectMembers = Box<[(String, Value)]>;

/// The members of an object but those that are none of ours (JSON:API, "@-Members").
fn own_members(members: ObjectMembers) -> Vec<(String, Value)> {
    let mut members = members.into_vec();
    members.retain(|(name, _)| !name.starts_with('@'));
    members
}

/// Reads a body as JSON.
///
/// # Errors
///
/// 400 `bad_request`, with the place.
pub(crate) fn parse(body: &[u8], depth_max: usize) -> Result<Value, ErrorObject> {
    json::read(body, depth_max).map_err(|fault| {
        let (why, limit) = match fault.is_too_deep() {
            true => (format!("nests deeper than {depth_max} levels"), Some(Limit::JsonDepth)),
            false => ("is not JSON".to_owned(), None),
        };
        let error = ErrorObject::new(Code::BAD_REQUEST, format!("The body {why}: {fault}"));
        error.with(More { limit, ..More::default() })
    })
}

/// Takes a document apart.
///
/// # Errors
///
/// 400 `bad_request` when the body is no JSON:API document.
pub(crate) fn members_of(document: Value) -> Result<ObjectMembers, ErrorObject> {
    match document {
        Value::Map(members) => Ok(members),
        other => {
            let detail = format!("a JSON:API document is an object, the body is {}", article(&other));
            Err(ErrorObject::new(Code::BAD_REQUEST, detail))
        }
    }
}

/// Takes the resource out of a document.
///
/// # Errors
///
/// 400 `bad_request` when the body is not a JSON:API document with a single resource object.
pub(crate) fn data_of(document: Value) -> Result<ObjectMembers, ErrorObject> {
    match take(members_of(document)?, "data") {
        None => Err(ErrorObject::new(Code::BAD_REQUEST, "the document has no `data`")),
        Some(Value::Map(members)) => Ok(members),
        Some(other) => {
            let detail = format!("`data` is a single resource object here, found {}", article(&other));
            Err(ErrorObject::new(Code::BAD_REQUEST, detail).at("/data"))
        }
    }
}

/// The value of a member.
pub(crate) fn find<'m>(members: &'m [(String, Value)], name: &str) -> Option<&'m Value> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// The value of a member, of which alone something is wanted.
pub(crate) fn take(members: ObjectMembers, name: &str) -> Option<Value> {
    members.into_iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// A value in words as JSON calls it.
pub(crate) fn article(value: &Value) -> &'static str {
    match value {
        Value::Map(_) => "an object",
        Value::List(_) => "an array",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => value.described(),
    }
}

impl Resource {
    /// Reads a resource object; pointers start at `/data`.
    pub(crate) fn read(data: ObjectMembers) -> Self {
        let mut resource = Self::default();
        let mut seen_type = false;
        let mut seen_id = false;
        for (name, value) in data {
            match name.as_str() {
                "type" => {
                    seen_type = true;
                    resource.read_type(value);
                }
                "id" => {
                    seen_id = true;
                    resource.read_id(value);
                }
                "attributes" => resource.read_attributes(value),
                _ => {}
            }
        }
        if !seen_type {
            resource.fault("/data", "`type` is missing; it is `document-collection` or `media-collection`");
        }
        if !seen_id {
            resource.fault("/data", "`id` is missing; it is the key, chosen by the client");
        }
        resource.check_inner_type();
        resource
    }

    /// A resource that could not be read at all.
    pub(crate) fn unreadable(fault: ErrorObject) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }

    fn fault(&mut self, pointer: &str, detail: impl Into<String>) {
        self.faults.push(ErrorObject::invalid(pointer, detail.into()));
    }

    fn read_type(&mut self, value: Value) {
        match value {
            Value::Text(text) => match kind_of(&text) {
                Some(kind) => self.kind = Some(kind),
                None => self.fault(
                    "/data/type",
                    format!("there is no type {text:?}; write `document-collection` or `media-collection`"),
                ),
            },
            other => self.fault("/data/type", format!("expected a string, found {}", article(&other))),
        }
    }

    fn read_id(&mut self, value: Value) {
        match value {
            Value::Text(text) => self.id = Some(text.into()),
            other => self.fault("/data/id", format!("expected a string, found {}", article(&other))),
        }
    }

    fn read_attributes(&mut self, value: Value) {
        match value {
            Value::Map(attributes) => {
                self.attributes = own_members(attributes);
                // The one attribute whose value is made of objects of ours.
                let is_statuses = |name: &str| name == Attribute::UnpublishedStatuses.as_str();
                let statuses = self.attributes.iter_mut().find(|(name, _)| is_statuses(name));
                if let Some((_, Value::Map(statuses))) = statuses {
                    let own =
                        own_members(std::mem::take(statuses)).into_iter().map(|(key, status)| match status {
                            Value::Map(status) => (key, Value::Map(own_members(status).into())),
                            other => (key, other),
                        });
                    *statuses = own.collect();
                }
            }
            other => self.fault("/data/attributes", format!("expected an object, found {}", article(&other))),
        }
    }

    /// `attributes.type` may be left out and must otherwise agree with `type`; it is not kept.
    fn check_inner_type(&mut self) {
        let Some(at) = self.attributes.iter().position(|(name, _)| name == "type") else { return };
        let Some(kind) = self.kind else { return };
        let (_, value) = self.attributes.remove(at);
        if value.as_text() != Some(kind.as_str()) {
            let detail = format!(
                "expected {:?} as `data.type` is {:?}, found {value}",
                kind.as_str(),
                resource_type(kind)
            );
            self.fault("/data/attributes/type", detail);
        }
    }

    /// The collection that the resource describes, for a create.
    pub(crate) fn into_new(mut self) -> CreateRequest {
        let key = self.id.take().and_then(|id| match Key::parse(&id) {
            Ok(key) => Some(key),
            Err(error) => {
                self.fault("/data/id", error.to_string());
                None
            }
        });
        let mut collection = None;
        if let Some(kind) = self.kind {
            // Without a key the attributes are checked all the same, to report everything at once.
            let stand_in = key.clone().unwrap_or_else(|| Key::parse("x").expect("`x` is a key"));
            match Collection::new(stand_in, kind, self.attributes) {
                Ok(made) => collection = Some(made),
                Err(violations) => self.faults.extend(violations.iter().map(ErrorObject::from)),
            }
        }
        let collection = collection.filter(|_| key.is_some() && self.faults.is_empty());
        CreateRequest { key, collection, faults: self.faults }
    }

    /// The change that the resource describes, for an update.
    pub(crate) fn into_change(self) -> UpdateRequest {
        let patch = Patch::new(self.attributes);
        UpdateRequest { kind: self.kind, id: self.id, patch, faults: self.faults }
    }
}

/// What a create asks for.
#[derive(Debug)]
pub(crate) struct CreateRequest {
    /// The key, if there is one.
    pub(crate) key: Option<Key>,
    /// The collection, if nothing is wrong.
    pub(crate) collection: Option<Collection>,
    /// What is wrong.
    pub(crate) faults: Vec<ErrorObject>,
}

/// What an update asks for.
#[derive(Debug)]
pub(crate) struct UpdateRequest {
    /// The kind that the caller takes the collection for.
    pub(crate) kind: Option<Kind>,
    id: Option<String>,
    /// What to change; as much of it as could be read.
    pub(crate) patch: Patch,
    /// What is wrong.
    pub(crate) faults: Vec<ErrorObject>,
}

impl UpdateRequest {
    /// The changes, if nothing is wrong with the body.
    pub(crate) fn content(&self) -> Option<&Patch> {
        self.faults.is_empty().then_some(&self.patch)
    }

    /// The id that the body names.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Checks the body by itself and against the collection that it would change.
    ///
    /// # Errors
    ///
    /// In this order: everything that is wrong with the values, and `beside` the body; another id than that of the URL;
    /// another type than the stored one.
    pub(crate) fn check(&self, before: &Collection, beside: &[ErrorObject]) -> Result<(), ApiError> {
        let updated = before.updated(self.kind, &self.patch);
        let mut faults = [&self.faults, beside].concat();
        if let Err(Refusal::Invalid(violations)) = &updated {
            faults.extend(violations.iter().map(ErrorObject::from));
        }
        if !faults.is_empty() {
            return Err(faults.into());
        }
        let key = before.key();
        if let Some(id) = self.id.as_deref().filter(|id| *id != key.as_str()) {
            return Err(other_id(id, key));
        }
        updated.map(drop).map_err(ApiError::from)
    }
}

/// The body names another collection than its target.
pub(crate) fn other_id(id: &str, key: &Key) -> ApiError {
    let detail = format!(
        "Body data.id ('{id}') does not match URL key ('{key}'). Use the URL key as the resource identifier."
    );
    ErrorObject::new(Code::CONFLICT, detail).at("/data/id").into()
}
