//! Scalars: what a plain one means, and how to write one so that every reader reads the same value.
//!
//! YAML 1.1 (`PyYAML`, Ruby, Go's yaml.v2) and YAML 1.2 (the core schema) give many plain scalars
//! different meanings: `no`, `010`, `12:30`, `2024-01-01`. Reading refuses scalars on which they
//! disagree; writing quotes all scalars on which they might. The lists are those of the
//! [YAML 1.1 types](https://yaml.org/type/) and of
//! [YAML 1.2.2, section 10.3](https://yaml.org/spec/1.2.2/#103-core-schema).

use std::fmt::Write as _;

use crate::domain::{FloatRangeError, Number, Value};

/// How a scalar is written in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes.
    Plain,
    /// In `'`.
    Single,
    /// In `"`.
    Double,
    /// After `|` or `>`, on lines of its own.
    Block,
}

/// The reason why readers disagree on the meaning of a plain scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// What the scalar means to which readers; completes a sentence.
    pub(crate) what: &'static str,
    /// How to write the value that may have been meant, if that is not a string.
    pub(crate) instead: Option<&'static str>,
}

/// The characters with which a plain scalar can't begin
/// ([YAML 1.2.2, section 5.3](https://yaml.org/spec/1.2.2/#53-indicator-characters)).
pub(crate) const INDICATORS: [char; 19] =
    ['-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`'];

/// Returns the value of a plain scalar if all readers agree on it.
pub(crate) fn resolve(text: &str) -> Result<Value, Ambiguous> {
    let refused = |what, instead| Err(Ambiguous { what, instead });
    const SOME: &str = "is a boolean to some YAML readers and a string to others";
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return refused(SOME, Some("true")),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return refused(SOME, Some("false")),
        "<<" => return refused("is a merge key to some YAML readers", None),
        "=" => return refused("is a default value to some YAML readers", None),
        _ => {}
    }
    if is_decimal(text) {
        return number(text);
    }
    if is_number_to_some(text) {
        return refused("is not the same number, or no number, to all YAML readers", None);
    }
    if is_date_to_some(text) {
        return refused("is a date to some YAML readers and a string to others", None);
    }
    Ok(Value::from(text))
}

/// Whether a text is a number in the form that JSON, YAML 1.1 and YAML 1.2 share: no sign but `-`,
/// no leading zero, a fraction whenever there is an exponent, and a sign in the exponent.
fn is_decimal(text: &str) -> bool {
    let whole = |text: &str| is_digits(text) && (text == "0" || !text.starts_with('0'));
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let Some((integer, rest)) = unsigned.split_once('.') else {
        return whole(unsigned) && text != "-0";
    };
    let (fraction, exponent) = split_exponent(rest);
    whole(integer)
        && is_digits(fraction)
        && exponent.is_none_or(|it| it.strip_prefix(['-', '+']).is_some_and(is_digits))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Splits a number before its exponent, if it has one.
fn split_exponent(text: &str) -> (&str, Option<&str>) {
    text.split_once(['e', 'E']).map_or((text, None), |(mantissa, exponent)| (mantissa, Some(exponent)))
}

fn number(text: &str) -> Result<Value, Ambiguous> {
    let unfit = |what| Ambiguous { what, instead: None };
    let number = if text.contains('.') {
        Number::parse_float(text).map_err(|why| {
            unfit(match why {
                FloatRangeError::TooLarge => "is too large for a number of 64 bits",
                FloatRangeError::TooSmall => "is too small for a number of 64 bits",
            })
        })
    } else {
        let signed = text.parse().map(Number::Integer);
        signed
            .or_else(|_| text.parse().map(Number::Unsigned))
            .map_err(|_| unfit("does not fit into a whole number of 64 bits"))
    };
    number.map(Value::Number)
}

/// Whether a reader of YAML 1.1 or 1.2 may take the text for a number of another form than [`is_decimal`].
fn is_number_to_some(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let made_of = |text: &str, allowed: fn(u8) -> bool| {
        text.bytes().any(|b| b != b'_') && text.bytes().all(|b| b == b'_' || allowed(b))
    };
    if let Some(("0", digits)) = unsigned.split_at_checked(1) {
        let (base, digits) = digits.split_at_checked(1).unwrap_or_default();
        match base {
            "b" | "o" | "x" => return made_of(digits, |b| b.is_ascii_hexdigit()),
            _ => {}
        }
    }
    let (mantissa, exponent) = split_exponent(unsigned);
    let starts = mantissa.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|it| is_digits(it.strip_prefix(['-', '+']).unwrap_or(it)));
    starts
        && exponent_fits
        && mantissa.matches('.').count() <= 1
        && made_of(mantissa, |b| b.is_ascii_digit() || matches!(b, b'.' | b':'))
}

/// Whether a reader of YAML 1.1 may take the text for a date or a time stamp.
fn is_date_to_some(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let day = digits(rest);
    if year.len() != 4
        || digits(year) != 4
        || !(1..=2).contains(&month.len())
        || digits(month) != month.len()
        || !(1..=2).contains(&day)
    {
        return false;
    }
    let time = &rest[day..];
    let clock = time.trim_start_matches(['T', 't', ' ', '\t']);
    let hour = digits(clock);
    time.is_empty() || (clock.len() < time.len() && (1..=2).contains(&hour) && clock[hour..].starts_with(':'))
}

/// Writes a scalar in the requested style, or in the plainest one that keeps its meaning.
///
/// # Panics
///
/// Panics if the value is a list or a map.
pub(crate) fn emit_scalar(value: &Value, style: Style, in_flow: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => written_number(*number),
        Value::Text(text) => emit_text(text, style, in_flow),
        Value::List(_) | Value::Map(_) => unreachable!("BUG: a list or a map was written as a scalar"),
    }
}

/// Writes a text on one line in the requested style if possible, else in double quotes.
pub(crate) fn emit_text(text: &str, style: Style, in_flow: bool) -> String {
    match style {
        Style::Plain | Style::Block if is_safe_plain(text, in_flow) => text.to_owned(),
        Style::Single if text.chars().all(is_readable) => format!("'{}'", text.replace('\'', "''")),
        Style::Plain | Style::Block | Style::Single | Style::Double => double_quoted(text),
    }
}

fn written_number(number: Number) -> String {
    let text = number.to_string();
    match (number, text.split_once('e')) {
        (Number::Float(_), Some((mantissa, exponent))) => {
            let point = if mantissa.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{mantissa}{point}e{sign}{exponent}")
        }
        (Number::Integer(_) | Number::Unsigned(_) | Number::Float(_), _) => text,
    }
}

fn double_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_readable(c) => quoted.push(c),
            c if u32::from(c) <= 0xff => {
                write!(quoted, "\\x{:02x}", u32::from(c)).expect("writing to a string");
            }
            c if u32::from(c) <= 0xffff => {
                write!(quoted, "\\u{:04x}", u32::from(c)).expect("writing to a string");
            }
            c => write!(quoted, "\\U{:08x}", u32::from(c)).expect("writing to a string"),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a character is visible, and neither a line break nor to be escaped for any reader.
///
/// Bidirectional controls are excluded because a text with an invisible one does not read as it
/// looks (Unicode TR 36, section 2.6).
fn is_readable(c: char) -> bool {
    !(c.is_control() || is_forbidden(c) || turns_text(c) || matches!(c, '\u{200e}' | '\u{200f}'))
}

/// Whether a character changes the display order of the text after it (Unicode's embeddings, overrides and
/// isolates). Directional marks alone do not.
pub(crate) fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a line can be written without escapes.
pub(crate) fn is_readable_line(line: &str) -> bool {
    line.chars().all(is_readable)
}

/// Whether a character is not allowed unescaped in a file: a line break in YAML 1.1 only, a byte
/// order mark, or not printable in YAML.
pub(crate) fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{7f}'..='\u{9f}')
        || (c < ' ' && !matches!(c, '\t' | '\n' | '\r'))
}

/// Whether every reader reads the unquoted text as that text; false in doubt.
fn is_safe_plain(text: &str, in_flow: bool) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let indicator = INDICATORS.contains(&first);
    let flow_indicator = in_flow && text.contains([',', '[', ']', '{', '}', ':', '?']);
    !indicator
        && !flow_indicator
        && text.trim() == text
        && !text.ends_with(':')
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(is_readable)
        && !looks_special(text)
}

/// Whether a text is or resembles a scalar that some reader does not take for a string.
fn looks_special(text: &str) -> bool {
    let folded = text.to_ascii_lowercase();
    let word = matches!(
        folded.as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null" | "~" | "=" | "<<"
    );
    let starts = text.trim_start_matches(['-', '+', '.', '_', ',']).starts_with(|c: char| c.is_ascii_digit());
    let numeric = starts && folded.bytes().all(|b| b.is_ascii_hexdigit() || b"_.,:+-tzxo ".contains(&b));
    let unsigned = folded.trim_start_matches(['-', '+']);
    let dotted = unsigned.bytes().all(|b| b == b'.') || matches!(unsigned, ".inf" | ".nan");
    // `E5`, `.e+1`: numbers to readers that want no digit before the exponent.
    let exponential = unsigned.split_once('e').is_some_and(|(mantissa, exponent)| {
        let digits = exponent.trim_start_matches(['-', '+']);
        mantissa.bytes().all(|b| b == b'.')
            && digits.bytes().all(|b| b.is_ascii_digit())
            && mantissa.len() + digits.len() > 0
    });
    word || numeric
        || dotted
        || exponential
        || text.starts_with("...")
        || resolve(text) != Ok(Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_readers_agree_on_is_read() {
        let integer = |n| Ok(Value::Number(Number::Integer(n)));
        let float = |n| Ok(Value::Number(Number::Float(n)));
        assert_eq!(resolve("12"), integer(12));
        assert_eq!(resolve("-12"), integer(-12));
        assert_eq!(resolve("0"), integer(0));
        assert_eq!(resolve("18446744073709551615"), Ok(Value::Number(Number::Unsigned(u64::MAX))));
        assert_eq!(resolve("1.50"), float(1.5));
        assert_eq!(resolve("-0.5e-3"), float(-0.0005));
        assert_eq!(resolve("1.0e+3"), float(1000.0));
        assert_eq!(resolve("true"), Ok(true.into()));
        assert_eq!(resolve("~"), Ok(Value::Null));
        for text in [
            "posts",
            "content/posts",
            "image/*",
            ".pdf",
            "1.2.3",
            "10 posts",
            "2024/posts",
            "v1",
            "e5",
            "1e",
            "0q",
        ] {
            assert_eq!(resolve(text), Ok(text.into()), "{text:?}");
        }
    }

    #[test]
    fn what_readers_disagree_on_is_refused() {
        for text in [
            "yes",
            "Yes",
            "NO",
            "on",
            "off",
            "y",
            "N",
            "010",
            "08",
            "0o17",
            "0x1F",
            "0b11",
            "1_000",
            "+1",
            "-0",
            ".5",
            "5.",
            "1e3",
            "1.5e3",
            "12:30",
            "12:30:00",
            "190:20:30.15",
            ".inf",
            "-.INF",
            ".NaN",
            "2024-01-01",
            "2024-1-1T10:00:00Z",
            "2024-01-01 10:00:00",
            "<<",
            "=",
            "18446744073709551616",
            "-9223372036854775809",
            "1.0e+999",
        ] {
            assert!(resolve(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn whatever_might_be_something_else_is_quoted() {
        for text in [
            "",
            " a",
            "a ",
            "yes",
            "yEs",
            "null",
            "nULL",
            "~",
            "1",
            "-1",
            "+1",
            "1.0",
            ".5",
            "1e3",
            "0x1f",
            "1_0",
            "12:30",
            "2024-01-01",
            "2024-01-01 a",
            "1,000",
            "12,5",
            "0,.",
            "E5",
            "e9",
            ".e1",
            ".E-1",
            "._6",
            "+.",
            "=",
            "<<",
            "- a",
            "-a",
            "?a",
            ":a",
            "a:",
            "a: b",
            "a #b",
            "#a",
            "&a",
            "*/*",
            "!a",
            "|",
            ">",
            "'a",
            "\"a",
            "%a",
            "@a",
            "`a",
            "[a",
            "{a",
            "}",
            "...",
            ".",
            ".inf",
            "---",
            "a\u{85}b",
            "a\u{2028}b",
            "\u{feff}a",
            "a\tb",
            "a\nb",
            "\u{a0}a",
            "a\u{202e}b",
        ] {
            let quoted = emit_text(text, Style::Plain, false);
            assert!(quoted.starts_with('"'), "{text:?} as {quoted}");
            assert!(quoted.chars().all(is_readable), "{quoted}");
        }
    }

    #[test]
    fn readable_text_stays_plain() {
        for text in [
            "Posts",
            "content/posts",
            "Überblick",
            "記事",
            "image/png",
            ".pdf",
            "https://a.example/b",
            "it's",
            "a, b",
            "a [b]",
            "v1.2.3",
            "2024/posts",
            "no problem",
            "a#b",
            "C:x",
            "e",
            "bee",
            "E-mail",
            "e5x",
        ] {
            assert_eq!(emit_text(text, Style::Plain, false), text);
        }
        assert_eq!(emit_text("a, b", Style::Plain, true), "\"a, b\"");
        assert_eq!(emit_text("https://a", Style::Plain, true), "\"https://a\"");
    }

    #[test]
    fn a_quoting_style_is_kept_where_it_can_hold_the_text() {
        assert_eq!(emit_text("it's", Style::Single, false), "'it''s'");
        assert_eq!(emit_text("a\nb", Style::Single, false), "\"a\\nb\"");
        assert_eq!(emit_text("\u{85}\u{1}\u{2028}é\"\\", Style::Double, false), r#""\x85\x01\u2028é\"\\""#);
    }

    #[test]
    fn a_number_is_written_in_the_form_that_all_readers_share() {
        for (number, shown) in [
            (Number::Float(1e300), "1.0e+300"),
            (Number::Float(1.5e-7), "1.5e-7"),
            (Number::Float(1e-7), "1.0e-7"),
            (Number::Float(3.0), "3.0"),
            (Number::Float(-0.0), "-0.0"),
            (Number::Unsigned(u64::MAX), "18446744073709551615"),
            (Number::Integer(i64::MIN), "-9223372036854775808"),
        ] {
            assert_eq!(written_number(number), shown);
            assert_eq!(resolve(shown), Ok(Value::Number(number)));
        }
    }
}
