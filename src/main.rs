//! The `collectory` program.
fn main() {}
