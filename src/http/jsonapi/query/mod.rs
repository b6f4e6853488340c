//! Parsing of query parameters: a path refuses parameters that it does not know.
//!
//! | parameter | where | meaning |
//! |---|---|---|
//! | `fields[TYPE]=a,b` | wherever resources are answered | only these attributes |
//! | `sort=-name,id` | list | `id`, `name`, `type`, `directory`; `-` descends; ties are broken by id |
//! | `filter[type]`, `filter[name]`, `filter[directory]` | list | exact matches, all of them |
//! | `page[...]` | list, events | see [`page`] |
//! | `asOf=R` | list, collection | the state as of `R` |
//! | `filter[...]` | events | see [`EventQuery`] |

mod events;
mod fields;
mod list;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

use crate::domain::Revision;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::page;
pub(crate) use crate::http::jsonapi::query::events::{EventQuery, EventScope, as_part, events, listed};
pub(crate) use crate::http::jsonapi::query::fields::{
    COLLECTION_TYPES, Fields, Fieldset, fields, fields_and_others, force, none,
};
pub(crate) use crate::http::jsonapi::query::list::{AS_OF, FILTER_TYPE, ListQuery, is_type, list};

/// The ASCII characters that a URI's query holds only in encoded form, except `%` (RFC 3986 section 3.4).
const ENCODED_IN_QUERIES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The decoded query of a request: names and values, in order.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes a query as HTML forms encode it: `+` is a blank, and brackets may be raw or encoded.
    ///
    /// # Errors
    ///
    /// 400 when it is not UTF-8.
    pub(crate) fn parse(raw: &str) -> Result<Self, ApiError> {
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decoded(name)?, decoded(value)?));
        }
        Ok(Self { pairs })
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Whether the requested page is larger than the maximum page size.
    pub(crate) fn wants_larger_page(&self) -> bool {
        let sizes = [page::SIZE, page::LIMIT].into_iter().filter_map(|name| self.first(name));
        // A value that is not a number is refused elsewhere; a number that overflows is too large.
        let mut numbers = sizes.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        numbers.any(|text| !text.is_empty() && text.parse().unwrap_or(usize::MAX) > page::PAGE_SIZE_MAX)
    }

    /// Returns the encoded query with other `page[...]` parameters.
    pub(crate) fn with_page(&self, page: &[(&str, String)]) -> String {
        let kept = self.pairs.iter().filter(|(name, _)| !name.starts_with("page["));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).extend_pairs(page).finish()
    }

    /// Returns the query with a revision in place of the name that `asOf` gives.
    pub(crate) fn at_revision(&self, revision: Revision) -> Self {
        let pairs = self.pairs.iter().map(|(name, value)| {
            let value = if name == AS_OF { revision.to_string() } else { value.clone() };
            (name.clone(), value)
        });
        Self { pairs: pairs.collect() }
    }

    /// Returns names and values, in order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the first value of a parameter.
    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn has_pages(&self) -> bool {
        self.pairs.iter().any(|(name, _)| name.starts_with("page["))
    }
}

/// Returns a query as it was sent, except that what can't stand in a URI is encoded. Clients send that too, and it means
/// the same either way.
pub(crate) fn in_uri(raw: &str) -> String {
    let mut parts = raw.split('%');
    let encoded = |part| utf8_percent_encode(part, ENCODED_IN_QUERIES);
    let mut query: String = parts.next().into_iter().flat_map(encoded).collect();
    for part in parts {
        let is_byte = matches!(part.as_bytes(), [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        query.push_str(if is_byte { "%" } else { "%25" });
        query.extend(encoded(part));
    }
    query
}

fn decoded(text: &str) -> Result<String, ApiError> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    let decoded = percent_decode(text.as_bytes()).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| {
        ApiError::new(Code::BAD_REQUEST, "The query is not UTF-8 once its percent signs are decoded.")
    })
}

/// Splits `family[member]`.
fn member(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((family, member)) => (family, Some(member)),
        None => (name, None),
    }
}

fn repeated(query: &Query) -> Vec<ErrorObject> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let again = query.pairs.iter().filter(|(name, _)| {
        let times = seen.entry(name).or_default();
        *times += 1;
        *times == 2
    });
    let fault = |name: &str| {
        ErrorObject::new(Code::BAD_REQUEST, "the parameter is there more than once").parameter(name)
    };
    again.map(|(name, _)| fault(name)).collect()
}

/// The error for an unknown parameter; `known` has the supported parameters.
fn not_understood(name: &str, known: &[String]) -> ErrorObject {
    let what = if name == "include" {
        "there are no relationships to include"
    } else {
        "this path does not understand the parameter"
    };
    let detail = match known {
        [] => format!("{what}; it takes none"),
        known => format!("{what}; it takes {}", known.join(", ")),
    };
    ErrorObject::new(Code::BAD_REQUEST, detail).parameter(name)
}

/// Returns the names of the `fields[...]` parameters of these types.
fn fields_of(types: &[&str]) -> impl Iterator<Item = String> {
    types.iter().map(|resource_type| format!("fields[{resource_type}]"))
}
