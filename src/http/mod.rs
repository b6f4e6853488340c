//! The edge.

pub mod server;
