//! Web origins.

use std::str::FromStr;

/// The origin of web pages: a scheme, a host and, unless it is the scheme's default, a port; or any origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `*`.
    Any,
    /// One origin, as browsers send it.
    One(String),
}

impl FromStr for Origin {
    type Err = String;

    /// Converts to what browsers send, because origins are compared byte by byte: lower case, without the default
    /// port.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let wrong = || format!("{text:?} is no origin; write `https://cms.example.org` or `*`");
        let lower = text.to_ascii_lowercase();
        let (scheme, host) = lower.split_once("://").ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '@' | '*' | ',' | '"');
        if scheme.is_empty() || host.is_empty() || !lower.replacen("://", "", 1).chars().all(plain) {
            return Err(wrong());
        }
        let own_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        Ok(Self::One(format!("{scheme}://{}", host.strip_suffix(own_port).unwrap_or(host))))
    }
}
