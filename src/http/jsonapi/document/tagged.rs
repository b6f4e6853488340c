//! Documents that are written once.

use bytes::Bytes;
use warp::http::HeaderValue;

use crate::config::BasePath;
use crate::engine::{Entry, Snapshot};
use crate::http::jsonapi::document::resource::{write_links, write_resource};
use crate::http::jsonapi::document::{COLLECTIONS, DATA_PREFIX, List, self_link};

/// The number of bytes that a list reserves for each collection.
const RESOURCE_BYTES_TYPICAL: usize = 256;

/// A document with its entity tag in front, ready to be sent: one allocation, shared by all answers.
///
/// Layout: the length of the quoted tag in one byte, the quoted tag, the document.
#[derive(Debug, Clone)]
pub(crate) struct TaggedDocument(Bytes);

impl TaggedDocument {
    /// Returns the document of a collection.
    pub(crate) fn one(entry: &Entry, base: &BasePath) -> Self {
        Self(entry.memo.get_or_make(|| {
            let mut out = tagged(&entry.tag(), RESOURCE_BYTES_TYPICAL);
            out.extend_from_slice(DATA_PREFIX);
            write_resource(entry, base, None, None, &mut out);
            write_links(entry, base, None, &mut out);
            out.push(b'}');
            out.into()
        }))
    }

    /// Returns the document of all collections.
    pub(crate) fn list(snapshot: &Snapshot, base: &BasePath) -> Self {
        Self(snapshot.memo.get_or_make(|| {
            let size = snapshot.catalog().len() * RESOURCE_BYTES_TYPICAL;
            let mut list = List::new(tagged(&snapshot.list_tag(), size));
            for entry in snapshot.catalog().iter() {
                list.push(entry, base, None, None);
            }
            list.finish(
                &self_link(&format!("{}{COLLECTIONS}", base.as_str())),
                snapshot.hand_edits.served,
                None,
            )
        }))
    }

    /// Returns the entity tag, in quotes.
    pub(crate) fn tag(&self) -> &str {
        std::str::from_utf8(&self.0[1..self.body_start()]).expect("a tag is ASCII")
    }

    /// Returns the entity tag as a header value.
    pub(crate) fn etag(&self) -> HeaderValue {
        HeaderValue::from_maybe_shared(self.0.slice(1..self.body_start())).expect("a tag is visible ASCII")
    }

    pub(crate) fn body(&self) -> Bytes {
        self.0.slice(self.body_start()..)
    }

    fn body_start(&self) -> usize {
        1 + usize::from(self.0[0])
    }

    /// Returns the resource inside the document of this entry.
    pub(crate) fn resource(&self, entry: &Entry, base: &BasePath) -> &[u8] {
        let path = base.as_str().len() + COLLECTIONS.len() + 1 + entry.collection.key().as_str().len();
        &self.0[self.body_start() + DATA_PREFIX.len()..self.0.len() - TAIL_BYTES_AROUND_PATH - path]
    }
}

fn tagged(tag: &str, size: usize) -> Vec<u8> {
    let length = u8::try_from(tag.len() + 2).expect("a tag is two digests at most");
    let mut out = Vec::with_capacity(1 + usize::from(length) + DATA_PREFIX.len() + size);
    out.push(length);
    out.push(b'"');
    out.extend_from_slice(tag.as_bytes());
    out.push(b'"');
    out
}

/// The length of the end of a collection's document, without the path that it links to.
const TAIL_BYTES_AROUND_PATH: usize = br#","links":{"self":""}}"#.len();
