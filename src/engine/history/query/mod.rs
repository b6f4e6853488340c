//! What is asked of the history, and how it is found in the index: filters, pages, times and revisions.
//!
//! A question is answered from the index alone; contents are never read here. How a question stands in a URL
//! is the business of [`http`](crate::http).

pub(crate) mod filter;
pub(crate) mod glance;
pub(crate) mod page;
pub(crate) mod rev_parse;
pub(crate) mod time;
