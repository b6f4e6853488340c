//! Parsing of request bodies by hand-written rules that report all faults at once.
//!
//! A pointer always refers to something that exists in the body, so a missing member is reported at its parent.
//! Members that JSON:API does not define, `@`-members and members without a meaning here (`meta`, `links`,
//! `relationships`) are ignored, as the specification requires.

#[cfg(test)]
mod tests;

use crate::domain::{Collection, Key, Kind, Patch, Refusal, Value, updated};
use crate::http::jsonapi::error::{ApiError, Code, ErrorExtras, ErrorObject};
use crate::http::jsonapi::json;
use crate::http::jsonapi::resource_type::{kind_of, resource_type};
use crate::telemetry::Limit;

/// A resource object as far as it could be read, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    kind: Option<Kind>,
    id: Option<String>,
    attributes: Vec<(String, Value)>,
    faults: Vec<ErrorObject>,
}

/// The members of an object, by name and in order.
pub(crate) type ObjectMembers = Box<[(String, Value)]>;

/// Drops the `@`-members of an object (JSON:API, "@-Members").
fn own_members(members: ObjectMembers) -> Vec<(String, Value)> {
    let mut members = members.into_vec();
    members.retain(|(name, _)| !name.starts_with('@'));
    members
}

/// Parses a body as JSON.
///
/// # Errors
///
/// 400 `bad_request`, with line and column.
pub(crate) fn parse(body: &[u8], depth_max: usize) -> Result<Value, ErrorObject> {
    json::read(body, depth_max).map_err(|fault| {
        let (why, limit) = match fault.is_too_deep() {
            true => (format!("nests deeper than {depth_max} levels"), Some(Limit::JsonDepth)),
            false => ("can't be read as JSON".to_owned(), None),
        };
        let error = ErrorObject::new(Code::BAD_REQUEST, format!("The body {why}: {fault}"));
        error.with(ErrorExtras { limit, ..ErrorExtras::default() })
    })
}

/// Returns the members of a document.
///
/// # Errors
///
/// 400 `bad_request` when the body is not a JSON:API document.
pub(crate) fn members_of(document: Value) -> Result<ObjectMembers, ErrorObject> {
    match document {
        Value::Map(members) => Ok(members),
        other => {
            let detail =
                format!("a JSON:API document is an object, the body is {}", type_with_article(&other));
            Err(ErrorObject::new(Code::BAD_REQUEST, detail))
        }
    }
}

/// Returns the resource object of a document.
///
/// # Errors
///
/// 400 `bad_request` when the body is not a JSON:API document with a single resource object.
pub(crate) fn data_of(document: Value) -> Result<ObjectMembers, ErrorObject> {
    match take(members_of(document)?, "data") {
        None => Err(ErrorObject::new(Code::BAD_REQUEST, "the document has no `data`")),
        Some(Value::Map(members)) => Ok(members),
        Some(other) => {
            let detail =
                format!("`data` is a single resource object here, found {}", type_with_article(&other));
            Err(ErrorObject::new(Code::BAD_REQUEST, detail).at("/data"))
        }
    }
}

pub(crate) fn find<'m>(members: &'m [(String, Value)], name: &str) -> Option<&'m Value> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// Returns the value of a member and drops the others.
pub(crate) fn take(members: ObjectMembers, name: &str) -> Option<Value> {
    members.into_iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// Describes the type of a value in JSON's terms.
pub(crate) fn type_with_article(value: &Value) -> &'static str {
    match value {
        Value::Map(_) => "an object",
        Value::List(_) => "an array",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => value.describe_type(),
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
            other => {
                self.fault("/data/type", format!("expected a string, found {}", type_with_article(&other)));
            }
        }
    }

    fn read_id(&mut self, value: Value) {
        match value {
            Value::Text(text) => self.id = Some(text.into()),
            other => {
                self.fault("/data/id", format!("expected a string, found {}", type_with_article(&other)));
            }
        }
    }

    fn read_attributes(&mut self, value: Value) {
        match value {
            // What is inside a value, such as the name of a status, is data and may begin with `@`.
            Value::Map(attributes) => self.attributes = own_members(attributes),
            other => self.fault(
                "/data/attributes",
                format!("expected an object, found {}", type_with_article(&other)),
            ),
        }
    }

    /// Checks that `attributes.type`, if present, agrees with `type`, and removes it.
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

    /// Converts the resource to a create request.
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
            // Without a key the attributes are checked too, so that all faults are reported at once.
            let stand_in = key.clone().unwrap_or_else(|| Key::parse("x").expect("`x` is a key"));
            match Collection::new(stand_in, kind, self.attributes) {
                Ok(made) => collection = Some(made),
                Err(violations) => self.faults.extend(violations.iter().map(ErrorObject::from)),
            }
        }
        let collection = collection.filter(|_| key.is_some() && self.faults.is_empty());
        CreateRequest { key, collection, faults: self.faults }
    }

    /// Converts the resource to an update request.
    pub(crate) fn into_change(self) -> UpdateRequest {
        let patch = Patch::new(self.attributes);
        UpdateRequest { kind: self.kind, id: self.id, patch, faults: self.faults }
    }
}

/// A request to create a collection.
#[derive(Debug)]
pub(crate) struct CreateRequest {
    /// The key, if it is valid.
    pub(crate) key: Option<Key>,
    /// The collection, if there are no faults.
    pub(crate) collection: Option<Collection>,
    pub(crate) faults: Vec<ErrorObject>,
}

/// A request to update a collection.
#[derive(Debug)]
pub(crate) struct UpdateRequest {
    /// The kind that the client takes the collection to be.
    pub(crate) kind: Option<Kind>,
    pub(crate) id: Option<String>,
    /// The attributes to change, as far as they could be read.
    pub(crate) patch: Patch,
    pub(crate) faults: Vec<ErrorObject>,
}

impl UpdateRequest {
    /// Returns the changes if the body has no faults.
    pub(crate) fn content(&self) -> Option<&Patch> {
        self.faults.is_empty().then_some(&self.patch)
    }

    /// Checks the body by itself and against the collection that it would change.
    ///
    /// # Errors
    ///
    /// In this order: all faults of the values together with the faults in `beside`; an id that differs from the one
    /// in the URL; a type that differs from the stored one.
    pub(crate) fn check(&self, before: &Collection, beside: &[ErrorObject]) -> Result<(), ApiError> {
        let changed = updated(before, self.kind, &self.patch);
        let mut faults = [&self.faults, beside].concat();
        if let Err(Refusal::Invalid(violations)) = &changed {
            faults.extend(violations.iter().map(ErrorObject::from));
        }
        if !faults.is_empty() {
            return Err(faults.into());
        }
        let key = before.key();
        if let Some(id) = self.id.as_deref().filter(|id| *id != key.as_str()) {
            return Err(other_id(id, key));
        }
        changed.map(drop).map_err(ApiError::from)
    }
}

/// The conflict error for a body whose id differs from that of its target.
fn other_id(id: &str, key: &Key) -> ApiError {
    let detail = format!(
        "Body data.id ('{id}') does not match URL key ('{key}'). Use the URL key as the resource identifier."
    );
    ErrorObject::new(Code::CONFLICT, detail).at("/data/id").into()
}
