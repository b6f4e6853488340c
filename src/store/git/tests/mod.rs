//! The journal against the real `git`, room by room; what reads anything from outside, for a fuzzer.

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
