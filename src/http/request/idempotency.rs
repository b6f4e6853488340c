//! The name that a client gives to a write so that retries are carried out only once (`Idempotency-Key`,
//! draft-ietf-httpapi-idempotency-key-header).

use warp::http::{HeaderMap, HeaderName};

use crate::http::jsonapi::error::{Code, ErrorObject};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of a key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// Reads the key: a string of structured fields (RFC 9651 section 3.3.3) or the bare characters.
///
/// # Errors
///
/// 400 when the header is repeated, or the key is not 1 to 255 visible characters.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, ErrorObject> {
    let wrong =
        |detail: &'static str| Err(ErrorObject::new(Code::INVALID_DATA, detail).at_header("Idempotency-Key"));
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return wrong("the header is there more than once");
    }
    let text = value.to_str().unwrap_or_default().trim();
    let key = if text.starts_with('"') { unquoted(text) } else { Some(text.to_owned()) };
    match key {
        Some(key)
            if (1..=KEY_CHARS_MAX).contains(&key.len())
                && key.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok(Some(key))
        }
        Some(_) | None => wrong("a key has 1 to 255 visible characters of ASCII, in double quotes or bare"),
    }
}

/// Returns the content of a quoted string, if its closing quote is at the end.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(key),
            '\\' => key.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => key.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, ()> {
        let value = |value: &&str| (IDEMPOTENCY_KEY, HeaderValue::from_str(value).unwrap());
        key(&values.iter().map(value).collect()).map_err(|_| ())
    }

    #[test]
    fn a_key_is_read_with_and_without_quotes() {
        assert_eq!(read(&[]), Ok(None));
        for (value, found) in [
            ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
            ("\"8e03978e\"", "8e03978e"),
            (" \"a\\\"b\\\\c\" ", "a\"b\\c"),
            ("a,b;c", "a,b;c"),
        ] {
            assert_eq!(read(&[value]), Ok(Some(found.into())), "{value}");
        }
        assert_eq!(read(&[&"x".repeat(255)]), Ok(Some("x".repeat(255))));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for value in ["", "\"\"", "a b", "\"a b\"", "\"a", "\"a\";p=1", "\"a\\n\"", "\"", &"x".repeat(256)] {
            assert_eq!(read(&[value]), Err(()), "{value}");
        }
        assert_eq!(read(&["a", "a"]), Err(()));
    }
}
