//! Queries of the history and how the index answers them: filters, pages, times and revisions.
//!
//! Contents are read only for a filter by attribute and for what is shown. [`http`](crate::http) parses URLs.

pub(crate) mod filter;
pub(crate) mod glance;
pub(crate) mod matching;
pub(crate) mod page;
pub(crate) mod rev_parse;
pub(crate) mod time;
