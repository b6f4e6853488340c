//! Media types in headers (RFC 9110 section 8.3.1).

use crate::http::jsonapi::negotiate::{ANYTHING, Dialect, JSON_API};

/// The names of JSON:API in `Accept`, the most exact one last. Plain JSON is answered in JSON:API.
const NAMES_OF_JSON_API: [&str; 4] = [ANYTHING, "application/*", "application/json", JSON_API];

/// The weight of JSON:API in `Accept`, by the most exact of its names there (RFC 9110 section 12.5.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct JsonApiWeight {
    /// How exact the name is; zero if there is none.
    exactness: usize,
    pub(crate) weight: f32,
}

impl JsonApiWeight {
    pub(crate) fn of_name(name: &str, weight: f32) -> Self {
        let found = NAMES_OF_JSON_API.iter().position(|known| known.eq_ignore_ascii_case(name));
        found.map_or(Self::default(), |at| Self { exactness: at + 1, weight })
    }

    /// Takes another name into account.
    pub(crate) fn note(&mut self, other: Self) {
        if other > *self {
            *self = other;
        }
    }
}

/// A media type with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MediaType<'a> {
    essence: &'a str,
    /// Names in lower case; values without quotes and escapes.
    parameters: Vec<(String, String)>,
}

impl<'a> MediaType<'a> {
    /// Parses a list of media types (RFC 9110 sections 5.6, 8.3.1 and 12.5.1); `None` if it is malformed.
    pub(crate) fn list(text: &'a str) -> Option<Vec<Self>> {
        let mut scan = Scan { rest: text };
        let mut types = Vec::new();
        loop {
            scan.blanks();
            if scan.rest.is_empty() {
                return Some(types);
            }
            if !scan.eat(',') {
                types.push(scan.media_type()?);
                scan.blanks();
                if !scan.rest.is_empty() && !scan.eat(',') {
                    return None;
                }
            }
        }
    }

    pub(crate) fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    /// Returns the URIs in a parameter, which are separated by blanks.
    pub(crate) fn uris(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let values = self.parameters.iter().filter(move |(found, _)| found == name);
        values.flat_map(|(_, value)| value.split_ascii_whitespace())
    }

    /// Whether this is JSON:API in a supported form: with no parameters except `ext`, `profile` and the weight `q`,
    /// with no unknown extension, and not excluded by a weight of zero.
    pub(crate) fn is_supported(&self, dialect: Dialect) -> bool {
        self.is(JSON_API)
            && self.parameters.iter().all(|(name, value)| match name.as_str() {
                "profile" => true,
                "ext" => value.split_ascii_whitespace().all(|uri| dialect.knows(uri)),
                "q" => value.parse::<f32>().is_ok_and(|weight| weight > 0.0),
                _ => false,
            })
    }

    /// Whether a body may have this type: it [`is_supported`](Self::is_supported) and has no weight, which is for `Accept`.
    pub(crate) fn is_sent(&self, dialect: Dialect) -> bool {
        self.is_supported(dialect) && self.parameters.iter().all(|(name, _)| name != "q")
    }

    /// Returns the weight (RFC 9110 section 12.4.2); zero if it can't be parsed.
    pub(crate) fn weight(&self) -> f32 {
        let weight = self.parameters.iter().find(|(name, _)| name == "q");
        weight.map_or(1.0, |(_, weight)| weight.parse().unwrap_or(0.0))
    }

    /// Returns the weight that this gives to JSON:API, which is zero for one of its unsupported forms.
    pub(crate) fn weight_of_json_api(&self) -> JsonApiWeight {
        let is_unsupported = self.is(JSON_API) && !self.is_supported(Dialect::Plain);
        JsonApiWeight::of_name(self.essence, if is_unsupported { 0.0 } else { self.weight() })
    }

    pub(crate) fn is_plain_json(&self) -> bool {
        self.is("application/json") && self.parameters.iter().all(|(name, _)| name == "charset")
    }
}

/// The unparsed rest of a header.
struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn token(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c: char| !is_token_char(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn media_type(&mut self) -> Option<MediaType<'a>> {
        let start = self.rest;
        self.token()?;
        if !self.eat('/') {
            return None;
        }
        self.token()?;
        let essence = &start[..start.len() - self.rest.len()];
        let mut parameters = Vec::new();
        loop {
            self.blanks();
            if !self.eat(';') {
                return Some(MediaType { essence, parameters });
            }
            self.blanks();
            if !self.rest.is_empty() && !self.rest.starts_with([';', ',']) {
                parameters.push(self.parameter()?);
            }
        }
    }

    fn parameter(&mut self) -> Option<(String, String)> {
        let name = self.token()?.to_ascii_lowercase();
        if !self.eat('=') {
            return None;
        }
        let value = if self.eat('"') { self.quoted()? } else { self.token()?.to_owned() };
        Some((name, value))
    }

    /// Parses the rest of a quoted string.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(chars.next()?.1),
                c => text.push(c),
            }
        }
        None
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}
