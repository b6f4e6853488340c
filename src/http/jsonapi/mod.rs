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

pub(crate) mod cursor;
pub(crate) mod document;
pub(crate) mod error;
mod error_object;
pub(crate) mod etag;
pub(crate) mod json;
pub(crate) mod listing;
pub(crate) mod negotiate;
pub(crate) mod page;
pub(crate) mod past;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod sort;
