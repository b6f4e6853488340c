//! The paths of routes and their parameters.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use uuid::Uuid;

use crate::config::BasePath;
use crate::http::jsonapi::document::COLLECTIONS;
use crate::http::jsonapi::error::{ApiError, Code};

/// The path of all collections.
pub(crate) const ALL_COLLECTIONS: Template = Template::new(COLLECTIONS);

/// The path of one collection.
pub(crate) const ONE_COLLECTION: Template = Template::new("/collections/{key}");

/// The path of a route, in which at most one segment is a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    /// The path as in the OpenAPI document (`/collections/{key}`). It also labels the route in metrics, whose
    /// number of labels is thus bounded.
    pub(crate) text: &'static str,
    /// The text before the parameter, or the whole path without one.
    before: &'static str,
    /// The text after the parameter.
    after: Option<&'static str>,
}

impl Template {
    pub(crate) const fn new(text: &'static str) -> Self {
        let (mut open, bytes) = (0, text.as_bytes());
        while open < bytes.len() && bytes[open] != b'{' {
            open += 1;
        }
        let (before, varying) = text.split_at(open);
        let (mut close, bytes) = (0, varying.as_bytes());
        while close < bytes.len() && bytes[close] != b'}' {
            close += 1;
        }
        let after = if close < bytes.len() { Some(varying.split_at(close + 1).1) } else { None };
        Self { text, before, after }
    }

    /// Returns the parameter of a path below the base path, empty without one, or `None` if the path does not match.
    pub(crate) fn parameter_of(&self, path: &str, base: &BasePath) -> Option<String> {
        self.match_segment(decode_segments(path).strip_prefix(base.as_str())?).map(str::to_owned)
    }

    /// Returns the segment at the parameter, empty without one, or `None` if the path does not match.
    pub(super) fn match_segment<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.before)?;
        match self.after {
            None => below.is_empty().then_some(""),
            // Checking a few bytes one by one is cheaper than a search made for long texts.
            Some(after) => below.strip_suffix(after).filter(|it| !it.bytes().any(|byte| byte == b'/')),
        }
    }
}

/// The id of an event as it appears in a path. It may be any text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventId(pub(super) String);

impl EventId {
    /// Returns the UUID if the id is one in its canonical form.
    pub(crate) fn uuid(&self) -> Option<Uuid> {
        Uuid::try_parse(&self.0).ok().filter(|id| id.to_string() == self.0)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::new(Code::NOT_FOUND, format!("Event '{}' not found.", self.0))
    }
}

/// Decodes the segments of a path. Segments whose decoded text contains `/` or `%` stay encoded, because that text
/// would read as another path or be decoded again: `%2F` is a character of a segment, not a separator.
pub(super) fn decode_segments(path: &str) -> Cow<'_, str> {
    if !path.bytes().any(|byte| byte == b'%') {
        return Cow::Borrowed(path);
    }
    let plain = |segment| decoded(segment).filter(|text| !text.contains(['/', '%']));
    let segments: Vec<_> = path.split('/').map(|it| plain(it).unwrap_or(Cow::Borrowed(it))).collect();
    Cow::Owned(segments.join("/"))
}

/// Decodes one segment once. A `/` in it belongs to the segment.
pub(super) fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.bytes().any(|byte| byte == b'%') {
        percent_decode_str(segment).decode_utf8().ok()
    } else {
        Some(Cow::Borrowed(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(route: &'static str, path: &str) -> Option<String> {
        Template::new(route).match_segment(&decode_segments(path)).map(str::to_owned)
    }

    #[test]
    fn a_path_is_its_route_segment_by_segment() {
        assert_eq!(captured("/collections", "/collections").as_deref(), Some(""));
        assert_eq!(captured("/collections", "/%63ollections").as_deref(), Some(""));
        assert_eq!(
            captured("/collections/{key}/events", "/collections/a%2fb/events").as_deref(),
            Some("a%2fb")
        );
        for other in
            ["", "/", "/collections/", "/collections/a", "collections", "//collections", "/collections%"]
        {
            assert_eq!(captured("/collections", other), None, "{other}");
        }
        for other in ["/collections", "/collections/a/b", "/collections/a/events"] {
            assert_eq!(captured("/collections/{key}", other), None, "{other}");
        }
        assert_eq!(captured("/collections/{key}/events", "/collections/events"), None);
    }

    #[test]
    fn a_segment_is_decoded_once_and_stays_one() {
        assert_eq!(decode_segments("/%61%2D/%2f/%2561/%C3%a4/%ff"), "/a-/%2f/%2561/\u{e4}/%ff");
    }
}
