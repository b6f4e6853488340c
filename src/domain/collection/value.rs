//! The values of attributes: what JSON and YAML have in common.

use std::fmt;

use compact_str::CompactString;

/// Maximum nesting depth of lists and maps in a value.
pub const VALUE_DEPTH_MAX: usize = 32;

/// Maximum number of characters that a message quotes of an invalid text.
const SHOWN_CHARS_MAX: usize = 40;

/// Shortens a text for a message.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A value that JSON and YAML can both represent without loss.
///
/// Maps keep the order in which they were written, for the people who read them. Two maps that
/// differ only in order are equal (RFC 8259 section 4), so reordering alone is not a change.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text; a short one is stored inline.
    Text(CompactString),
    /// A list.
    List(Box<[Value]>),
    /// A map with distinct names, in the order in which they were written.
    Map(Box<[(String, Value)]>),
}

/// A number that survives a round trip through a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole number that fits into a signed 64-bit integer.
    Integer(i64),
    /// A whole number above [`i64::MAX`] that fits into an unsigned 64-bit integer.
    Unsigned(u64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
}

/// The reason why a number with a fraction or an exponent can't be represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatRangeError {
    /// It is beyond the range of a 64-bit float.
    TooLarge,
    /// It is so close to zero that a 64-bit float would be zero.
    TooSmall,
}

impl Number {
    /// Parses a number with a fraction or an exponent.
    ///
    /// # Errors
    ///
    /// Returns why the result would be infinite, or zero although the text is not.
    pub fn parse_float(text: &str) -> Result<Self, FloatRangeError> {
        let float: f64 = text.parse().map_err(|_| FloatRangeError::TooLarge)?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        match float {
            _ if !float.is_finite() => Err(FloatRangeError::TooLarge),
            0.0 if mantissa.contains(|c: char| matches!(c, '1'..='9')) => Err(FloatRangeError::TooSmall),
            _ => Ok(Self::Float(float)),
        }
    }
}

impl Value {
    /// The type of the value for an error message, with its article.
    #[must_use]
    pub fn describe_type(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// The nesting depth of lists and maps; 0 for a scalar.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Map(members) => 1 + members.iter().map(|(_, value)| value.depth()).max().unwrap_or(0),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 0,
        }
    }

    /// Approximate size on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(|item| size_of::<Self>() + item.heap_bytes()).sum(),
            Self::Map(members) => {
                let own = |name: &str| size_of::<(String, Self)>() + name.len();
                members.iter().map(|(name, value)| own(name) + value.heap_bytes()).sum()
            }
        }
    }

    /// The text, if the value is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The member of a map, if the value is a map and has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Map(members) = self else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Number(one), Self::Number(two)) => one == two,
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::List(one), Self::List(two)) => one == two,
            // Usually the order is the same. Each value is compared only once, however deeply it is nested.
            (Self::Map(one), Self::Map(two)) => {
                let in_order = one.iter().zip(two).all(|((one, _), (two, _))| one == two);
                one.len() == two.len() && if in_order { one == two } else { by_name(one) == by_name(two) }
            }
            (Self::Null, Self::Null) => true,
            _ => false,
        }
    }
}

fn by_name(members: &[(String, Value)]) -> Vec<&(String, Value)> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| name);
    sorted
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// A map of these members.
impl<const N: usize> From<[(&str, Self); N]> for Value {
    fn from(members: [(&str, Self); N]) -> Self {
        Self::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Formats the value as compact JSON for messages: `"Posts"`, `false`, `[1, 2]`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write_quoted(f, text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Map(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    write_quoted(f, name)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Unsigned(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number:?}"),
        }
    }
}

/// Writes a JSON string (RFC 8259 section 7).
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                write!(f, "\\u{:04x}", u32::from(c))?;
            }
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(members: &[(&str, i64)]) -> Value {
        Value::Map(
            members
                .iter()
                .map(|(name, n)| ((*name).to_owned(), Value::Number(Number::Integer(*n))))
                .collect(),
        )
    }

    #[test]
    fn the_order_of_a_map_is_kept_but_means_nothing() {
        assert_eq!(map(&[("a", 1), ("b", 2)]), map(&[("b", 2), ("a", 1)]));
        assert_ne!(map(&[("a", 1)]), map(&[("a", 2)]));
        assert_ne!(map(&[("a", 1)]), map(&[("a", 1), ("b", 2)]));
        assert_eq!(map(&[("b", 2), ("a", 1)]).to_string(), r#"{"b": 2, "a": 1}"#);
    }

    #[test]
    fn a_shown_text_never_holds_a_line_break() {
        let shown = Value::from("a\nb\r\u{85}\u{2028}\"").to_string();
        assert_eq!(shown, "\"a\\nb\\r\\u0085\\u2028\\\"\"");
    }
}
