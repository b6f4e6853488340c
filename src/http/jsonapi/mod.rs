//! JSON:API 1.1: parsing of requests and serialization of answers. <https://jsonapi.org/format/1.1/>
//!
//! | module | responsibility |
//! |---|---|
//! | [`negotiate`] | accepted and produced media types |
//! | [`request`], [`json`] | request bodies, with everything that is wrong with them |
//! | [`query`] | query parameters |
//! | [`page`] | sort order, pages and their contents, pagination links |
//! | [`document`] | resources, lists and errors as bytes |
//! | [`resource_type`] | the types of resources |
//! | [`preconditions`] | preconditions |
//! | [`error`] | every failure as the client sees it |
//!
//! Nothing here reads a snapshot by itself or submits anything: the caller passes in what is shown.

pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod negotiate;
pub(crate) mod page;
pub(crate) mod preconditions;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod resource_type;
