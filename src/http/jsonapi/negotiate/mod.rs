//! Content negotiation: the media types of bodies and of answers (JSON:API 1.1 sections 5 and 6).
//!
//! Extension and profile lists are quoted strings that may contain commas, semicolons and blanks, so the headers are
//! parsed instead of being split. Profiles are hints, so unknown profiles are ignored.

mod media_type;
#[cfg(test)]
mod tests;

use warp::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use warp::http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::header::fields;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::negotiate::media_type::{JsonApiWeight, MediaType};

pub(crate) const JSON_API: &str = "application/vnd.api+json";

/// The range of all media types.
const ANYTHING: &str = "*/*";

/// The media type of an answer with the results of a batch.
pub(crate) const JSON_API_ATOMIC: &str = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";

/// The media type of a page of the cursor profile.
pub(crate) const JSON_API_WITH_CURSOR: &str =
    "application/vnd.api+json;profile=\"https://jsonapi.org/profiles/ethanresnick/cursor-pagination\"";

/// The URI of the atomic operations extension.
pub(crate) const ATOMIC: &str = "https://jsonapi.org/ext/atomic";

/// The URI of the cursor pagination profile.
pub(crate) const CURSOR: &str = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination";

/// The content coding that changes nothing (RFC 9110 section 8.4.1).
const IDENTITY: &str = "identity";

/// What the client accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Whether the client knows the cursor pagination profile.
    pub(crate) cursor_profile: bool,
}

/// Which extension a path uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Plain JSON:API.
    Plain,
    /// Atomic operations: bodies must name the extension, and answers name it.
    Atomic,
}

impl Dialect {
    fn knows(self, extension: &str) -> bool {
        self == Self::Atomic && extension == ATOMIC
    }
}

/// Reads what the client accepts.
///
/// # Errors
///
/// 406 when the client accepts JSON:API only in unsupported forms. A request for other media types, or without the
/// header, is answered in JSON:API.
pub(crate) fn accept(headers: &HeaderMap, dialect: Dialect) -> Result<Accepted, ApiError> {
    let mut asked = false;
    let mut good = false;
    let mut accepted = Accepted::default();
    for value in fields(headers, &ACCEPT) {
        if value == ANYTHING || value == JSON_API {
            good |= value == JSON_API;
            continue;
        }
        // A value that can't be parsed names no media type and is ignored.
        let types = value.to_str().ok().and_then(MediaType::list).unwrap_or_default();
        for media_type in types.iter().filter(|it| it.is(JSON_API)) {
            asked = true;
            if media_type.is_supported(dialect) {
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
        return Err(ErrorObject::new(Code::NOT_ACCEPTABLE, detail).at_header("Accept").into());
    }
    Ok(accepted)
}

/// Whether a media type other than JSON:API is requested by name, with at least the weight of JSON:API.
pub(crate) fn prefers(headers: &HeaderMap, essence: &str) -> bool {
    let mut wanted = 0.0;
    let mut json_api = JsonApiWeight::default();
    for value in fields(headers, &ACCEPT) {
        // Most requests have one of these values, which need no parsing.
        if value == ANYTHING || value == JSON_API {
            let name = if value == JSON_API { JSON_API } else { ANYTHING };
            json_api.note(JsonApiWeight::of_name(name, 1.0));
            continue;
        }
        for media_type in value.to_str().ok().and_then(MediaType::list).unwrap_or_default() {
            if media_type.is(essence) {
                wanted = media_type.weight().max(wanted);
            } else {
                json_api.note(media_type.weight_of_json_api());
            }
        }
    }
    wanted > 0.0 && wanted >= json_api.weight
}

/// Checks the media type of a body before the body is read.
///
/// # Errors
///
/// 415 when the body is neither JSON:API nor plain JSON where the path accepts that, or when it is compressed.
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

/// Checks the Content-Type of a request whose body is ignored; only JSON:API's rules about its parameters apply.
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

/// The error for an unsupported content coding; it names the supported one too (RFC 9110 section 15.5.16).
fn unsupported_coding() -> ApiError {
    let detail = "a body is taken as it is, without a content coding";
    let error = ErrorObject::new(Code::UNSUPPORTED_MEDIA_TYPE, detail).at_header("Content-Encoding");
    ApiError::from(error).with_header(ACCEPT_ENCODING, HeaderValue::from_static(IDENTITY))
}

fn unsupported(found: String, dialect: Dialect) -> ApiError {
    let write = match dialect {
        Dialect::Plain => format!("{JSON_API} without parameters, or application/json"),
        Dialect::Atomic => format!("{JSON_API};ext=\"{ATOMIC}\""),
    };
    ErrorObject::new(Code::UNSUPPORTED_MEDIA_TYPE, format!("{found}; write {write}"))
        .at_header("Content-Type")
        .into()
}
