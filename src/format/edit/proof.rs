//! The proof that an edit did what it should and nothing else.

use std::collections::HashSet;

use crate::domain::{Collection, Number, Value};
use crate::format::edit::splice::Splice;
use crate::format::tree::Node;
use crate::format::{plain, read, tree};

/// The start of an edit and its expected result.
pub(crate) struct Proof<'a> {
    /// The text before.
    pub(crate) text: &'a str,
    /// The root of its nodes.
    pub(crate) root: &'a Node,
    /// The collection that the text should read as afterwards.
    pub(crate) after: &'a Collection,
    /// The names in the file that may change.
    pub(crate) names: HashSet<&'a str>,
}

impl Proof<'_> {
    /// Returns the collection that a text reads as, if it is right. Comments may be missing only from what the
    /// splices replace, which are in the order of the text.
    pub(crate) fn read(&self, text: &str, splices: &[Splice]) -> Option<Collection> {
        let (read, root) = read::read_with_tree(self.after.key(), text).ok()?;
        let holds = read == *self.after
            && self.others(self.text, self.root) == self.others(text, &root)
            && self.keeps_comments(text, &root, splices)
            && (agrees(text, &root) || !agrees(self.text, self.root));
        holds.then_some(read)
    }

    /// The bytes of the attributes that must not change.
    fn others<'t>(&self, text: &'t str, root: &Node) -> Vec<&'t str> {
        let others = root.entries().iter().filter(|entry| !self.names.contains(entry.name()));
        others.map(|entry| &text[entry.span()]).collect()
    }

    /// Whether the comments that were not replaced are still there, in their order.
    fn keeps_comments(&self, text: &str, root: &Node, splices: &[Splice]) -> bool {
        let is_replaced = |at: usize| {
            let first = splices.partition_point(|splice| splice.at.end <= at);
            splices.get(first).is_some_and(|splice| splice.at.contains(&at))
        };
        let mut left = comments(text, root).into_iter().map(|(_, comment)| comment);
        comments(self.text, self.root)
            .into_iter()
            .filter(|(at, _)| !is_replaced(*at))
            .all(|(_, comment)| left.any(|other| other == comment))
    }
}

fn comments<'t>(text: &'t str, root: &Node) -> Vec<(usize, &'t str)> {
    let comments = tree::gaps(text, root).into_iter().flat_map(|gap| tree::comments(text, gap));
    comments.map(|comment| (comment.start, text[comment].trim_end())).collect()
}

/// Whether another reader reads the same values. For plain lines this is our own fast reader, which reads them as
/// other readers do, at a tenth of the cost.
fn agrees(text: &str, root: &Node) -> bool {
    let written = read::written_attributes(root);
    match plain::attributes(text) {
        Some(seen) => seen == written,
        None => serde_yaml::from_str(text).is_ok_and(|seen| same(&seen, &Value::Map(written.into()))),
    }
}

fn same(seen: &serde_yaml::Value, value: &Value) -> bool {
    match value {
        Value::Null => seen.is_null(),
        Value::Bool(value) => seen.as_bool() == Some(*value),
        Value::Number(Number::Integer(number)) => seen.as_i64() == Some(*number),
        Value::Number(Number::Unsigned(number)) => seen.as_u64() == Some(*number),
        Value::Number(Number::Float(number)) => seen.is_f64() && seen.as_f64() == Some(*number),
        Value::Text(text) => seen.as_str() == Some(text.as_str()),
        Value::List(items) => seen.as_sequence().is_some_and(|seen| {
            seen.len() == items.len() && seen.iter().zip(items).all(|(seen, item)| same(seen, item))
        }),
        Value::Map(members) => seen.as_mapping().is_some_and(|seen| {
            seen.len() == members.len()
                && members
                    .iter()
                    .all(|(name, value)| seen.get(name.as_str()).is_some_and(|seen| same(seen, value)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::cases;

    /// Scalars that may mean something else in another version of YAML, and those that look like them.
    fn scalar() -> impl Strategy<Value = String> {
        let known = prop::sample::select(vec![
            "yes",
            "No",
            "on",
            "null",
            "Null",
            "~",
            "true",
            "TRUE",
            "0o17",
            "017",
            "0x1F",
            "1_000",
            "1e3",
            "1E+3",
            ".5",
            "-.5",
            "+1",
            "1.",
            "-0",
            "-0.0",
            ".inf",
            "-.Inf",
            ".nan",
            "2024-01-01",
            "12:30:45",
            "<<",
            "=",
            "1.2.3",
            "9e999",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
        ]);
        prop_oneof![
            known.prop_map(str::to_owned),
            "[-+.0-9a-fA-Fonxy_:~]{1,8}",
            "[a-zA-Z0-9]{1,4} [a-z#]{1,4}"
        ]
    }

    proptest! {
        #![proptest_config(cases(4096))]

        #[test]
        fn what_the_reader_of_plain_lines_takes_everybody_else_reads_the_same(one in scalar(), other in scalar()) {
            let text = format!("a: {one}\nb:\n  - {other}\n  - \"{one}\"\nc:\n  d: {other} # {one}\n");
            if let Some(read) = plain::attributes(&text) {
                let seen = serde_yaml::from_str(&text);
                prop_assert!(seen.is_ok_and(|seen| same(&seen, &Value::Map(read.into()))), "{}", text);
            }
        }
    }
}
