//! Settings that come from other programs and go to them, on the command line.

mod export;
mod import;
mod schema;
mod vanishing;
