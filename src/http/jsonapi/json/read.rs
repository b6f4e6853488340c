//! A strict JSON parser.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::domain::{FloatRangeError, Number, Value};

/// Why a text can't be read as JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(crate) struct JsonFault {
    /// The line number, from 1.
    line: usize,
    /// The column in characters, from 1.
    column: usize,
    message: Cow<'static, str>,
}

/// The message for a text that exceeds the nesting limit.
const TOO_DEEP: &str = "lists and objects are nested too deep";

impl JsonFault {
    /// Whether the text exceeds the nesting limit.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.message == TOO_DEEP
    }
}

/// Reads one JSON value.
///
/// # Errors
///
/// Returns the first fault.
pub(crate) fn read(bytes: &[u8], depth_max: usize) -> Result<Value, JsonFault> {
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

fn fault(text: &str, at: usize, message: impl Into<Cow<'static, str>>) -> JsonFault {
    let before = &text[..at.min(text.len())];
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    JsonFault { line, column, message: message.into() }
}

type Step<T> = Result<T, Cow<'static, str>>;

/// A text and the position in it. When a step fails, `at` is the position of the offending character.
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

    /// Describes the next character for an error message.
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
            return Err(TOO_DEEP.into());
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

    /// Consumes `end` or a comma; returns whether the list or object ends here.
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

    /// Returns the code unit of the `\uXXXX` escape at this position.
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
    Number::parse_float(text).map_err(|why| match why {
        FloatRangeError::TooLarge => "the number is too large",
        FloatRangeError::TooSmall => "the number is too small; write 0, or a string",
    })
}

/// The member names of an object so far. Few names are compared one by one and many are hashed, so that an object
/// with many members does not take quadratic time.
#[derive(Default)]
struct Names {
    many: HashSet<String>,
}

impl Names {
    const FEW: usize = 16;

    /// Adds a name; returns `false` if it was already present.
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
