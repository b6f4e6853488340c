//! Pagination links.

use crate::http::jsonapi::json;
use crate::http::jsonapi::page::{At, SIZE};
use crate::http::jsonapi::query::Query;

/// The query parameters of one page.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// The pages that a page links to.
pub(crate) struct Links {
    pub(super) this: Parameters,
    pub(super) first: Parameters,
    pub(super) prev: Option<Parameters>,
    pub(super) next: Option<Parameters>,
    pub(super) last: Parameters,
    pub(super) null_at_the_ends: bool,
}

impl Links {
    /// Creates the links of a cursor page. `ends` has the cursor of its first item if another item precedes it, and
    /// the cursor of its last item if another follows; `None` for an empty page.
    pub(crate) fn beside<C>(
        at: &At<C>,
        text: impl Fn(&C) -> String,
        size: usize,
        total: usize,
        ends: Option<[Option<String>; 2]>,
    ) -> Self {
        let page = |at: Option<At<String>>| -> Parameters {
            let place = at.map(|at| (at.name(), at.into_inner().unwrap_or_default()));
            place.into_iter().chain([(SIZE, size.to_string())]).collect()
        };
        let this = match at {
            At::After(None) => None,
            At::After(Some(cursor)) => Some(At::After(Some(text(cursor)))),
            At::Before(cursor) => Some(At::Before(cursor.as_ref().map(text))),
        };
        // An empty page comes after all items or before all of them.
        let [prev, next] = ends.unwrap_or_else(|| {
            let elsewhere = (total > 0).then(String::new);
            if matches!(at, At::After(_)) { [elsewhere, None] } else { [None, elsewhere] }
        });
        Self {
            this: page(this),
            first: page(None),
            prev: prev.map(|cursor| page(Some(At::Before(Some(cursor))))),
            next: next.map(|cursor| page(Some(At::After(Some(cursor))))),
            last: page(Some(At::Before(None))),
            null_at_the_ends: true,
        }
    }

    /// Renders the links as a JSON object. They keep the other query parameters: `self` those of `query`, the links to
    /// other pages those of `onward`.
    pub(crate) fn json(&self, path: &str, query: &Query, onward: &Query) -> Vec<u8> {
        let named = [
            ("self", Some(&self.this), query),
            ("first", Some(&self.first), onward),
            ("prev", self.prev.as_ref(), onward),
            ("next", self.next.as_ref(), onward),
            ("last", Some(&self.last), onward),
        ];
        let mut out = Vec::new();
        json::write_object(&mut out, None, |links| {
            for (name, page, query) in named {
                match page {
                    Some(page) => links.text(name, &format!("{path}?{}", query.with_page(page))),
                    None if self.null_at_the_ends => links.json(name, serde_json::Value::Null),
                    None => {}
                }
            }
        });
        out
    }
}
