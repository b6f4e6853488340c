//! Compression of the whole list and of web pages, for clients that accept it (`Accept-Encoding`, RFC 9110 section
//! 12.5.3).

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use warp::http::HeaderMap;
use warp::http::header::ACCEPT_ENCODING;

/// The minimum size of a body to compress. A smaller one fits into a packet or two as it is.
pub(crate) const BYTES_MIN: usize = 4_096;

/// The suffix of the compressed form's entity tag, because an entity tag identifies one form.
pub(crate) const TAG_SUFFIX: &str = "-gzip";

/// Reports whether the client accepts gzip and does not prefer the uncompressed form.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        for coding in value.to_str().unwrap_or_default().split(',') {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = quality(parameters);
            match name.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => gzip = Some(weight),
                "identity" => identity = Some(weight),
                "*" => any = Some(weight),
                _ => {}
            }
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= identity.unwrap_or(0.0)
}

/// Returns the weight (`q`) of a coding, or 0 if it can't be parsed.
fn quality(parameters: &str) -> f32 {
    let q = parameters.trim();
    let value = q.strip_prefix("q=").or_else(|| q.strip_prefix("Q="));
    match value {
        None if q.is_empty() => 1.0,
        None => 0.0,
        Some(value) => value.trim().parse().unwrap_or(0.0),
    }
}

/// Compresses fast rather than small, because the list is compressed again after every change, and a page for
/// every request.
pub(crate) fn gzip(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body).expect("writing to memory can't fail");
    encoder.finish().expect("writing to memory can't fail").into()
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_ask_for_it() {
        for (value, taken) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("*", true),
            ("x-gzip", true),
            ("gzip;q=0", false),
            ("*, gzip;q=0", false),
            ("br", false),
            ("", false),
            ("gzip;q=x", false),
            ("identity, gzip;q=0.5", false),
            ("identity;q=0.2, gzip;q=0.5", true),
        ] {
            let header = (ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
            assert_eq!(accepts_gzip(&HeaderMap::from_iter([header])), taken, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
