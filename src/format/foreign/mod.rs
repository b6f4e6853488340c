//! Settings files of other programs: YAML 1.2 and JSON, read as those programs read them.
//!
//! A collection file is read strictly (see [`read`](fn@crate::format::read)). A file of another program is
//! read as that program reads it: with anchors, aliases and merge keys, with the scalars of the
//! [core schema](https://yaml.org/spec/1.2.2/#103-core-schema), and as JSON, which is YAML 1.2 except for
//! surrogate pairs. What that program refuses is refused here too: a duplicate name in a map, a second
//! document. Every node has its position, for faults.

mod build;
pub(crate) mod hint;
mod node;
#[cfg(test)]
mod tests;

use saphyr_parser::Parser;

use crate::format::Fault;
use crate::format::foreign::build::ForeignBuilder;
pub use crate::format::foreign::node::{ForeignContent, ForeignNode, Position};
use crate::format::lookalike::surrogate_pair;
use crate::format::read::utf8;

/// Maximum size of a file, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of nodes that aliases may add to those that are written.
pub const EXPANDED_NODES_MAX: usize = 200_000;

/// Maximum nesting depth of lists and maps, with aliases expanded.
pub const SOURCE_DEPTH_MAX: usize = 100;

/// Reads a file of another program; `None` if it is empty.
///
/// # Errors
///
/// Returns what can't be read, its position, and what it looks like.
pub fn read(bytes: &[u8]) -> Result<Option<ForeignNode>, Fault> {
    if bytes.len() > SOURCE_BYTES_MAX {
        return Err(Fault::at_start(format!(
            "the file has more than the {SOURCE_BYTES_MAX} bytes that are read"
        )));
    }
    let text = utf8(bytes)?;
    if text.trim_start().starts_with(['{', '[']) { parse(&without_surrogates(text)) } else { parse(text) }
}

fn parse(text: &str) -> Result<Option<ForeignNode>, Fault> {
    let mut builder = ForeignBuilder::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => {
                builder.on_event(event, span.start).map_err(|fault| hint::closer(text, fault))?;
            }
            Err(error) => {
                let unreadable = || hint::unreadable(text, *error.marker());
                return ForeignNode::of_json(text).map(Some).ok_or_else(unreadable);
            }
        }
    }
    Ok(builder.root.map(|node| (*node).clone()).filter(|root| !root.is_null()))
}

/// Converts surrogate pairs: JSON writes a character beyond U+FFFF as two `\u` escapes (RFC 8259
/// section 7), YAML as one `\U`.
fn without_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = match surrogate_pair(rest) {
            Some(c) => {
                out.push_str(&format!("\\U{:08X}", u32::from(c)));
                12
            }
            None => {
                let len = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    out + rest
}
