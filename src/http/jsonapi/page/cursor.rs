//! Cursors: the position of an item in a sort order, as text.
//!
//! A cursor holds the sort values of its item instead of an index, so it stays valid when items are added or removed.

use std::cmp::Ordering;

use base64ct::{Base64UrlUnpadded, Encoding as _};

use crate::domain::Key;
use crate::engine::Entry;
use crate::http::jsonapi::page::sort::Sort;

/// The position of an item in a sort order: its sort values and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemCursor {
    values: Vec<String>,
    pub(super) key: Key,
}

impl ItemCursor {
    /// Returns the position of an entry.
    pub(crate) fn of(entry: &Entry, sort: &Sort) -> Self {
        Self { values: sort.values(entry), key: entry.collection.key().clone() }
    }

    /// Compares an entry to this position.
    pub(crate) fn compare(&self, entry: &Entry, sort: &Sort) -> Ordering {
        sort.order(entry, self.values.iter().map(String::as_str), &self.key)
    }

    /// Encodes the cursor as text that is opaque to clients and valid only for this sort order.
    pub(crate) fn encode(&self, sort: &Sort) -> String {
        let shown = sort.shown();
        let parts: Vec<&str> = std::iter::once(shown.as_str())
            .chain(self.values.iter().map(String::as_str))
            .chain([self.key.as_str()])
            .collect();
        let json = serde_json::to_vec(&parts).expect("texts can be written as JSON");
        Base64UrlUnpadded::encode_string(&json)
    }

    /// Decodes a cursor; `None` unless it was made for this sort order.
    pub(crate) fn decode(text: &str, sort: &Sort) -> Option<Self> {
        let mut parts: Vec<String> =
            serde_json::from_slice(&Base64UrlUnpadded::decode_vec(text).ok()?).ok()?;
        let key = Key::parse(&parts.pop()?).ok()?;
        if parts.is_empty() || parts.remove(0) != sort.shown() || parts.len() != sort.value_count() {
            return None;
        }
        Some(Self { values: parts, key })
    }
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
        let text = ItemCursor::of(&posts, &sort).encode(&sort);
        assert_eq!(ItemCursor::decode(&text, &sort), Some(ItemCursor::of(&posts, &sort)));
        for other in ["name", "id", "-name,type", "-name,-id"] {
            assert_eq!(ItemCursor::decode(&text, &Sort::parse(other).unwrap()), None, "{other}");
        }
        let same = Sort::parse("-name,id,type").unwrap();
        assert_eq!(
            ItemCursor::decode(&text, &same),
            Some(ItemCursor::of(&posts, &sort)),
            "ties go by id anyway"
        );
    }

    #[test]
    fn the_longest_cursor_fits_into_a_url() {
        let long =
            entry("k", Kind::Document, &[("name", &"\u{1}".repeat(1000)), ("directory", &"d".repeat(1000))]);
        let sort = Sort::parse("name,directory").unwrap();
        let uri_bytes_max = crate::config::Limits::default().requests.uri_bytes_max;
        assert!(ItemCursor::of(&long, &sort).encode(&sort).len() < uri_bytes_max - 1024);
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn no_text_is_mistaken_for_a_cursor(text: String) {
            prop_assert_eq!(ItemCursor::decode(&text, &Sort::default()), None);
        }
    }
}
