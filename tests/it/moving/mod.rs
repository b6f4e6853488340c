//! Importing settings from other programs and exporting them, on the command line.

mod export;
mod import;
mod schema;
mod vanishing;
