//! JSON:API 1.1: bytes to meaning and back. <https://jsonapi.org/format/1.1/>
//!
//! | module | what it knows |
//! |---|---|
//! | [`negotiate`] | which media types are taken and given |
//! | [`request`], [`json`] | what a body asks for, with everything that is wrong with it |
//! | [`query`] | what the query asks for |
//! | [`page`] | which page, in which order; what is on it, and the links that lead on |
//! | [`document`] | resources, lists and errors as bytes |
//! | [`etag`] | preconditions |
//! | [`error`] | every failure as the client is told it |
//!
//! Nothing here reads a snapshot by itself or submits anything: what is to be shown is handed in.

pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod etag;
pub(crate) mod json;
pub(crate) mod negotiate;
pub(crate) mod page;
pub(crate) mod query;
pub(crate) mod request;
