//! What a media collection accepts: a MIME type, a range of them, or a file extension.

use crate::domain::excerpt;

/// One entry of `accept`: `image/png`, `image/*`, `*/*` or `.pdf`.
///
/// The form is that of the `accept` attribute of HTML (WHATWG HTML, "File Upload state"): a media
/// type without parameters whose names follow RFC 6838 section 4.2, or a dot and an extension.
///
/// ```
/// use collectory::MediaType;
///
/// assert!(MediaType::parse("image/svg+xml").is_ok());
/// assert!(MediaType::parse("jpeg").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType(String);

impl MediaType {
    /// Maximum length of a type, a subtype or an extension, in bytes (RFC 6838 section 4.2).
    pub const NAME_BYTES_MAX: usize = 127;

    /// Parses one entry of `accept`.
    ///
    /// # Errors
    ///
    /// Returns one sentence for the caller: what was found and what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let good = match (text.strip_prefix('.'), text.split_once('/')) {
            (Some(extension), _) => is_name(extension),
            (None, Some(("*", "*"))) => true,
            (None, Some((main, sub))) => is_name(main) && (sub == "*" || is_name(sub)),
            (None, None) => false,
        };
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{:?} is neither a media type such as \"image/png\" or \"image/*\" nor an extension such as \".pdf\"",
                excerpt(text)
            ))
        }
    }

    /// The entry as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text is a `restricted-name` of RFC 6838 section 4.2.
fn is_name(text: &str) -> bool {
    text.len() <= MediaType::NAME_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
}

impl From<MediaType> for String {
    fn from(media_type: MediaType) -> Self {
        media_type.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_ranges_and_extensions_are_accepted() {
        for text in [
            "image/png",
            "image/*",
            "*/*",
            ".pdf",
            ".tar.gz",
            "image/svg+xml",
            "application/vnd.ms-excel",
            "Image/PNG",
        ] {
            assert_eq!(MediaType::parse(text).map(String::from), Ok(text.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            ".",
            "/",
            "image/",
            "/png",
            "image",
            "*",
            "*/png",
            "image/png; q=1",
            "image/a/b",
            "im age/png",
            "..pdf",
            ".a/b",
            "image/*x",
        ] {
            assert!(MediaType::parse(text).is_err(), "{text:?}");
        }
    }
}
