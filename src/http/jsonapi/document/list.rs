//! Lists of collections.

use bytes::Bytes;
use serde_json::json;

use crate::config::BasePath;
use crate::domain::Revision;
use crate::engine::{Entry, Snapshot};
use crate::http::jsonapi::document::history::finish;
use crate::http::jsonapi::document::tagged::{RESOURCE_BYTES_TYPICAL, TaggedDocument, push_resource, tagged};
use crate::http::jsonapi::document::{COLLECTIONS, DATA_PREFIX, self_link};
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

    /// Adds a collection, as it was at a revision if one is given.
    pub(crate) fn push(
        &mut self,
        entry: &Entry,
        base: &BasePath,
        as_of: Option<Revision>,
        fields: Option<&Fields>,
    ) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        push_resource(entry, base, as_of, fields, &mut self.out);
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

/// Returns the document of all collections.
pub(crate) fn whole_list(snapshot: &Snapshot, base: &BasePath) -> TaggedDocument {
    TaggedDocument(snapshot.memo.get_or_make(|| {
        let size = snapshot.catalog().len() * RESOURCE_BYTES_TYPICAL;
        let mut list = List::new(tagged(&snapshot.list_tag(), size));
        for entry in snapshot.catalog().iter() {
            list.push(entry, base, None, None);
        }
        let link = self_link(&format!("{}{COLLECTIONS}", base.as_str()));
        list.finish(&link, snapshot.hand_edits.served, None)
    }))
}
