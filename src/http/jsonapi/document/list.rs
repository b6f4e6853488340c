//! Lists of collections.

use bytes::Bytes;
use serde_json::json;

use crate::config::BasePath;
use crate::domain::Revision;
use crate::engine::Entry;
use crate::http::jsonapi::document::DATA_PREFIX;
use crate::http::jsonapi::document::history::finish;
use crate::http::jsonapi::document::resource::{push_past_resource, push_resource};
use crate::http::jsonapi::query::Fields;

/// A list of collections under construction.
#[derive(Debug)]
pub(crate) struct List {
    out: Vec<u8>,
    first: bool,
}

impl List {
    /// Begins a list after the bytes in `out`.
    pub(crate) fn new(mut out: Vec<u8>) -> Self {
        out.extend_from_slice(DATA_PREFIX);
        out.push(b'[');
        Self { out, first: true }
    }

    pub(crate) fn push(&mut self, entry: &Entry, base: &BasePath, fields: Option<&Fields>) {
        self.separate();
        push_resource(entry, base, fields, &mut self.out);
    }

    /// Adds a collection as it was at a revision.
    pub(crate) fn push_past(&mut self, entry: &Entry, base: &BasePath, revision: Revision, fields: &Fields) {
        self.separate();
        push_past_resource(entry, base, revision, fields, &mut self.out);
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
    }

    /// Returns the number of bytes so far.
    pub(crate) const fn len(&self) -> usize {
        self.out.len()
    }

    /// Completes the list with its links (a JSON object) and, if needed, its `meta`.
    pub(crate) fn finish(mut self, links: &[u8], uncommitted: usize, page_total: Option<usize>) -> Bytes {
        self.out.push(b']');
        let mut meta = json!({});
        if let Some(total) = page_total {
            meta["page"] = json!({"total": total});
        }
        if uncommitted > 0 {
            meta["uncommitted"] = uncommitted.into();
        }
        finish(self.out, links, (meta != json!({})).then_some(&meta))
    }
}
