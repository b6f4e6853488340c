//! JSON, strictly: what can't be kept exactly is refused instead of being bent.
//!
//! A general reader keeps the last of two members with one name, turns a whole number that is too
//! long into a float and hides where in the text it stands. Settings have to come back as they
//! were sent, so this reader takes RFC 8259 and leaves nothing to chance:
//!
//! * UTF-8 without a byte order mark, one value, nothing after it;
//! * no two members of an object with one name;
//! * whole numbers that fit into 64 bits, other numbers that are finite;
//! * no escape for half a surrogate pair;
//! * a bounded depth, since reading is recursive and the stack is not endless.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::domain::{Number, Value};

/// Why a text is not JSON that can be kept, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(super) struct Fault {
    /// The line, from 1.
    line: usize,
    /// The column in characters, from 1.
    column: usize,
    message: Cow<'static, str>,
}

/// Reads one JSON value.
///
/// # Errors
///
/// Returns the first fault.
pub(super) fn read(bytes: &[u8], depth_max: usize) -> Result<Value, Fault> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            return Err(fault(&good, good.len(), "the text is not UTF-8"));
        }
    };
    let mut reader = Reader { text, at: 0, depth_left: depth_max };
    reader.document().map_err(|message| fault(text, reader.at, message))
}

fn fault(text: &str, at: usize, message: impl Into<Cow<'static, str>>) -> Fault {
    let before = &text[..at.min(text.len())];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Fault { line, column, message: message.into() }
}

type Step<T> = Result<T, Cow<'static, str>>;

/// A text and how much of it has been read; `at` stands on the offending character when a step
/// fails.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth_left: usize,
}

impl Reader<'_> {
    fn document(&mut self) -> Step<Value> {
        if self.text.starts_with('\u{feff}') {
            return Err("the text begins with a byte order mark; leave it out".into());
        }
        self.blanks();
        let value = self.value()?;
        self.blanks();
        if self.at < self.text.len() { Err("there is more text after the value".into()) } else { Ok(value) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// What stands here, for a message.
    fn found(&self) -> String {
        match self.text[self.at..].chars().next() {
            None => "the end of the text".to_owned(),
            Some(c) => format!("{c:?}"),
        }
    }

    fn expected(&self, what: &str) -> Cow<'static, str> {
        format!("expected {what}, found {}", self.found()).into()
    }

    fn value(&mut self) -> Step<Value> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::from),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) | None => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Step<Value> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Step<Value>) -> Step<Value> {
        let Some(left) = self.depth_left.checked_sub(1) else {
            return Err("lists and objects are nested too deep".into());
        };
        self.depth_left = left;
        self.at += 1;
        let value = read(self)?;
        self.depth_left += 1;
        Ok(value)
    }

    fn array(&mut self) -> Step<Value> {
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(items.into()));
        }
        loop {
            self.blanks();
            items.push(self.value()?);
            if self.ends(b']', "`,` or `]`")? {
                return Ok(Value::List(items.into()));
            }
        }
    }

    fn object(&mut self) -> Step<Value> {
        let mut members: Vec<(String, Value)> = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(members.into()));
        }
        let mut names = Names::default();
        loop {
            self.blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.expected("the name of a member in quotes"));
            }
            let name = self.string()?;
            if !names.insert(&members, &name) {
                self.at = start;
                return Err(format!("the object has two members named {name:?}").into());
            }
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            self.blanks();
            members.push((name, self.value()?));
            if self.ends(b'}', "`,` or `}`")? {
                return Ok(Value::Map(members.into()));
            }
        }
    }

    /// Whether the list or object ends here; otherwise a comma was read.
    fn ends(&mut self, end: u8, what: &str) -> Step<bool> {
        self.blanks();
        let found = self.peek();
        if found != Some(end) && found != Some(b',') {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(found == Some(end))
    }

    fn string(&mut self) -> Step<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => {
                    return Err(format!("a string can't hold {} as it is; escape it", self.found()).into());
                }
                None => return Err("the string does not end".into()),
            }
        }
    }

    fn escape(&mut self) -> Step<char> {
        let c = match self.text.as_bytes().get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            Some(_) | None => return Err("there is no such escape".into()),
        };
        self.at += 2;
        Ok(c)
    }

    fn unicode(&mut self) -> Step<char> {
        let first = self.unit(self.at).ok_or("`\\u` is followed by four hexadecimal digits")?;
        if let Some(c) = char::from_u32(first) {
            self.at += 6;
            return Ok(c);
        }
        let pair = self.unit(self.at + 6).and_then(|second| {
            let second = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            let first = first.checked_sub(0xd800).filter(|high| *high < 0x400)?;
            char::from_u32(0x1_0000 + (first << 10) + second)
        });
        let c = pair.ok_or("half of a surrogate pair is no character")?;
        self.at += 12;
        Ok(c)
    }

    /// The number in `\uXXXX` at this place.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits = std::str::from_utf8(digits).ok()?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Step<Number> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        self.digits()?;
        if self.text.as_bytes()[first] == b'0' && self.at > first + 1 {
            self.at = first;
            return Err("a number can't begin with a zero".into());
        }
        let whole = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        let number = if self.at == whole { integer(text) } else { float(text) };
        number.map_err(|message| {
            self.at = start;
            message.into()
        })
    }

    fn digits(&mut self) -> Step<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }
}

fn integer(text: &str) -> Result<Number, &'static str> {
    if let Ok(number) = text.parse() {
        return Ok(Number::Integer(number));
    }
    text.parse()
        .map(Number::Unsigned)
        .map_err(|_| "the number does not fit into 64 bits; write it as a string")
}

fn float(text: &str) -> Result<Number, &'static str> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .map(Number::Float)
        .ok_or("the number is too large")
}

/// The names of an object so far: compared one by one while they are few, by hash when they are
/// many, so that a body full of names does not take quadratic time.
#[derive(Default)]
struct Names {
    many: HashSet<String>,
}

impl Names {
    const FEW: usize = 16;

    /// Adds a name; `false` if it was there.
    fn insert(&mut self, members: &[(String, Value)], name: &str) -> bool {
        if members.len() < Self::FEW {
            return members.iter().all(|(present, _)| present != name);
        }
        if self.many.is_empty() {
            self.many.extend(members.iter().map(|(present, _)| present.clone()));
        }
        self.many.insert(name.to_owned())
    }
}

/// Appends a value as compact JSON.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Text(text) => write_text(text, out),
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Map(members) => {
            out.push(b'{');
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_text(name, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends a text as a JSON string.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing text to memory can't fail");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEPTH_MAX: usize = 8;

    fn shown(text: &str) -> String {
        match read(text.as_bytes(), DEPTH_MAX) {
            Ok(value) => {
                let mut out = Vec::new();
                write(&value, &mut out);
                String::from_utf8(out).unwrap()
            }
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn what_can_be_kept_is_read_as_it_stands() {
        for (text, compact) in [
            (" null ", "null"),
            ("[ true , false ]", "[true,false]"),
            ("{\"b\":1,\n\t\"a\":[]}\r\n", "{\"b\":1,\"a\":[]}"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("0.1", "0.1"),
            ("1e20", "1e20"),
            ("-1.5E-3", "-0.0015"),
            ("1.0", "1.0"),
            (r#""\u00e4\ud83d\ude00\/\b\f\n\r\t\"\\""#, "\"ä😀/\\b\\f\\n\\r\\t\\\"\\\\\""),
            (r#""\u0000""#, "\"\\u0000\""),
            ("[[[[[[[[]]]]]]]]", "[[[[[[[[]]]]]]]]"),
            ("[[],[],[],[],[],[],[],[],[],[]]", "[[],[],[],[],[],[],[],[],[],[]]"),
        ] {
            assert_eq!(shown(text), compact, "{text}");
        }
    }

    #[test]
    fn what_can_not_be_kept_is_refused_with_its_place() {
        for (text, message) in [
            ("", "line 1, column 1: expected a value, found the end of the text"),
            ("\u{feff}{}", "line 1, column 1: the text begins with a byte order mark; leave it out"),
            ("{} {}", "line 1, column 4: there is more text after the value"),
            ("{}\0", "line 1, column 3: there is more text after the value"),
            ("nul", "line 1, column 1: expected a value, found 'n'"),
            ("NaN", "line 1, column 1: expected a value, found 'N'"),
            ("Infinity", "line 1, column 1: expected a value, found 'I'"),
            ("-Infinity", "line 1, column 2: expected a digit, found 'I'"),
            ("1e999", "line 1, column 1: the number is too large"),
            (
                "18446744073709551616",
                "line 1, column 1: the number does not fit into 64 bits; write it as a string",
            ),
            (
                "-9223372036854775809",
                "line 1, column 1: the number does not fit into 64 bits; write it as a string",
            ),
            ("01", "line 1, column 1: a number can't begin with a zero"),
            ("-01", "line 1, column 2: a number can't begin with a zero"),
            ("1.", "line 1, column 3: expected a digit, found the end of the text"),
            (".5", "line 1, column 1: expected a value, found '.'"),
            ("+1", "line 1, column 1: expected a value, found '+'"),
            ("0x10", "line 1, column 2: there is more text after the value"),
            ("1e", "line 1, column 3: expected a digit, found the end of the text"),
            ("'a'", "line 1, column 1: expected a value, found '\\''"),
            ("[1,]", "line 1, column 4: expected a value, found ']'"),
            ("[1 2]", "line 1, column 4: expected `,` or `]`, found '2'"),
            ("[1", "line 1, column 3: expected `,` or `]`, found the end of the text"),
            ("{\"a\":1,}", "line 1, column 8: expected the name of a member in quotes, found '}'"),
            ("{a:1}", "line 1, column 2: expected the name of a member in quotes, found 'a'"),
            ("{\"a\" 1}", "line 1, column 6: expected `:`, found '1'"),
            ("{\"a\":1}}", "line 1, column 8: there is more text after the value"),
            ("{\n \"a\":1,\n \"ä\":2, \"a\":3}", "line 3, column 9: the object has two members named \"a\""),
            (r#"{"a":1,"\u0061":2}"#, "line 1, column 8: the object has two members named \"a\""),
            ("// x\n1", "line 1, column 1: expected a value, found '/'"),
            ("\"a", "line 1, column 3: the string does not end"),
            ("\"a\nb\"", "line 1, column 3: a string can't hold '\\n' as it is; escape it"),
            (r#""\x41""#, "line 1, column 2: there is no such escape"),
            (r#""\u12g4""#, "line 1, column 2: `\\u` is followed by four hexadecimal digits"),
            (r#""\u+123""#, "line 1, column 2: `\\u` is followed by four hexadecimal digits"),
            (r#""\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
            (r#""\ud800\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
            (r#""\udc00\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
            (r#""\ud800x""#, "line 1, column 2: half of a surrogate pair is no character"),
            ("[[[[[[[[[]]]]]]]]]", "line 1, column 9: lists and objects are nested too deep"),
            ("\u{a0}1", "line 1, column 1: expected a value, found '\\u{a0}'"),
        ] {
            assert_eq!(shown(text), message, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_refused_with_their_place() {
        for bytes in [&b"\"a\n\xff\""[..], b"\"a\n\xc3\"", b"\"a\n\xed\xa0\x80\""] {
            let fault = read(bytes, DEPTH_MAX).unwrap_err();
            assert_eq!(fault.to_string(), "line 2, column 1: the text is not UTF-8");
        }
    }

    #[test]
    fn endless_nesting_is_refused_and_not_followed() {
        for text in ["[".repeat(1_000_000), "{\"a\":".repeat(200_000)] {
            let fault = read(text.as_bytes(), 128).unwrap_err();
            assert_eq!(fault.message, "lists and objects are nested too deep");
        }
    }

    #[test]
    fn a_name_that_returns_after_many_others_is_found() {
        let many: Vec<String> = (0..50_000).map(|n| format!("\"n{n}\":0")).collect();
        assert!(read(format!("{{{}}}", many.join(",")).as_bytes(), 1).is_ok());
        assert!(read(format!("{{{},\"n7\":1}}", many.join(",")).as_bytes(), 1).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|n| Value::Number(Number::Integer(n))),
            prop::num::f64::NORMAL.prop_map(|n| Value::Number(Number::Float(n))),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(|items| Value::List(items.into())),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Map(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same_here_and_elsewhere(value in value()) {
            let mut out = Vec::new();
            write(&value, &mut out);
            prop_assert_eq!(&read(&out, DEPTH_MAX).unwrap(), &value);
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        }

        #[test]
        fn no_text_is_taken_that_a_general_reader_refuses(text in r#"[\[\]{}:,"\\u0-9eE+.\- a-ftrn]{0,24}"#) {
            if read(text.as_bytes(), DEPTH_MAX).is_ok() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}
