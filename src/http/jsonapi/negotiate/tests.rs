//! Which requests are answered, and which bodies are accepted.

use warp::http::{HeaderValue, StatusCode};

use crate::http::jsonapi::negotiate::*;

fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
    values.iter().map(|value| (name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap())).collect()
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
        ("application/json, text/event-stream;q=0.5", false),
        ("application/json;q=0.5, text/event-stream", true),
        ("text/event-stream;q=0.1, */*;q=1", false),
        ("text/event-stream;q=0.3,*/*;q=0.5", false),
        ("text/event-stream, */*", true),
        ("text/event-stream;q=0.5, application/*;q=0.4, */*;q=0.8", true),
        ("text/event-stream;q=0.5, application/vnd.api+json;q=0.4, */*", true),
        ("application/vnd.api+json;charset=x, text/event-stream;q=0.1, */*", true),
        ("text/html, text/event-stream;q=0.5", true),
        ("text/event-stream;q=0", false),
        ("text/event-stream;q=x", false),
        ("text/*", false),
        ("*/*", false),
        ("", false),
    ] {
        let of_one = prefers(&headers(ACCEPT, &[accept]), "text/event-stream");
        let of_several: Vec<_> = accept.split(", ").collect();
        let of_several = prefers(&headers(ACCEPT, &of_several), "text/event-stream");
        assert_eq!((of_one, of_several), (preferred, preferred), "{accept}");
    }
}

#[test]
fn a_known_profile_is_noticed() {
    for (text, noticed) in [
        (format!("application/vnd.api+json;profile=\"{CURSOR}\""), true),
        (format!("application/vnd.api+json;profile=\"https://a.org {CURSOR}\", */*"), true),
        (format!("application/vnd.api+json;charset=x;profile=\"{CURSOR}\", application/vnd.api+json"), false),
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
        (Plain, &["application/vnd.api+json; q=1"], true, 415),
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
fn a_compressed_body_is_not_taken() {
    let refusal = |coding| {
        let mut headers = headers(CONTENT_TYPE, &[JSON_API]);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        content_type(&headers, Dialect::Plain, true).err()
    };
    assert!(refusal("Identity").is_none());
    for coding in ["gzip", "identity, gzip", "br"] {
        let refusal = refusal(coding).unwrap();
        assert_eq!(refusal.status(), 415);
        assert_eq!(refusal.headers(), [(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
    }
}

#[test]
fn a_request_without_a_body_may_carry_a_content_type() {
    for (types, code) in [
        (&[][..], 200),
        (&["application/vnd.api+json"], 200),
        (&["application/vnd.api+json;charset=utf-8"], 415),
        (&["application/vnd.api+json;ext=\"https://a.org\""], 415),
        (&["application/vnd.api+json;q=0.5"], 415),
        (&["text/plain"], 200),
        (&["application/json; charset=utf-8"], 200),
    ] {
        assert_eq!(status(content_type_without_body(&headers(CONTENT_TYPE, types))), code, "{types:?}");
    }
}
