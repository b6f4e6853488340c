//! The JSON Schema of a collection file, generated from the table of attributes and their rules.
//!
//! Only the reader of files checks what the schema can't express ([`INEXPRESSIBLE`]).

use crate::domain::collection::ATTRIBUTES_MAX;
use crate::domain::collection::attribute::{Attribute, Shorthand};
use crate::domain::collection::directory::Directory;
use crate::domain::collection::rule::{NAME_BYTES_MAX, Rule, TEXT_CHARS_MAX};
use crate::domain::collection::{Kind, Number, Value};

/// Control characters, for a character class of a regular expression.
const CONTROLS: &str = r"\u0000-\u001F\u007F-\u009F";

/// The JSON Schema dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What only the reader of files checks.
const INEXPRESSIBLE: &str = "What a schema can't say is checked by `collectory check`: that a directory has at most \
    1,024 bytes and a name 128 (a schema counts characters), how deep values may be nested, that a file has at most \
    64 KiB, that a number fits 64 bits, and which plain texts and numbers need quotes (`yes`, `1e3`, `.nan`).";

/// The schema of a collection file, as JSON.
#[must_use]
pub fn schema() -> Value {
    let is_media = Value::from([
        ("properties", Value::from([("type", Value::from([("const", "media".into())]))])),
        required(&["type"]),
    ]);
    Value::from([
        ("$schema", DIALECT.into()),
        ("title", "A collection".into()),
        ("description", "One named folder of a content store: documents or media.".into()),
        ("$comment", INEXPRESSIBLE.into()),
        ("type", "object".into()),
        ("properties", Value::from([("type", kinds())])),
        required(&["type"]),
        ("if", is_media),
        ("then", attributes(Kind::Media)),
        ("else", attributes(Kind::Document)),
    ])
}

fn kinds() -> Value {
    let names = Kind::ALL.map(|kind| kind.as_str().into());
    let meaning = "What the collection holds; it stays as it is once the collection exists.";
    Value::from([("enum", Value::List(names.into())), ("description", meaning.into())])
}

fn attributes(kind: Kind) -> Value {
    let known = Attribute::known(kind).map(|attribute| {
        (attribute.as_str().to_owned(), described(rule(attribute.rule()), attribute.meaning()))
    });
    let shorthands = Shorthand::ALL.into_iter().filter(|_| kind == Kind::Document).map(|shorthand| {
        let meaning = format!("Short for the directory of unpublishedStatuses.{}.", shorthand.status());
        (shorthand.as_str().to_owned(), described(rule(Rule::Directory), &meaning))
    });
    let own = [("type".to_owned(), Value::Bool(true))];
    let any_value = Value::from([("description", "A setting of your own: any value.".into())]);
    Value::from([
        ("properties", Value::Map(own.into_iter().chain(known).chain(shorthands).collect())),
        ("patternProperties", Value::from([(extension_pattern().as_str(), any_value)])),
        ("additionalProperties", Value::Bool(false)),
        ("propertyNames", Value::from([("maxLength", count(NAME_BYTES_MAX))])),
        ("maxProperties", count(ATTRIBUTES_MAX + 1)),
    ])
}

fn rule(rule: Rule) -> Value {
    match rule {
        Rule::Text => Value::from([("type", "string".into()), ("maxLength", count(TEXT_CHARS_MAX))]),
        Rule::Directory => Value::from([
            ("type", "string".into()),
            ("pattern", directory_pattern().into()),
            error_message(
                "A directory is a relative path with `/`, such as content/posts, without `.` and `..`, of at most 1,024 bytes.",
            ),
        ]),
        Rule::Boolean => Value::from([("type", "boolean".into())]),
        Rule::Statuses => statuses(),
        Rule::Accept => {
            let item = Value::from([
                ("type", "string".into()),
                ("pattern", media_type_pattern().into()),
                error_message(
                    "Write a media type such as image/png or image/*, or an extension such as .pdf.",
                ),
            ]);
            Value::from([("type", "array".into()), ("items", item)])
        }
        Rule::Anything => Value::Bool(true),
    }
}

fn statuses() -> Value {
    let directory = described(rule(Rule::Directory), "Where documents of this status are kept.");
    let name = described(rule(Rule::Text), "What people call the status.");
    let status = Value::from([
        ("type", "object".into()),
        ("properties", Value::from([("directory", directory), ("name", name)])),
        // A file without the name is served, but the missing name is reported as a problem.
        required(&["directory", "name"]),
        ("additionalProperties", Value::Bool(false)),
    ]);
    let names = Value::from([
        ("minLength", count(1)),
        ("maxLength", count(NAME_BYTES_MAX)),
        ("pattern", format!("^[^{CONTROLS}]*$").into()),
    ]);
    Value::from([("type", "object".into()), ("propertyNames", names), ("additionalProperties", status)])
}

/// The syntax of a [`Directory`].
fn directory_pattern() -> String {
    let part = format!(r"(?!\.{{1,2}}(?:/|$))[^/\\{CONTROLS}]+");
    // A slash at the end is dropped before the length counts.
    format!("^(?=.{{1,{}}}/?$)(?![A-Za-z]:){part}(?:/{part})*/?$", Directory::BYTES_MAX)
}

/// The syntax of a [`MediaType`](crate::domain::MediaType).
fn media_type_pattern() -> String {
    let name = "[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}";
    format!(r"^(?:\.{name}|\*/\*|{name}/(?:\*|{name}))$")
}

/// The syntax of a user-defined name: `x-` followed by a member name of JSON:API.
fn extension_pattern() -> String {
    let beyond_ascii = r"[^\u0000-\u009F]";
    format!("^x-(?:[A-Za-z0-9_-]|{beyond_ascii})*(?:[A-Za-z0-9]|{beyond_ascii})$")
}

/// The message that editors show for a text that does not match the pattern; other readers ignore it.
fn error_message(sentence: &str) -> (&'static str, Value) {
    ("patternErrorMessage", sentence.into())
}

fn described(schema: Value, meaning: &str) -> Value {
    let Value::Map(members) = schema else { return schema };
    Value::Map(members.into_iter().chain([("description".to_owned(), meaning.into())]).collect())
}

fn required(names: &[&str]) -> (&'static str, Value) {
    ("required", Value::List(names.iter().map(|name| Value::from(*name)).collect()))
}

fn count(number: usize) -> Value {
    Value::Number(Number::Unsigned(number as u64))
}
