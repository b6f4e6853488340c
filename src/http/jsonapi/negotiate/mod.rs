//! Media types: what a body is written in, and what the caller can read (JSON:API 1.1 sections 5
//! and 6).
//!
//! Extension and profile lists are quoted strings that may hold commas, semicolons and blanks, so
//! the headers are parsed and never split. Profiles are hints: unknown ones are ignored.

mod media_type;
#[cfg(test)]
mod tests;

use warp::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use warp::http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::header::fields;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::negotiate::media_type::MediaType;

/// The media type of JSON:API.
pub(crate) const JSON_API: &str = "application/vnd.api+json";

/// What an answer with the results of a batch is written in.
pub(crate) const JSON_API_ATOMIC: &str = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";

/// What a page of the cursor profile is written in.
pub(crate) const JSON_API_WITH_CURSOR: &str =
    "application/vnd.api+json;profile=\"https://jsonapi.org/profiles/ethanresnick/cursor-pagination\"";

/// The atomic operations extension.
pub(crate) const ATOMIC: &str = "https://jsonapi.org/ext/atomic";

/// The cursor pagination profile.
pub(crate) const CURSOR: &str = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination";

/// The coding that changes nothing (RFC 9110 section 8.4.1).
const IDENTITY: &str = "identity";

/// What the answer may be written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// The caller knows the cursor pagination profile.
    pub(crate) cursor_profile: bool,
}

/// What a path does with extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Plain JSON:API.
    Plain,
    /// Atomic operations: bodies must say so, answers say so.
    Atomic,
}

impl Dialect {
    fn knows(self, extension: &str) -> bool {
        self == Self::Atomic && extension == ATOMIC
    }
}

/// Reads what the caller can read.
///
/// # Errors
///
/// 406 when JSON:API is asked for in no form that is spoken here. Other media types and no header
/// at all are answered in JSON:API.
pub(crate) fn accept(headers: &HeaderMap, dialect: Dialect) -> Result<Accepted, ApiError> {
    let mut asked = false;
    let mut good = false;
    let mut accepted = Accepted::default();
    for value in fields(headers, &ACCEPT) {
        if value == "*/*" || value == JSON_API {
            good |= value == JSON_API;
            continue;
        }
        // What can't be parsed names no media type that could bind us.
        let types = value.to_str().ok().and_then(MediaType::list).unwrap_or_default();
        for media_type in types.iter().filter(|it| it.is(JSON_API)) {
            asked = true;
            if media_type.is_spoken(dialect) {
                good = true;
                accepted.cursor_profile |= media_type.uris("profile").any(|uri| uri == CURSOR);
            }
        }
    }
    if asked && !good {
        let detail = match dialect {
            Dialect::Plain => {
                format!("answers are written in {JSON_API} without any parameter but `profile`")
            }
            Dialect::Atomic => format!("answers are written in {JSON_API} with the extension {ATOMIC} only"),
        };
        return Err(ErrorObject::new(Code::NOT_ACCEPTABLE, detail).header("Accept").into());
    }
    Ok(accepted)
}

/// Whether a media type beside JSON:API is asked for: by its name, and at least as much as JSON:API.
pub(crate) fn prefers(headers: &HeaderMap, essence: &str) -> bool {
    let mut wanted = 0.0;
    let mut json_api = 0.0;
    for value in fields(headers, &ACCEPT) {
        // Most requests ask for nothing else, and need not be taken apart.
        if value == "*/*" || value == JSON_API {
            json_api = if value == JSON_API { 1.0 } else { json_api };
            continue;
        }
        for media_type in value.to_str().ok().and_then(MediaType::list).unwrap_or_default() {
            if media_type.is(essence) {
                wanted = media_type.weight().max(wanted);
            } else if media_type.is_spoken(Dialect::Plain) {
                json_api = media_type.weight().max(json_api);
            }
        }
    }
    wanted > 0.0 && wanted >= json_api
}

/// Checks what a body is written in, before it is read.
///
/// # Errors
///
/// 415 when it is something else than JSON:API, or JSON where that is taken for it, or compressed.
pub(crate) fn content_type(headers: &HeaderMap, dialect: Dialect, has_body: bool) -> Result<(), ApiError> {
    let is_plain = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(IDENTITY.as_bytes());
    if !fields(headers, &CONTENT_ENCODING).all(is_plain) {
        return Err(unsupported_coding());
    }
    let sent = match single(headers, &CONTENT_TYPE)? {
        None if !has_body && dialect == Dialect::Plain => return Ok(()),
        None => return Err(unsupported("a body needs a Content-Type".to_owned(), dialect)),
        Some(sent) => sent,
    };
    let types = MediaType::list(sent).unwrap_or_default();
    let [media_type] = types.as_slice() else {
        return Err(unsupported(format!("{sent:?} is no media type"), dialect));
    };
    let spoken = match dialect {
        Dialect::Plain => media_type.is_sent(dialect) || media_type.is_plain_json(),
        Dialect::Atomic => media_type.is_sent(dialect) && media_type.uris("ext").any(|uri| uri == ATOMIC),
    };
    if spoken { Ok(()) } else { Err(unsupported(format!("{sent:?} is not taken here"), dialect)) }
}

/// Checks the Content-Type of a request whose body is of no interest: only JSON:API's own rules
/// about its parameters hold.
///
/// # Errors
///
/// 415 as above.
pub(crate) fn content_type_without_body(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(sent) = single(headers, &CONTENT_TYPE)? else { return Ok(()) };
    if sent == JSON_API {
        return Ok(());
    }
    match MediaType::list(sent).unwrap_or_default().first() {
        Some(media_type) if media_type.is(JSON_API) && !media_type.is_sent(Dialect::Plain) => {
            Err(unsupported(format!("{sent:?} is not taken here"), Dialect::Plain))
        }
        Some(_) | None => Ok(()),
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = fields(headers, name);
    let first = values.next();
    let text = first.map(|value| value.to_str());
    match (text, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        (Some(_), _) => Err(unsupported("the header is not one media type".to_owned(), Dialect::Plain)),
    }
}

/// Says too which coding would do (RFC 9110 section 15.5.16).
fn unsupported_coding() -> ApiError {
    let detail = "a body is taken as it is, without a content coding";
    let error = ErrorObject::new(Code::UNSUPPORTED_MEDIA_TYPE, detail).header("Content-Encoding");
    ApiError::from(error).with_header(ACCEPT_ENCODING, HeaderValue::from_static(IDENTITY))
}

fn unsupported(found: String, dialect: Dialect) -> ApiError {
    let write = match dialect {
        Dialect::Plain => format!("{JSON_API} without parameters, or application/json"),
        Dialect::Atomic => format!("{JSON_API};ext=\"{ATOMIC}\""),
    };
    ErrorObject::new(Code::UNSUPPORTED_MEDIA_TYPE, format!("{found}; write {write}"))
        .header("Content-Type")
        .into()
}
