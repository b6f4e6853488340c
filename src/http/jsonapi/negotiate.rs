//! Media types: what a body is written in, and what the caller can read (JSON:API 1.1 sections 5
//! and 6).
//!
//! Extension and profile lists are quoted strings that may hold commas, semicolons and blanks, so
//! the headers are parsed and never split. Profiles are hints: unknown ones are ignored.

use warp::http::header::{ACCEPT, CONTENT_TYPE};
use warp::http::{HeaderMap, HeaderName};

use super::error::{ApiError, Code, ErrorObject};

/// The media type of JSON:API.
pub(in crate::http) const JSON_API: &str = "application/vnd.api+json";

/// The atomic operations extension.
pub(in crate::http) const ATOMIC: &str = "https://jsonapi.org/ext/atomic";

/// The cursor pagination profile.
pub(in crate::http) const CURSOR: &str = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination";

/// What the answer may be written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::http) struct Accepted {
    /// The caller knows the cursor pagination profile.
    pub(in crate::http) cursor_profile: bool,
}

/// What a path does with extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Dialect {
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
pub(in crate::http) fn accept(headers: &HeaderMap, dialect: Dialect) -> Result<Accepted, ApiError> {
    let mut asked = false;
    let mut good = false;
    let mut accepted = Accepted::default();
    for value in headers.get_all(ACCEPT) {
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
pub(in crate::http) fn prefers(headers: &HeaderMap, essence: &str) -> bool {
    let mut wanted = 0.0;
    let mut json_api = 0.0;
    for value in headers.get_all(ACCEPT) {
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
/// 415 when it is something else than JSON:API, or JSON where that is taken for it.
pub(in crate::http) fn content_type(
    headers: &HeaderMap,
    dialect: Dialect,
    has_body: bool,
) -> Result<(), ApiError> {
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
        Dialect::Plain => media_type.is_spoken(dialect) || media_type.is_plain_json(),
        Dialect::Atomic => {
            media_type.is(JSON_API)
                && media_type.is_spoken(dialect)
                && media_type.uris("ext").any(|uri| uri == ATOMIC)
        }
    };
    if (media_type.is(JSON_API) || media_type.is("application/json")) && spoken {
        Ok(())
    } else {
        Err(unsupported(format!("{sent:?} is not taken here"), dialect))
    }
}

/// Checks the Content-Type of a request whose body is of no interest: only JSON:API's own rules
/// about its parameters hold.
///
/// # Errors
///
/// 415 as above.
pub(in crate::http) fn content_type_without_body(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(sent) = single(headers, &CONTENT_TYPE)? else { return Ok(()) };
    if sent == JSON_API {
        return Ok(());
    }
    match MediaType::list(sent).unwrap_or_default().first() {
        Some(media_type) if media_type.is(JSON_API) && !media_type.is_spoken(Dialect::Plain) => {
            Err(unsupported(format!("{sent:?} is not taken here"), Dialect::Plain))
        }
        Some(_) | None => Ok(()),
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    let text = first.map(|value| value.to_str());
    match (text, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        (Some(_), _) => Err(unsupported("the header is not one media type".to_owned(), Dialect::Plain)),
    }
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

/// A media type with its parameters.
#[derive(Debug, PartialEq, Eq)]
struct MediaType<'a> {
    essence: &'a str,
    /// Names in lower case; values without quotes and escapes.
    parameters: Vec<(String, String)>,
}

impl<'a> MediaType<'a> {
    /// Parses a list of media types (RFC 9110 sections 5.6, 8.3.1 and 12.5.1); `None` if it is
    /// none.
    fn list(text: &'a str) -> Option<Vec<Self>> {
        let mut scan = Scan { rest: text };
        let mut types = Vec::new();
        loop {
            scan.blanks();
            if scan.rest.is_empty() {
                return Some(types);
            }
            if !scan.eat(',') {
                types.push(scan.media_type()?);
                scan.blanks();
                if !scan.rest.is_empty() && !scan.eat(',') {
                    return None;
                }
            }
        }
    }

    fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    /// The URIs in a parameter, which are separated by blanks.
    fn uris(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let values = self.parameters.iter().filter(move |(found, _)| found == name);
        values.flat_map(|(_, value)| value.split_ascii_whitespace())
    }

    /// Whether it is JSON:API with no parameter but `ext`, `profile` and the weight `q`, no
    /// extension that is unknown, and not refused by a weight of zero.
    fn is_spoken(&self, dialect: Dialect) -> bool {
        self.is(JSON_API)
            && self.parameters.iter().all(|(name, value)| match name.as_str() {
                "profile" => true,
                "ext" => value.split_ascii_whitespace().all(|uri| dialect.knows(uri)),
                "q" => value.parse::<f32>().is_ok_and(|weight| weight > 0.0),
                _ => false,
            })
    }

    /// How much it is wanted (RFC 9110 section 12.4.2); nothing that can't be read is wanted.
    fn weight(&self) -> f32 {
        let weight = self.parameters.iter().find(|(name, _)| name == "q");
        weight.map_or(1.0, |(_, weight)| weight.parse().unwrap_or(0.0))
    }

    fn is_plain_json(&self) -> bool {
        self.is("application/json") && self.parameters.iter().all(|(name, _)| name == "charset")
    }
}

/// The part of a header that has not been read yet.
struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c: char| !is_token_char(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn media_type(&mut self) -> Option<MediaType<'a>> {
        let start = self.rest;
        self.token()?;
        if !self.eat('/') {
            return None;
        }
        self.token()?;
        let essence = &start[..start.len() - self.rest.len()];
        let mut parameters = Vec::new();
        loop {
            self.blanks();
            if !self.eat(';') {
                return Some(MediaType { essence, parameters });
            }
            self.blanks();
            if !self.rest.is_empty() && !self.rest.starts_with([';', ',']) {
                parameters.push(self.parameter()?);
            }
        }
    }

    fn parameter(&mut self) -> Option<(String, String)> {
        let name = self.token()?.to_ascii_lowercase();
        if !self.eat('=') {
            return None;
        }
        let value = if self.eat('"') { self.quoted()? } else { self.token()?.to_owned() };
        Some((name, value))
    }

    /// The rest of a quoted string.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(chars.next()?.1),
                c => text.push(c),
            }
        }
        None
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use warp::http::{HeaderValue, StatusCode};

    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap()))
            .collect()
    }

    fn status<T>(result: Result<T, ApiError>) -> u16 {
        result.map_or_else(|error| error.status(), |_| StatusCode::OK).as_u16()
    }

    #[test]
    fn answers_are_given_to_whoever_can_read_them() {
        use Dialect::{Atomic, Plain};
        for (dialect, accepts, code) in [
            (Plain, &[][..], 200),
            (Plain, &["*/*"], 200),
            (Plain, &["application/*"], 200),
            (Plain, &["application/json"], 200),
            (Plain, &["text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"], 200),
            (Plain, &["application/vnd.api+json"], 200),
            (Plain, &["Application/Vnd.API+JSON"], 200),
            (Plain, &["application/vnd.api+json; q=0.1"], 200),
            (Plain, &["application/vnd.api+json;q=0"], 406),
            (Plain, &["application/vnd.api+json; charset=utf-8"], 406),
            (Plain, &["application/vnd.api+json; charset=utf-8, */*"], 406),
            (Plain, &["application/vnd.api+json; charset=utf-8, application/vnd.api+json"], 200),
            (Plain, &["application/vnd.api+json; charset=utf-8", "application/vnd.api+json;q=0.5"], 200),
            (Plain, &["application/vnd.api+json;version=1, application/vnd.api+json;ext=\"x\""], 406),
            (Plain, &["application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\""], 406),
            (Plain, &["application/vnd.api+json;profile=\"https://a.org/p,q;r s\""], 200),
            (Plain, &["application/vnd.api+json;PROFILE=\"https://a.org\";q=1"], 200),
            (Plain, &["application/vnd.api+json;profile=\"https://a.org\\\"\";charset=x"], 406),
            (Plain, &["text/plain;a=\"application/vnd.api+json;charset=x\""], 200),
            (Plain, &[";;;"], 200),
            (Plain, &["\u{e4}"], 200),
            (Plain, &[""], 200),
            (Atomic, &[], 200),
            (Atomic, &["*/*"], 200),
            (Atomic, &["application/vnd.api+json"], 200),
            (Atomic, &["application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\""], 200),
            (Atomic, &["application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic https://x.org\""], 406),
            (Atomic, &["application/vnd.api+json;ext=\"https://jsonapi.org/ext/Atomic\""], 406),
        ] {
            assert_eq!(status(accept(&headers(ACCEPT, accepts), dialect)), code, "{dialect:?} {accepts:?}");
        }
    }

    #[test]
    fn another_media_type_has_to_be_named() {
        for (accept, preferred) in [
            ("text/event-stream", true),
            ("Text/Event-Stream;charset=utf-8", true),
            ("text/event-stream, application/vnd.api+json;q=0.5", true),
            ("application/vnd.api+json;q=0.5, text/event-stream;q=0.5", true),
            ("text/event-stream;q=0.4, application/vnd.api+json;q=0.5", false),
            ("application/vnd.api+json;charset=x, text/event-stream;q=0.1", true),
            ("text/event-stream;q=0", false),
            ("text/event-stream;q=x", false),
            ("text/*", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(prefers(&headers(ACCEPT, &[accept]), "text/event-stream"), preferred, "{accept}");
        }
    }

    #[test]
    fn a_known_profile_is_noticed() {
        for (text, noticed) in [
            (format!("application/vnd.api+json;profile=\"{CURSOR}\""), true),
            (format!("application/vnd.api+json;profile=\"https://a.org {CURSOR}\", */*"), true),
            (
                format!("application/vnd.api+json;charset=x;profile=\"{CURSOR}\", application/vnd.api+json"),
                false,
            ),
            ("application/vnd.api+json".to_owned(), false),
        ] {
            let accepted = accept(&headers(ACCEPT, &[&text]), Dialect::Plain).unwrap();
            assert_eq!(accepted.cursor_profile, noticed, "{text}");
        }
    }

    #[test]
    fn bodies_are_taken_in_json_api_and_in_json() {
        use Dialect::{Atomic, Plain};
        let atomic = "application/vnd.api+json;ext=\"https://jsonapi.org/ext/atomic\"";
        for (dialect, types, has_body, code) in [
            (Plain, &["application/vnd.api+json"][..], true, 200),
            (Plain, &["APPLICATION/vnd.api+json"], true, 200),
            (Plain, &["application/json"], true, 200),
            (Plain, &["application/json; charset=utf-8"], true, 200),
            (Plain, &["application/json; version=1"], true, 415),
            (Plain, &["application/vnd.api+json; charset=utf-8"], true, 415),
            (Plain, &["application/vnd.api+json; version=1"], true, 415),
            (Plain, &["application/vnd.api+json; ext=\"https://a.org\""], true, 415),
            (Plain, &[atomic], true, 415),
            (Plain, &["application/vnd.api+json; profile=\"https://a.org\""], true, 200),
            (Plain, &["application/vnd.api+json; profile=https"], true, 200),
            (Plain, &["application/vnd.api+json; profile"], true, 415),
            (Plain, &["application/vnd.api+json; profile=\"open"], true, 415),
            (Plain, &["application/vnd.api+json, application/json"], true, 415),
            (Plain, &["application/vnd.api+json", "application/json"], true, 415),
            (Plain, &["text/plain"], true, 415),
            (Plain, &["application/x-www-form-urlencoded"], true, 415),
            (Plain, &["multipart/form-data; boundary=x"], true, 415),
            (Plain, &["json"], true, 415),
            (Plain, &[""], true, 415),
            (Plain, &["\u{e4}"], true, 415),
            (Plain, &[], true, 415),
            (Plain, &[], false, 200),
            (Atomic, &[atomic], true, 200),
            (Atomic, &["application/vnd.api+json; EXT=\"https://jsonapi.org/ext/atomic\""], true, 200),
            (Atomic, &["application/vnd.api+json"], true, 415),
            (Atomic, &["application/json"], true, 415),
            (Atomic, &[], false, 415),
        ] {
            let headers = headers(CONTENT_TYPE, types);
            assert_eq!(status(content_type(&headers, dialect, has_body)), code, "{dialect:?} {types:?}");
        }
    }

    #[test]
    fn a_request_without_a_body_may_carry_a_content_type() {
        for (types, code) in [
            (&[][..], 200),
            (&["application/vnd.api+json"], 200),
            (&["application/vnd.api+json;charset=utf-8"], 415),
            (&["application/vnd.api+json;ext=\"https://a.org\""], 415),
            (&["text/plain"], 200),
            (&["application/json; charset=utf-8"], 200),
        ] {
            assert_eq!(status(content_type_without_body(&headers(CONTENT_TYPE, types))), code, "{types:?}");
        }
    }
}
