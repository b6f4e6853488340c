//! Cursors: the place of an item in an order, as text.
//!
//! A cursor holds the sort values of its item and not its place in a list, so walking on works
//! although the item is gone or others have come.

use crate::domain::Key;
use crate::engine::Entry;
use crate::http::jsonapi::page::sort::Sort;

/// Where an item stands, or stood: its sort values and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    values: Vec<String>,
    key: Key,
}

impl Cursor {
    /// The place of an entry.
    pub(crate) fn of(entry: &Entry, sort: &Sort) -> Self {
        Self { values: sort.values(entry), key: entry.collection.key().clone() }
    }

    /// The sort values, without the key.
    pub(crate) fn values(&self) -> &[String] {
        &self.values
    }

    /// The key, which settles every tie.
    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    /// The cursor as text: opaque to clients, bound to the order that it was made for.
    pub(crate) fn encode(&self, sort: &Sort) -> String {
        let shown = sort.shown();
        let parts: Vec<&str> = std::iter::once(shown.as_str())
            .chain(self.values.iter().map(String::as_str))
            .chain([self.key.as_str()])
            .collect();
        base64url(serde_json::to_string(&parts).expect("texts can be written as JSON").as_bytes())
    }

    /// Reads a cursor of this order.
    pub(crate) fn decode(text: &str, sort: &Sort) -> Option<Self> {
        let mut parts: Vec<String> = serde_json::from_slice(&from_base64url(text)?).ok()?;
        let key = Key::parse(&parts.pop()?).ok()?;
        if parts.is_empty() || parts.remove(0) != sort.shown() || parts.len() != sort.value_count() {
            return None;
        }
        Some(Self { values: parts, key })
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 for URLs without padding (RFC 4648 section 5).
fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        if chunk.len() == 1 {
            return None;
        }
        let mut bits = 0_u32;
        for index in 0..4 {
            let value = match chunk.get(index) {
                None => 0,
                Some(digit) => DIGITS.iter().position(|known| known == digit)?,
            };
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Kind;
    use crate::http::testing::entry;
    use crate::random::cases;

    #[test]
    fn a_cursor_fits_only_the_order_that_it_was_made_for() {
        let posts = entry("posts", Kind::Document, &[("name", "Posts \u{0}😀")]);
        let sort = Sort::parse("-name").unwrap();
        let text = Cursor::of(&posts, &sort).encode(&sort);
        assert_eq!(Cursor::decode(&text, &sort), Some(Cursor::of(&posts, &sort)));
        for other in ["name", "id", "-name,type"] {
            assert_eq!(Cursor::decode(&text, &Sort::parse(other).unwrap()), None, "{other}");
        }
    }

    #[test]
    fn the_longest_cursor_fits_into_a_url() {
        let long =
            entry("k", Kind::Document, &[("name", &"\u{1}".repeat(1000)), ("directory", &"d".repeat(1000))]);
        let sort = Sort::parse("name,directory").unwrap();
        let uri_bytes_max = crate::config::Limits::default().requests.uri_bytes_max;
        assert!(Cursor::of(&long, &sort).encode(&sort).len() < uri_bytes_max - 1024);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn bytes_survive_their_text(bytes: Vec<u8>) {
            let text = base64url(&bytes);
            prop_assert!(text.bytes().all(|byte| DIGITS.contains(&byte)));
            prop_assert_eq!(from_base64url(&text), Some(bytes));
        }

        #[test]
        fn no_text_is_mistaken_for_a_cursor(text: String) {
            prop_assert_eq!(Cursor::decode(&text, &Sort::default()), None);
        }
    }
}
