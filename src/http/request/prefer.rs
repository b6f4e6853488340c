//! Client preferences (`Prefer`, RFC 7240) that the service supports.

use warp::http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::jsonapi::error::{Code, ErrorObject};

/// The request header.
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The answer's header with the applied preferences.
pub(crate) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The preferences of a request; unknown ones are ignored, as the RFC requires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// `dry-run`: report what would happen and change nothing.
    pub(crate) dry_run: bool,
    /// `merge=attributes`: accept an update of an older version unless others changed the same attributes.
    pub(crate) merge_attributes: bool,
}

impl Preferences {
    /// Reads the preferences of a request; the first of several with the same name counts.
    ///
    /// # Errors
    ///
    /// 400 for a `dry-run` with anything behind it: a client that sends `dry-run=true` must not cause a real change.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ErrorObject> {
        let mut preferences = Self::default();
        let mut merge = None;
        for value in headers.get_all(PREFER) {
            let text = value.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
            for (name, value) in split(&text, ',').into_iter().map(name_and_value) {
                match name.as_str() {
                    "dry-run" if value.is_empty() => preferences.dry_run = true,
                    name if name.split_ascii_whitespace().any(|word| word == "dry-run") => {
                        let detail = "the preference `dry-run` stands alone and takes no value";
                        return Err(ErrorObject::new(Code::BAD_REQUEST, detail).at_header("Prefer"));
                    }
                    "merge" => merge = merge.or(Some(value)),
                    _ => {}
                }
            }
        }
        preferences.merge_attributes = merge.as_deref() == Some("attributes");
        Ok(preferences)
    }

    /// Returns the value of `Preference-Applied`.
    pub(crate) const fn applied(self) -> Option<HeaderValue> {
        match (self.dry_run, self.merge_attributes) {
            (false, false) => None,
            (true, false) => Some(HeaderValue::from_static("dry-run")),
            (false, true) => Some(HeaderValue::from_static("merge=attributes")),
            (true, true) => Some(HeaderValue::from_static("dry-run, merge=attributes")),
        }
    }
}

/// Returns name and value of one preference, without parameters and quotes.
fn name_and_value(preference: &str) -> (String, String) {
    let preference = split(preference, ';').first().copied().unwrap_or_default();
    let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    (name.trim().to_ascii_lowercase(), bare.to_owned())
}

/// Splits at separators outside quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        let ends = c == separator && !quoted;
        match c {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
        ends
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&'static str]) -> Result<(bool, bool), ()> {
        let values = values.iter().map(|value| (PREFER, HeaderValue::from_static(value)));
        let read = Preferences::of(&values.collect()).map_err(|_| ())?;
        Ok((read.dry_run, read.merge_attributes))
    }

    #[test]
    fn known_preferences_are_found_among_others() {
        for (values, found) in [
            (&[][..], (false, false)),
            (&["dry-run"], (true, false)),
            (&["Dry-Run; x=1"], (true, false)),
            (&["dry-run=\"\""], (true, false)),
            (&["merge=attributes"], (false, true)),
            (&["merge=\"attributes\""], (false, true)),
            (&["return=minimal, merge=attributes , dry-run"], (true, true)),
            (&["respond-async", "dry-run"], (true, false)),
            (&["merge=lines, merge=attributes"], (false, false)),
            (&["note=\"a, dry-run\""], (false, false)),
            (&["note=\"a\\\", dry-run\""], (false, false)),
            (&["dry-runs, x-dry-run", ""], (false, false)),
        ] {
            assert_eq!(read(values), Ok(found), "{values:?}");
        }
    }

    #[test]
    fn a_dry_run_that_may_be_meant_otherwise_is_refused() {
        for value in
            ["dry-run=true", "dry-run=false", "dry-run=\"1\"", "dry-run dry-run", "dry-run merge=lines"]
        {
            assert_eq!(read(&[value]), Err(()), "{value}");
        }
    }
}
