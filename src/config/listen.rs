//! The address to listen on, as given on the command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and a port; port 0 takes a free one.
    Address(SocketAddr),
    /// A port on every address of the machine.
    Port(u16),
    /// A host name, which is looked up at the start, and a port.
    Name(String, u16),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write HOST:PORT, :PORT for every address, or unix:PATH, as 127.0.0.1:8080, localhost:8080, [::1]:8080, :80 or unix:/run/collectory.sock".to_owned()
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let is_name =
            host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
        match host {
            "" => Ok(Self::Port(port)),
            host if is_name => Ok(Self::Name(host.to_owned(), port)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Port(port) => write!(f, ":{port}"),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_it_is_shown_as_it_was_written() {
        for text in
            ["127.0.0.1:8080", "[::1]:0", "localhost:8080", ":80", "unix:/run/collectory.sock", "unix:a"]
        {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        assert_eq!(":80".parse(), Ok(ListenAddress::Port(80)));
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for text in ["", "localhost", "8080", ":", ":http", "::1:80", "a b:80", "unix:", "127.0.0.1:99999"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
