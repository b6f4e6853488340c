//! What a body asks for, checked by hand-written rules that report everything at once.
//!
//! A pointer always leads to something that exists in the body, so what is missing is reported at
//! its parent. Members that JSON:API does not define, `@`-members and the ones that have no
//! meaning here (`meta`, `links`, `relationships`) are ignored, as the specification asks.

use super::document::{kind_of, resource_type};
use super::error::{ApiError, Code, ErrorObject};
use super::json;
use crate::domain::{Collection, Key, Kind, Patch, Refusal, Value};

/// A body or a part of one: how far it could be read, and what is wrong with it.
#[derive(Debug, Default)]
pub(in crate::http) struct Resource {
    kind: Option<Kind>,
    id: Option<String>,
    attributes: Vec<(String, Value)>,
    faults: Vec<ErrorObject>,
}

/// Reads a body as JSON.
///
/// # Errors
///
/// 400 `bad_request`, with the place.
pub(in crate::http) fn parse(body: &[u8], depth_max: usize) -> Result<Value, ErrorObject> {
    json::read(body, depth_max)
        .map_err(|fault| ErrorObject::new(Code::BAD_REQUEST, format!("The body is not JSON: {fault}")))
}

/// Takes the resource out of a document.
///
/// # Errors
///
/// 400 `bad_request` when the body is not a JSON:API document with a single resource object.
pub(in crate::http) fn data_of(document: Value) -> Result<Value, ErrorObject> {
    let not = |detail: String| Err(ErrorObject::new(Code::BAD_REQUEST, detail));
    let Value::Map(members) = document else {
        return not(format!("a JSON:API document is an object, the body is {}", article(&document)));
    };
    match take(members, "data") {
        None => not("the document has no `data`".to_owned()),
        Some(data @ Value::Map(_)) => Ok(data),
        Some(other) => not(format!("`data` is a single resource object here, found {}", article(&other)))
            .map_err(|error: ErrorObject| error.at("/data")),
    }
}

/// The value of a member.
pub(in crate::http) fn take(members: Vec<(String, Value)>, name: &str) -> Option<Value> {
    members.into_iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// A value in words as JSON calls it.
pub(in crate::http) fn article(value: &Value) -> &'static str {
    match value {
        Value::Map(_) => "an object",
        Value::List(_) => "an array",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => value.described(),
    }
}

impl Resource {
    /// Reads a resource object; pointers start at `/data`.
    pub(in crate::http) fn read(data: Value) -> Self {
        let mut resource = Self::default();
        let Value::Map(members) = data else {
            resource.fault("/data", format!("expected a resource object, found {}", article(&data)));
            return resource;
        };
        let mut seen_type = false;
        let mut seen_id = false;
        for (name, value) in members {
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
    pub(in crate::http) fn unreadable(fault: ErrorObject) -> Self {
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
            Value::Text(text) => self.id = Some(text),
            other => self.fault("/data/id", format!("expected a string, found {}", article(&other))),
        }
    }

    fn read_attributes(&mut self, value: Value) {
        match value {
            Value::Map(mut attributes) => {
                attributes.retain(|(name, _)| !name.starts_with('@'));
                self.attributes = attributes;
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
    pub(in crate::http) fn into_new(mut self) -> New {
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
        New { key, collection, faults: self.faults }
    }

    /// The change that the resource describes, for an update.
    pub(in crate::http) fn into_change(self) -> Change {
        let patch = Patch::new(self.attributes);
        Change { kind: self.kind, id: self.id, patch, faults: self.faults }
    }
}

/// What a create asks for.
#[derive(Debug)]
pub(in crate::http) struct New {
    /// The key, if there is one.
    pub(in crate::http) key: Option<Key>,
    /// The collection, if nothing is wrong.
    pub(in crate::http) collection: Option<Collection>,
    /// What is wrong.
    pub(in crate::http) faults: Vec<ErrorObject>,
}

/// What an update asks for.
#[derive(Debug, Clone)]
pub(in crate::http) struct Change {
    /// The kind that the caller takes the collection for.
    pub(in crate::http) kind: Option<Kind>,
    id: Option<String>,
    /// What to change; as much of it as could be read.
    pub(in crate::http) patch: Patch,
    /// What is wrong.
    pub(in crate::http) faults: Vec<ErrorObject>,
}

impl Change {
    /// The changes, if nothing is wrong with the body.
    pub(in crate::http) fn content(&self) -> Option<&Patch> {
        self.faults.is_empty().then_some(&self.patch)
    }

    /// The id that the body names.
    pub(in crate::http) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Checks the body by itself and against the collection that it would change.
    ///
    /// # Errors
    ///
    /// In this order: everything that is wrong with the values; another id than that of the URL;
    /// another type than the stored one.
    pub(in crate::http) fn check(&mut self, before: &Collection) -> Result<(), ApiError> {
        let updated = before.updated(self.kind, &self.patch);
        if let Err(Refusal::Invalid(violations)) = &updated {
            self.faults.extend(violations.iter().map(ErrorObject::from));
        }
        if !self.faults.is_empty() {
            return Err(std::mem::take(&mut self.faults).into());
        }
        let key = before.key();
        if let Some(id) = self.id.as_deref().filter(|id| *id != key.as_str()) {
            return Err(other_id(id, key));
        }
        updated.map(drop).map_err(ApiError::from)
    }
}

/// The body names another collection than its target.
pub(in crate::http) fn other_id(id: &str, key: &Key) -> ApiError {
    let detail = format!(
        "Body data.id ('{id}') does not match URL key ('{key}'). Use the URL key as the resource identifier."
    );
    ErrorObject::new(Code::CONFLICT, detail).at("/data/id").into()
}

#[cfg(test)]
mod tests {
    use super::super::error::Source;
    use super::*;

    /// Everything that is wrong with a body, `pointer: detail` a line.
    fn shown(faults: &[ErrorObject]) -> String {
        let lines: Vec<String> = faults
            .iter()
            .map(|fault| match &fault.source {
                Some(Source::Pointer(pointer)) => format!("{pointer}: {}", fault.detail),
                other => format!("{other:?}: {}", fault.detail),
            })
            .collect();
        lines.join("\n")
    }

    fn resource(body: &str) -> Resource {
        let data = parse(body.as_bytes(), 32).and_then(data_of);
        data.map_or_else(Resource::unreadable, Resource::read)
    }

    /// What is wrong with a body, whatever it is for.
    const WRONG: &[(&str, &str)] = &[
        ("", "None: The body is not JSON: line 1, column 1: expected a value, found the end of the text."),
        (
            "{",
            "None: The body is not JSON: line 1, column 2: expected the name of a member in quotes, found the end of the text.",
        ),
        ("null", "None: A JSON:API document is an object, the body is null."),
        ("[]", "None: A JSON:API document is an object, the body is an array."),
        ("\"x\"", "None: A JSON:API document is an object, the body is a string."),
        ("7", "None: A JSON:API document is an object, the body is a number."),
        ("{}", "None: The document has no `data`."),
        (r#"{"meta":{}}"#, "None: The document has no `data`."),
        (r#"{"errors":[]}"#, "None: The document has no `data`."),
        (r#"{"data":null}"#, "/data: `data` is a single resource object here, found null."),
        (r#"{"data":[]}"#, "/data: `data` is a single resource object here, found an array."),
        (r#"{"data":"x"}"#, "/data: `data` is a single resource object here, found a string."),
        (r#"{"data":true}"#, "/data: `data` is a single resource object here, found a boolean."),
        (
            r#"{"data":{}}"#,
            "/data: `type` is missing; it is `document-collection` or `media-collection`.\n/data: `id` is missing; it is the key, chosen by the client.",
        ),
        (
            r#"{"data":{"type":"media-collection","lid":"x"}}"#,
            "/data: `id` is missing; it is the key, chosen by the client.",
        ),
        (r#"{"data":{"type":7,"id":"a"}}"#, "/data/type: Expected a string, found a number."),
        (r#"{"data":{"type":null,"id":"a"}}"#, "/data/type: Expected a string, found null."),
        (
            r#"{"data":{"type":"media","id":"a"}}"#,
            "/data/type: There is no type \"media\"; write `document-collection` or `media-collection`.",
        ),
        (
            r#"{"data":{"type":"","id":"a"}}"#,
            "/data/type: There is no type \"\"; write `document-collection` or `media-collection`.",
        ),
        (r#"{"data":{"type":"media-collection","id":7}}"#, "/data/id: Expected a string, found a number."),
        (r#"{"data":{"type":"media-collection","id":null}}"#, "/data/id: Expected a string, found null."),
        (
            r#"{"data":{"type":"media-collection","id":["a"]}}"#,
            "/data/id: Expected a string, found an array.",
        ),
        (
            r#"{"data":{"type":"media-collection","id":"a","attributes":null}}"#,
            "/data/attributes: Expected an object, found null.",
        ),
        (
            r#"{"data":{"type":"media-collection","id":"a","attributes":[]}}"#,
            "/data/attributes: Expected an object, found an array.",
        ),
        (
            r#"{"data":{"type":"media-collection","id":"a","attributes":{"type":"document"}}}"#,
            "/data/attributes/type: Expected \"media\" as `data.type` is \"media-collection\", found \"document\".",
        ),
        (
            r#"{"data":{"type":"media-collection","id":"a","attributes":{"type":null}}}"#,
            "/data/attributes/type: Expected \"media\" as `data.type` is \"media-collection\", found null.",
        ),
        (
            r#"{"data":{"type":7,"id":7,"attributes":7}}"#,
            "/data/type: Expected a string, found a number.\n/data/id: Expected a string, found a number.\n/data/attributes: Expected an object, found a number.",
        ),
    ];

    /// What is wrong with the attributes of the media collection `a`, whether new or changed.
    const WRONG_ATTRIBUTES: &[(&str, &str)] = &[
        (
            r#"{"id":"b"}"#,
            "/data/attributes/id: There is no such attribute; names that begin with `x-` are free.",
        ),
        (r#"{"nmae":"b"}"#, "/data/attributes/nmae: There is no such attribute; did you mean `name`?."),
        (
            r#"{"a/b~c":1}"#,
            "/data/attributes/a~1b~0c: There is no such attribute; names that begin with `x-` are free.",
        ),
        (
            r#"{"name":2024}"#,
            "/data/attributes/name: Expected a string, found a number (2024); write \"2024\" in quotes.",
        ),
        (
            r#"{"recursive":"yes","directory":"../x"}"#,
            "/data/attributes/recursive: Expected `true` or `false`, found the string \"yes\"; write true without quotes.\n/data/attributes/directory: \"../x\" has the part `..`; write the path without it.",
        ),
        (
            r#"{"accept":["image/*",1]}"#,
            "/data/attributes/accept/1: Expected a string, found a number (1); write \"1\" in quotes.",
        ),
        (
            r#"{"format":"md"}"#,
            "/data/attributes/format: Only document collections have `format`, this is a media collection.",
        ),
    ];

    #[test]
    fn everything_wrong_with_a_body_is_told_at_once() {
        for (body, faults) in WRONG {
            assert_eq!(shown(&resource(body).into_new().faults), *faults, "create: {body}");
            assert_eq!(shown(&resource(body).into_change().faults), *faults, "update: {body}");
        }
    }

    #[test]
    fn wrong_attributes_are_told_the_same_way_for_new_and_for_stored_collections() {
        let stored = Collection::new(Key::parse("a").unwrap(), Kind::Media, []).unwrap();
        for (attributes, faults) in WRONG_ATTRIBUTES {
            let body =
                format!(r#"{{"data":{{"type":"media-collection","id":"a","attributes":{attributes}}}}}"#);
            let faults = faults.replace("?.", "?");
            assert_eq!(shown(&resource(&body).into_new().faults), faults, "create: {body}");
            let error = resource(&body).into_change().check(&stored).unwrap_err();
            assert_eq!(shown(&error.errors), faults, "update: {body}");
        }
    }

    #[test]
    fn a_broken_key_is_told_together_with_the_rest() {
        let body = r#"{"data":{"type":"media-collection","id":"../etc","attributes":{"name":7}}}"#;
        let new = resource(body).into_new();
        assert_eq!((new.key, new.collection), (None, None));
        assert_eq!(
            shown(&new.faults),
            "/data/id: A key can't hold '/'.\n/data/attributes/name: Expected a string, found a number (7); write \"7\" in quotes."
                .replace("A key can't hold '/'", "A key is made of `A-Z a-z 0-9 . _ -`, it can't hold '/'")
        );
    }

    #[test]
    fn members_without_a_meaning_are_ignored() {
        let body = r#"{"@context":1,"jsonapi":{"version":"9"},"links":7,"meta":7,"included":7,"foo":7,
            "data":{"@id":1,"type":"media-collection","id":"a","lid":7,"relationships":{},"links":{"self":7},
            "meta":{"uncommitted":true},"foo":7,"attributes":{"@type":"x","type":"media","name":"A"}}}"#;
        let collection = resource(body).into_new().collection.unwrap();
        assert_eq!(collection.attributes().len(), 1);
    }

    #[test]
    fn a_patch_of_another_collection_or_kind_is_a_conflict() {
        let stored = Collection::new(Key::parse("a").unwrap(), Kind::Media, []).unwrap();
        let check = |data: &str| {
            let error = resource(&format!("{{\"data\":{data}}}")).into_change().check(&stored).unwrap_err();
            (error.status().as_u16(), shown(&error.errors))
        };
        assert_eq!(
            check(r#"{"type":"document-collection","id":"b"}"#),
            (409, "/data/id: Body data.id ('b') does not match URL key ('a'). Use the URL key as the resource identifier.".into())
        );
        assert_eq!(
            check(r#"{"type":"document-collection","id":"a"}"#),
            (409, "/data/type: `a` is a media collection and can't become a document collection; delete and create it instead.".into())
        );
        assert_eq!(check(r#"{"type":"document-collection","id":"b","attributes":{"name":7}}"#).0, 400);
        let of_its_own = r#"{"type":"document-collection","id":"a","attributes":{"format":"md"}}"#;
        assert_eq!(check(of_its_own).0, 409, "the attributes are those of the type that is named");
    }
}
