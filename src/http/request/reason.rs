//! The reason that a client gives for a change, for the commit message.
//!
//! | place | for |
//! |---|---|
//! | `meta.reason` of the document | any client, in any language |
//! | `Commit-Message` | curl; UTF-8, or else Latin-1, which is what browsers send |
//! | `Commit-Message-Encoded` | scripts whose headers are ASCII; UTF-8, percent-encoded as in a URL |
//!
//! A blank reason counts as none. Several reasons must be equal.

use percent_encoding::percent_decode;
use warp::http::{HeaderMap, HeaderName};

use crate::domain::{REASON_BYTES_MAX, Value};
use crate::http::jsonapi::error::{Code, ErrorObject};
use crate::http::jsonapi::request;

/// The header with the plain reason.
pub(crate) const COMMIT_MESSAGE: HeaderName = HeaderName::from_static("commit-message");

/// The header with the percent-encoded reason.
pub(crate) const COMMIT_MESSAGE_ENCODED: HeaderName = HeaderName::from_static("commit-message-encoded");

/// The reason in one place, if any, or the fault there.
type Given = Result<Option<String>, ErrorObject>;

/// Returns the reason that a request gives, and adds its faults to `faults`. An unreadable body gives none.
pub(crate) fn of(
    headers: &HeaderMap,
    document: Option<&Value>,
    faults: &mut Vec<ErrorObject>,
) -> Option<String> {
    let (plain, encoded) = (At::Header("Commit-Message"), At::Header("Commit-Message-Encoded"));
    let places = [
        (in_header(headers, &COMMIT_MESSAGE, plain, utf8_or_latin1), plain),
        (in_header(headers, &COMMIT_MESSAGE_ENCODED, encoded, percent_decoded), encoded),
        (in_document(document), At::Document),
    ];
    let mut reason: Option<String> = None;
    for (given, at) in places {
        let checked = given.and_then(|given| {
            let Some(text) = given.filter(|text| !text.is_empty()) else { return Ok(()) };
            at.check(&text)?;
            if reason.as_ref().is_some_and(|other| *other != text) {
                return Err(at.fault("the request gives another reason too".to_owned()));
            }
            reason = Some(text);
            Ok(())
        });
        faults.extend(checked.err());
    }
    reason
}

/// Checks a reason that is not submitted with a change.
///
/// # Errors
///
/// 400.
pub(crate) fn check(text: &str) -> Result<(), ErrorObject> {
    At::Document.check(text)
}

/// Where a reason is given.
#[derive(Clone, Copy)]
enum At {
    Header(&'static str),
    Document,
}

impl At {
    fn check(self, text: &str) -> Result<(), ErrorObject> {
        if text.len() <= REASON_BYTES_MAX {
            return Ok(());
        }
        Err(self.fault(format!("a reason has at most {REASON_BYTES_MAX} bytes, this one has {}", text.len())))
    }

    fn fault(self, detail: String) -> ErrorObject {
        match self {
            Self::Header(name) => ErrorObject::new(Code::INVALID_DATA, detail).at_header(name),
            Self::Document => ErrorObject::invalid("/meta/reason", detail),
        }
    }
}

fn in_header(headers: &HeaderMap, name: &HeaderName, at: At, read: fn(&[u8]) -> Option<String>) -> Given {
    let wrong = |detail: &str| Err(at.fault(detail.to_owned()));
    let mut reason: Option<String> = None;
    for value in headers.get_all(name) {
        let Some(text) = read(value.as_bytes()) else {
            return wrong("the reason is not percent-encoded UTF-8; a percent sign itself is written `%25`");
        };
        let text = text.trim();
        if reason.as_ref().is_some_and(|other| other != text) {
            return wrong("the header is there more than once, with different reasons");
        }
        reason = Some(text.to_owned());
    }
    Ok(reason)
}

fn utf8_or_latin1(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    Some(text.unwrap_or_else(|_| bytes.iter().copied().map(char::from).collect()))
}

fn percent_decoded(bytes: &[u8]) -> Option<String> {
    let is_byte =
        |behind: &[u8]| matches!(behind, [a, b, ..] if [a, b].iter().all(|it| it.is_ascii_hexdigit()));
    let is_encoded = bytes.split(|byte| *byte == b'%').skip(1).all(is_byte);
    percent_decode(bytes).decode_utf8().ok().filter(|_| is_encoded).map(Into::into)
}

/// Ignores the rest of `meta`; other faults of the body are reported where the body is used.
fn in_document(document: Option<&Value>) -> Given {
    match document.and_then(|document| document.get("meta")?.get("reason")) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.trim().to_owned())),
        Some(other) => {
            Err(At::Document.fault(format!("expected a string, found {}", request::type_with_article(other))))
        }
    }
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    type Case<'a> = (&'a [(HeaderName, &'a [u8])], &'a str, Result<Option<String>, usize>);

    fn read(headers: &[(HeaderName, &[u8])], body: &str) -> Result<Option<String>, usize> {
        let named =
            |(name, value): &(HeaderName, &[u8])| (name.clone(), HeaderValue::from_bytes(value).unwrap());
        let headers: HeaderMap = headers.iter().map(named).collect();
        let mut faults = Vec::new();
        let reason = of(&headers, request::parse(body.as_bytes(), 64).ok().as_ref(), &mut faults);
        if faults.is_empty() { Ok(reason) } else { Err(faults.len()) }
    }

    #[test]
    fn a_reason_is_read_wherever_it_stands() {
        const PLAIN: HeaderName = COMMIT_MESSAGE;
        const ENCODED: HeaderName = COMMIT_MESSAGE_ENCODED;
        let some = |text: &str| Ok(Some(text.to_owned()));
        let why = r#"{"meta":{"reason":"why"}}"#;
        let long = "x".repeat(REASON_BYTES_MAX);
        let too_long = "x".repeat(REASON_BYTES_MAX + 1);
        let cases: [Case<'_>; 25] = [
            (&[], "", Ok(None)),
            (&[(PLAIN, b"  ")], "", Ok(None)),
            (&[(PLAIN, "Fr\u{fc}hjahrsputz".as_bytes())], "", some("Fr\u{fc}hjahrsputz")),
            (&[(PLAIN, b"Fr\xfchjahrsputz")], "", some("Fr\u{fc}hjahrsputz")),
            (&[(ENCODED, b"%E6%97%A5+%E6%9C%AC%20")], "", some("\u{65e5}+\u{672c}")),
            (&[(ENCODED, b"%ff")], "", Err(1)),
            (&[(ENCODED, b"100%25")], "", some("100%")),
            (&[(ENCODED, b"%zz")], "", Err(1)),
            (&[(ENCODED, b"100%")], "", Err(1)),
            (&[(ENCODED, b"%4")], "", Err(1)),
            (&[(PLAIN, long.as_bytes())], "", some(&long)),
            (&[(PLAIN, too_long.as_bytes())], "", Err(1)),
            (&[(PLAIN, &[0xfc; REASON_BYTES_MAX])], "", Err(1)),
            (&[], why, some("why")),
            (&[], r#"{"meta":{"other":1}}"#, Ok(None)),
            (&[], r#"{"meta":{"reason":null}}"#, Err(1)),
            (&[], r#"{"meta":"reason"}"#, Ok(None)),
            (&[], "nonsense", Ok(None)),
            (&[(PLAIN, b"why"), (ENCODED, b" why")], why, some("why")),
            (&[(PLAIN, b" ")], why, some("why")),
            (&[(PLAIN, b"because")], why, Err(1)),
            (&[(PLAIN, b"a"), (ENCODED, b"b")], why, Err(2)),
            (&[(PLAIN, b"a"), (PLAIN, b"a")], "", some("a")),
            (&[(ENCODED, b"a"), (ENCODED, b"%61")], "", some("a")),
            (&[(PLAIN, b"a"), (PLAIN, b"b")], "", Err(1)),
        ];
        for (headers, body, reason) in cases {
            assert_eq!(read(headers, body), reason, "{headers:?} {body}");
        }
    }
}
