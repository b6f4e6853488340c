//! Documents that are written once.

use bytes::Bytes;
use warp::http::HeaderValue;

use crate::config::BasePath;
use crate::domain::Revision;
use crate::engine::Entry;
use crate::http::jsonapi::document::resource::{write_links, write_resource};
use crate::http::jsonapi::document::{COLLECTIONS, DATA_PREFIX};
use crate::http::jsonapi::query::Fields;
use crate::http::jsonapi::resource_type::resource_type;

/// The number of bytes that a list reserves for each collection.
pub(super) const RESOURCE_BYTES_TYPICAL: usize = 256;

/// A document with its entity tag in front, ready to be sent: one allocation, shared by all answers.
///
/// Layout: the length of the quoted tag in one byte, the quoted tag, the document.
#[derive(Debug, Clone)]
pub(crate) struct TaggedDocument(pub(super) Bytes);

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

/// Appends the resource; copies the stored bytes of a present one if all its attributes are wanted. The link of a past
/// one leads to that state, not to the present one, since JSON:API lets clients expect the same data behind `self`.
pub(crate) fn push_resource(
    entry: &Entry,
    base: &BasePath,
    as_of: Option<Revision>,
    fields: Option<&Fields>,
    out: &mut Vec<u8>,
) {
    let kind = resource_type(entry.collection.kind());
    match (as_of, fields.and_then(|fields| fields.wanted(kind))) {
        (None, None) => out.extend_from_slice(TaggedDocument::one(entry, base).resource(entry, base)),
        (as_of, wanted) => write_resource(entry, base, as_of, wanted, out),
    }
}

/// Begins a document behind its entity tag, with room for this many bytes.
pub(super) fn tagged(tag: &str, size: usize) -> Vec<u8> {
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
