//! JSON:API 1.1: bytes to meaning and back. <https://jsonapi.org/format/1.1/>
//!
//! | module | what it knows |
//! |---|---|
//! | [`negotiate`] | which media types are taken and given |
//! | [`request`], [`json`] | what a body asks for, with everything that is wrong with it |
//! | [`query`], [`sort`], [`page`], [`cursor`] | what the query asks for |
//! | [`listing`] | what is on a page, and the links that lead on |
//! | [`document`] | resources, lists and errors as bytes |
//! | [`past`] | events, differences, blame and changes as bytes |
//! | [`etag`] | preconditions |
//! | [`error`], [`error_object`] | every failure as the client is told it |

pub(super) mod cursor;
pub(super) mod document;
pub(super) mod error;
mod error_object;
pub(super) mod etag;
pub(super) mod json;
pub(super) mod listing;
pub(super) mod negotiate;
pub(super) mod page;
pub(super) mod past;
pub(super) mod query;
pub(super) mod request;
pub(super) mod sort;
