//! What to serve, and where.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::{BasePath, Limits, ListenAddress, Origin, RemoteConfig, WebhookConfig};

/// What to serve, and where.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ServeConfig {
    /// The repository, and how its work tree is kept.
    #[command(flatten)]
    pub repository: RepositoryConfig,

    /// Where to listen.
    #[command(flatten)]
    pub listen: ListenConfig,

    /// How requests are answered.
    #[command(flatten)]
    pub http: HttpConfig,

    /// The identity and key of commits.
    #[command(flatten)]
    pub commits: CommitConfig,

    /// The remote that is shared with other services, if there is one.
    #[command(flatten)]
    pub remote: RemoteConfig,

    /// Webhook receivers.
    #[command(flatten)]
    pub webhooks: WebhookConfig,

    /// The limits.
    #[command(flatten)]
    pub limits: Limits,
}

/// The repository, and how its work tree is kept.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct RepositoryConfig {
    /// The repository: bare or with a work tree. Created if the folder is absent or empty.
    #[arg(long = "repo", env = "COLLECTORY_REPO", value_name = "DIR", default_value = REPOSITORY_DEFAULT)]
    pub dir: PathBuf,

    /// The branch to serve; by default the one that HEAD names at the start or, during a rebase or a bisection, the
    /// one that was served last. It stays the same while the service runs, whatever is checked out. It must exist,
    /// unless the repository has no branch at all: then the first write creates it.
    #[arg(long, env = "COLLECTORY_BRANCH", value_name = "NAME",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub branch: Option<String>,

    /// The folder of the collection files inside the repository; may be nested, such as `.cms/collections`.
    #[arg(long = "path", env = "COLLECTORY_PATH", value_name = "FOLDER", default_value = FOLDER_DEFAULT,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub folder: String,

    /// What to do with saved files that are not committed: serve them immediately, or ignore them.
    #[arg(long, env = "COLLECTORY_UNCOMMITTED", value_name = "WHAT", value_enum, default_value_t = Uncommitted::Serve)]
    pub uncommitted: Uncommitted,

    /// How to notice hand edits: by notifications of the system, or only by the slow tick (`--tick-ms`), for file
    /// systems without notifications.
    #[arg(long, env = "COLLECTORY_WATCH", value_name = "WHAT", value_enum, default_value_t = Watching::System)]
    pub watch: Watching,

    /// Whether to maintain the repository in the background: to merge the small packs that writes leave, pack the
    /// loose objects that `git commit` leaves, and keep git's commit-graph up to date for a fast `git log` on a file.
    /// Otherwise that is left to `git gc`.
    ///
    /// It takes a quarter of a core at most. What the repository then has (packs, objects, bytes, loose objects) is
    /// logged at level info, once an hour at most and at the end.
    #[arg(long, env = "COLLECTORY_MAINTENANCE", value_name = "WHETHER", value_enum, default_value_t = Maintenance::On)]
    pub maintenance: Maintenance,

    /// Serve a repository that belongs to another user. Without this flag it is refused, as git refuses it, unless
    /// git's `safe.directory` names it.
    #[arg(long, env = "COLLECTORY_ANY_OWNER")]
    pub any_owner: bool,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ListenConfig {
    /// Where to listen: HOST:PORT (port 0 takes a free one), :PORT for every address of the machine, or
    /// unix:PATH for a socket that its owner and group may use (mode 0660).
    #[arg(long = "listen", env = "COLLECTORY_LISTEN", value_name = "HOST:PORT|:PORT|unix:PATH",
          default_value_t = listen_default())]
    pub address: ListenAddress,

    /// Where to listen for monitoring: `/metrics` for Prometheus, `/livez`, and a `/readyz` with all details, without
    /// TLS and for anyone who can reach it. Off by default.
    ///
    /// Takes the same forms as --listen; 127.0.0.1:9464 is a good choice. See README, "Operate it".
    #[arg(long = "admin-listen", env = "COLLECTORY_ADMIN_LISTEN", value_name = "HOST:PORT|:PORT|unix:PATH")]
    pub admin: Option<ListenAddress>,

    /// Serve TLS (1.2 and 1.3) with this certificate, followed by its chain, in PEM; needs --tls-key.
    ///
    /// Both files are read again when they change and on SIGHUP; the last good pair stays in use if the new one can't
    /// be used, and the log says why. A Unix socket is served without TLS.
    #[arg(long, env = "COLLECTORY_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM, which only the service may be able to read.
    #[arg(long, env = "COLLECTORY_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// How requests are answered.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct HttpConfig {
    /// The path below which the API is served, such as `/settings/v1`.
    #[arg(long, env = "COLLECTORY_BASE_PATH", value_name = "PATH", default_value_t = BasePath::root())]
    pub base_path: BasePath,

    /// Refuse updates and deletes without `If-Match`, with 428.
    #[arg(long, env = "COLLECTORY_REQUIRE_IF_MATCH")]
    pub require_if_match: bool,

    /// Web pages of this origin may use the service, such as `https://cms.example.org`; may be given several times or
    /// as a comma list. `*` allows every page, without credentials. By default no page of another origin may.
    #[arg(
        long = "cors-origin",
        env = "COLLECTORY_CORS_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    pub cors_origins: Vec<Origin>,

    /// A host name by which an open service (`--auth none` or `allow-all`) on a loopback address may be reached, in
    /// addition to `localhost` and the loopback addresses; with or without a port. May be given several times or as a
    /// comma list. Requests for other hosts are answered 421.
    #[arg(long = "allow-host", env = "COLLECTORY_ALLOW_HOST", value_name = "HOST", value_delimiter = ',',
          value_parser = host)]
    pub allow_hosts: Vec<String>,

    /// Send the whole list compressed (gzip) to clients that accept it, if it is large enough to pay off. It is
    /// compressed once after each change.
    #[arg(long, env = "COLLECTORY_COMPRESS")]
    pub compress: bool,

    /// Whether to serve the web pages, below `/ui/`, with the same rights as the API.
    #[arg(long, env = "COLLECTORY_UI", value_name = "WHETHER", value_enum, default_value_t = WebPages::On)]
    pub ui: WebPages,
}

/// The identity and key of commits.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct CommitConfig {
    /// The name under which the service commits; the authors are the callers.
    #[arg(long, env = "COLLECTORY_COMMITTER_NAME", value_name = "NAME", default_value = "Collectory",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub committer_name: String,

    /// The e-mail address under which the service commits.
    #[arg(long, env = "COLLECTORY_COMMITTER_EMAIL", value_name = "EMAIL", default_value = "collectory@localhost",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub committer_email: String,

    /// Sign every commit with the SSH key in this file, in git's own format. It must be a private key without a
    /// passphrase that no other user can read: ssh-keygen -t ed25519 -N '' -f FILE
    ///
    /// Ed25519 and ECDSA on P-256; read once, at the start. A file of the service's own user that its group or others
    /// may read is refused, as ssh does; a file of another user, such as a mounted secret, is refused only if everyone
    /// may read it. If the public key is listed with the committer's e-mail address among git's allowed signers
    /// (`gpg.ssh.allowedSignersFile`), `git log --show-signature` and `collectory verify` trust it.
    #[arg(long, env = "COLLECTORY_SIGNING_KEY", value_name = "FILE")]
    pub signing_key: Option<PathBuf>,
}

/// The repository when none is named.
pub const REPOSITORY_DEFAULT: &str = "./settings";

/// The folder of the collection files when none is named.
pub const FOLDER_DEFAULT: &str = "collections";

impl ServeConfig {
    /// Returns the configuration for this repository, with defaults for everything else.
    #[must_use]
    pub fn new(repository: impl Into<PathBuf>) -> Self {
        Self {
            repository: RepositoryConfig {
                dir: repository.into(),
                branch: None,
                folder: FOLDER_DEFAULT.to_owned(),
                uncommitted: Uncommitted::Serve,
                watch: Watching::System,
                maintenance: Maintenance::On,
                any_owner: false,
            },
            listen: ListenConfig { address: listen_default(), admin: None, tls_cert: None, tls_key: None },
            http: HttpConfig {
                base_path: BasePath::root(),
                require_if_match: false,
                cors_origins: Vec::new(),
                allow_hosts: Vec::new(),
                compress: false,
                ui: WebPages::On,
            },
            commits: CommitConfig {
                committer_name: "Collectory".to_owned(),
                committer_email: "collectory@localhost".to_owned(),
                signing_key: None,
            },
            remote: RemoteConfig::DEFAULT,
            webhooks: WebhookConfig::default(),
            limits: Limits::DEFAULT,
        }
    }
}

/// The default address to listen on.
pub(crate) fn listen_default() -> ListenAddress {
    SocketAddr::from(([127, 0, 0, 1], 8080)).into()
}

/// How hand edits are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Watching {
    /// Notifications of the system, and the tick for what they miss.
    System,
    /// Only the tick.
    None,
}

/// Whether the web pages are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WebPages {
    /// Below `/ui/`.
    On,
    /// Nowhere: every path is one of the API.
    Off,
}

/// Whether the repository is maintained in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Maintenance {
    /// Merge small packs, pack loose objects, and keep the commit-graph up to date.
    On,
    /// Leave packs, loose objects and the commit-graph as they are.
    Off,
}

/// What to do with saved files that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Uncommitted {
    /// Serve them immediately, in place of the committed version, and mark them.
    Serve,
    /// Serve only what is committed.
    Ignore,
}

/// Parses a host as browsers name it: a name or an address, and optionally a port.
fn host(text: &str) -> Result<String, String> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (text, "0"),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(is_plain),
    };
    if !is_name || !port.bytes().all(|byte| byte.is_ascii_digit()) || port.parse::<u16>().is_err() {
        return Err("write a host as settings.example.org or settings.example.org:8080".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn parsed(args: &[&str]) -> Result<ServeConfig, clap::Error> {
        let command = ServeConfig::augment_args(Command::new("serve").no_binary_name(true));
        // The environment of the test run must not affect the result.
        let command = command.mut_args(|arg| arg.env(None::<&str>));
        ServeConfig::from_arg_matches(&command.try_get_matches_from(args)?)
    }

    #[test]
    fn without_flags_the_defaults_hold() {
        assert_eq!(parsed(&[]).unwrap(), ServeConfig::new("./settings"));
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_its_name() {
        let command = ServeConfig::augment_args(Command::new("serve"));
        for arg in command.get_arguments() {
            let flag = arg.get_long().expect("all of them are flags").to_uppercase().replace('-', "_");
            assert_eq!(
                arg.get_env().and_then(|name| name.to_str()),
                Some(format!("COLLECTORY_{flag}").as_str()),
                "{arg}"
            );
        }
    }

    #[test]
    fn a_limit_out_of_range_is_wrong_usage() {
        for args in [
            ["--queue-len-max", "0"],
            ["--queue-len-max", "18446744073709551615"],
            ["--races-max", "18446744073709551615"],
            ["--header-bytes-max", "10"],
            ["--json-depth-max", "100000"],
            ["--tick-ms", "0"],
            ["--body-bytes-max", "-1"],
            ["--body-bytes-max", "65535"],
            ["--listen", "localhost"],
        ] {
            assert!(parsed(&args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for text in
            ["settings.test", "Settings.test:8080", "my_host", "10.0.0.1:80", "[::1]", "[fe80::1]:8080"]
        {
            assert_eq!(parsed(&["--allow-host", text]).unwrap().http.allow_hosts, [text]);
        }
        assert_eq!(parsed(&["--allow-host", "a,b:1"]).unwrap().http.allow_hosts, ["a", "b:1"]);
        for text in [
            "", "a b", "a, b", "http://x", "x/", "x:", ":80", "x:http", "x:+1", "x:65536", "::1", "[x]",
            "a@b",
        ] {
            assert!(parsed(&["--allow-host", text]).is_err(), "{text}");
        }
    }

    #[test]
    fn origins_are_listed_in_one_flag_or_in_several() {
        let one = |text: &str| Origin::One(text.to_owned());
        let flags = ["--cors-origin", "https://a.org,http://b.org:3000", "--cors-origin", "*"];
        let origins = parsed(&flags).unwrap().http.cors_origins;
        assert_eq!(origins, [one("https://a.org"), one("http://b.org:3000"), Origin::Any]);
        for (text, kept) in [
            ("https://CMS.example.org", "https://cms.example.org"),
            ("https://a.org:443", "https://a.org"),
            ("http://a.org:443", "http://a.org:443"),
            ("tauri://localhost", "tauri://localhost"),
        ] {
            assert_eq!(text.parse(), Ok(one(kept)));
        }
        for text in ["", "cms.example.org", "https://", "https://a/b", "https://*.a.org", "://a", "null"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
