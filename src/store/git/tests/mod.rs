//! Tests of the journal against the real `git`, room by room, and fuzz targets for everything that parses external
//! input.

pub(crate) mod fuzz;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod maintenance;
#[cfg(test)]
mod read;
#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod worktree;
