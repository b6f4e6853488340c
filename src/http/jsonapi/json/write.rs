//! A compact JSON writer.

use crate::domain::Value;
use crate::http::jsonapi::query::Fieldset;

/// Appends a value as compact JSON.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Text(text) => write_text(text, out),
        Value::List(items) => write_list(items, out, write),
        Value::Map(values) => write_object(out, None, |members| {
            values.iter().for_each(|(name, value)| members.value(name, Some(value)));
        }),
    }
}

/// Appends a text as a JSON string.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing text to memory can't fail");
}

pub(crate) fn write_list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// Appends an object with the members that `write` adds, restricted to the wanted ones.
pub(crate) fn write_object(
    out: &mut Vec<u8>,
    wanted: Option<&Fieldset>,
    write: impl FnOnce(&mut Members<'_>),
) {
    out.push(b'{');
    write(&mut Members { out, wanted, first: true });
    out.push(b'}');
}

/// The members of a JSON object under construction; unwanted members are left out.
pub(crate) struct Members<'a> {
    out: &'a mut Vec<u8>,
    wanted: Option<&'a Fieldset>,
    first: bool,
}

impl Members<'_> {
    /// Adds a member whose value is appended by `write`.
    pub(crate) fn member(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.wanted.is_some_and(|wanted| !wanted.names(name)) {
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        write_text(name, self.out);
        self.out.push(b':');
        write(self.out);
    }

    /// Adds a member with a text value.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.member(name, |out| write_text(text, out));
    }

    /// Adds a member with a value of a collection, if there is one.
    pub(crate) fn value(&mut self, name: &str, value: Option<&Value>) {
        if let Some(value) = value {
            self.member(name, |out| write(value, out));
        }
    }

    /// Adds a member with any JSON value.
    pub(crate) fn json(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.member(name, |out| out.extend_from_slice(value.into().to_string().as_bytes()));
    }
}
