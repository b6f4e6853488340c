//! The URL of a remote, as git takes it and as it may be shown.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// How a remote is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A folder on this machine.
    Folder,
    /// `https://`.
    Https,
    /// `http://`: traffic can be read and changed on the way.
    Http,
    /// `ssh://host/path` or `host:path`.
    Ssh,
    /// `git://`: traffic can be read and changed on the way.
    Git,
}

/// The URL of a remote. When shown, it has no password and, for http, no user, which may be a token.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    transport: Transport,
    /// The URL for git, without the user part of http.
    text: String,
    /// The user of http, percent-encoded.
    user: Option<String>,
}

impl RemoteUrl {
    /// The transport.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns whether traffic can be read and changed on the way.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        matches!(self.transport, Transport::Http | Transport::Git)
    }

    /// The folder, if the remote is one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        (self.transport == Transport::Folder).then(|| Path::new(&self.text))
    }

    /// The user in an http URL, decoded.
    pub(crate) fn user(&self) -> Option<String> {
        self.user.as_ref().map(|user| percent_decode_str(user).decode_utf8_lossy().into_owned())
    }

    /// The scheme, host and port of an http URL.
    pub(crate) fn origin(&self) -> &str {
        origin_of(&self.text)
    }

    /// The URL for git; `with_user` keeps the user of http, for when git has to get the password elsewhere.
    pub(crate) fn for_git(&self, with_user: bool) -> String {
        match &self.user {
            Some(user) if with_user => self.text.replacen("://", &format!("://{user}@"), 1),
            Some(_) | None => self.text.clone(),
        }
    }
}

impl FromStr for RemoteUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.starts_with('-') || names_helper(text) || text.contains(char::is_control) {
            return Err("write https://HOST/PATH, ssh://HOST/PATH, HOST:PATH or a folder".to_owned());
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text.split_once(':') {
                Some((host, _)) if !host.contains('/') => Ok(Self::plain(Transport::Ssh, text)),
                _ => folder(text),
            };
        };
        let transport = match scheme {
            "https" => Transport::Https,
            "http" => Transport::Http,
            "ssh" | "git+ssh" | "ssh+git" => Transport::Ssh,
            "git" => Transport::Git,
            "file" => return folder(&path_of(rest)?),
            _ => return Err(format!("`{scheme}` is not spoken; https, ssh, git, http and folders are")),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let Some((user, host)) = authority.rsplit_once('@') else { return Ok(Self::plain(transport, text)) };
        if user.contains(':') && transport == Transport::Ssh {
            return Err("ssh takes no password from a URL; name a key with --remote-key".to_owned());
        }
        if user.contains(':') {
            return Err("a password in a URL is seen by everybody on the machine; put it into a file and name that with \
                        --remote-token-file"
                .to_owned());
        }
        if matches!(transport, Transport::Ssh | Transport::Git) {
            return Ok(Self::plain(transport, text));
        }
        let rest = &rest[authority.len()..];
        Ok(Self { transport, text: format!("{scheme}://{host}{rest}"), user: Some(user.to_owned()) })
    }
}

impl RemoteUrl {
    fn plain(transport: Transport, text: &str) -> Self {
        Self { transport, text: text.to_owned(), user: None }
    }
}

/// Returns the part of a URL before its path.
pub(crate) fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find('/').map_or(url, |path| &url[..host + path])
}

/// Returns whether git would run a remote helper program for it, as for `ext::COMMAND`.
fn names_helper(text: &str) -> bool {
    text.split_once("::").is_some_and(|(name, _)| {
        !name.contains(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '+' | '-' | '.'))
    })
}

/// Returns the path in what follows `file://`, as git reads it.
fn path_of(rest: &str) -> Result<String, String> {
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| "the path is not UTF-8".to_owned())?;
    if decoded.contains(char::is_control) {
        Err("the path has control characters".to_owned())
    } else {
        Ok(decoded.into_owned())
    }
}

/// Returns a folder as an absolute path, because git runs in another directory.
fn folder(text: &str) -> Result<RemoteUrl, String> {
    let path: PathBuf = std::path::absolute(text).map_err(|error| error.to_string())?;
    let text = path.into_os_string().into_string().map_err(|_| "the path is not UTF-8".to_owned())?;
    Ok(RemoteUrl { transport: Transport::Folder, text, user: None })
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_named_as_git_takes_it() {
        for (text, transport, shown) in [
            ("https://github.com/a/b.git", Transport::Https, "https://github.com/a/b.git"),
            ("https://token@github.com/a/b.git", Transport::Https, "https://github.com/a/b.git"),
            ("http://127.0.0.1:1/x", Transport::Http, "http://127.0.0.1:1/x"),
            ("ssh://git@host:22/a", Transport::Ssh, "ssh://git@host:22/a"),
            ("git@github.com:a/b.git", Transport::Ssh, "git@github.com:a/b.git"),
            ("git://host/a", Transport::Git, "git://host/a"),
            ("/srv/settings.git", Transport::Folder, "/srv/settings.git"),
            ("file:///srv/settings.git", Transport::Folder, "/srv/settings.git"),
            ("file://localhost/srv/a%20b.git", Transport::Folder, "/srv/a b.git"),
            ("/srv/a:b", Transport::Folder, "/srv/a:b"),
            ("/srv/a::b", Transport::Folder, "/srv/a::b"),
            ("ssh://git@[::1]:22/a", Transport::Ssh, "ssh://git@[::1]:22/a"),
            ("[::1]:a", Transport::Ssh, "[::1]:a"),
            ("https://[2001:db8::1]/a", Transport::Https, "https://[2001:db8::1]/a"),
        ] {
            let url: RemoteUrl = text.parse().unwrap();
            assert_eq!((url.transport(), url.to_string().as_str()), (transport, shown), "{text}");
        }
        let text = "https://mara%40example.org@host/a";
        let url: RemoteUrl = text.parse().unwrap();
        assert_eq!((url.user().as_deref(), url.for_git(true).as_str()), (Some("mara@example.org"), text));
    }

    #[test]
    fn what_would_run_something_or_show_a_secret_is_refused() {
        for text in [
            "",
            "--upload-pack=x",
            "ext::sh -c x",
            "fd::3",
            "::x",
            "ftp://host/a",
            "https://a:b@host/c",
            "a\nb",
        ] {
            assert!(text.parse::<RemoteUrl>().is_err(), "{text}");
        }
        let advice = "ssh://a:b@host/c".parse::<RemoteUrl>().unwrap_err();
        assert!(advice.contains("--remote-key"), "{advice}");
        assert!("file:///a%0ab".parse::<RemoteUrl>().is_err());
    }
}
