//! Everything that can be set, with its default: from flags and environment variables, and from
//! no other source.
//!
//! Programs that embed the service fill the same plain structs ([`ServeConfig`], [`Limits`]) by
//! hand; the command line fills them with clap, where the flag `--queue-len-max` and the variable
//! `COLLECTORY_QUEUE_LEN_MAX` set [`Limits::queue_len_max`], and so on for every field.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The limits of the service. Units and the word `max` stand last in a name; each says what
/// happens to whoever meets it.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Writes that may wait for the writer; one more is answered 503 with Retry-After.
    #[arg(long, env = "COLLECTORY_QUEUE_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.queue_len_max, value_parser = at_least::<1>)]
    pub queue_len_max: usize,

    /// Writes that share one durability barrier; the others wait for the next batch.
    #[arg(long, env = "COLLECTORY_BATCH_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.batch_len_max, value_parser = at_least::<1>)]
    pub batch_len_max: usize,

    /// How often a batch is decided again after the branch moved under it, before 503.
    #[arg(long, env = "COLLECTORY_RACES_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.races_max, value_parser = at_least::<1>)]
    pub races_max: usize,

    /// How long a write waits for git's `index.lock`, before 503 with Retry-After.
    #[arg(long, env = "COLLECTORY_LOCK_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.lock_wait_ms_max)]
    pub lock_wait_ms_max: u64,

    /// Connections at one time; one more is answered 503 with Retry-After and closed.
    #[arg(long, env = "COLLECTORY_CONNECTIONS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.connections_max, value_parser = at_least::<1>)]
    pub connections_max: usize,

    /// The path and query of a request; more is 414.
    #[arg(long, env = "COLLECTORY_URI_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = Limits::DEFAULT.uri_bytes_max, value_parser = between::<256, 65_534>)]
    pub uri_bytes_max: usize,

    /// The names and values of a request's header fields together; more is 431.
    #[arg(long, env = "COLLECTORY_HEADER_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = Limits::DEFAULT.header_bytes_max, value_parser = between::<1_024, 1_048_576>)]
    pub header_bytes_max: usize,

    /// How long a client may take to send a request's head, and be idle between two requests;
    /// then the connection is closed.
    #[arg(long, env = "COLLECTORY_HEADER_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.header_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub header_wait_ms_max: u64,

    /// The body of a request; more is 413. At least the 64 KiB that a collection file may have.
    #[arg(long, env = "COLLECTORY_BODY_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = Limits::DEFAULT.body_bytes_max, value_parser = between::<65_536, 16_777_216>)]
    pub body_bytes_max: usize,

    /// How long a client may take to send a request's body, from its head on; then it is
    /// answered 408 and the connection is closed.
    #[arg(long, env = "COLLECTORY_BODY_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.body_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub body_wait_ms_max: u64,

    /// How long a client may take none of the answer that it is being sent; then the connection
    /// is closed.
    #[arg(long, env = "COLLECTORY_ANSWER_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.answer_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub answer_wait_ms_max: u64,

    /// Bytes of an unwanted body that are read and dropped, so that a client that sends before it
    /// listens gets its answer; after that the connection is closed.
    #[arg(long, env = "COLLECTORY_DISCARD_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = Limits::DEFAULT.discard_bytes_max)]
    pub discard_bytes_max: usize,

    /// How deep arrays and objects of a request's body nest; deeper is 400.
    #[arg(long, env = "COLLECTORY_JSON_DEPTH_MAX", value_name = "LEVELS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.json_depth_max, value_parser = between::<8, 120>)]
    pub json_depth_max: usize,

    /// Operations of one atomic request; more is 400.
    #[arg(long, env = "COLLECTORY_OPERATIONS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.operations_max, value_parser = at_least::<1>)]
    pub operations_max: usize,

    /// How long a write with an `Idempotency-Key` is remembered: asked for again, it is answered as
    /// the first time; after that it is a new one. 0 remembers nothing.
    #[arg(long, env = "COLLECTORY_IDEMPOTENCY_RETENTION_S", value_name = "SECONDS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.idempotency_retention_s)]
    pub idempotency_retention_s: u64,

    /// How many of them are remembered, the newest, and how many commits are looked through for
    /// them at start.
    #[arg(long, env = "COLLECTORY_IDEMPOTENCY_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.idempotency_len_max)]
    pub idempotency_len_max: usize,

    /// How often the repository is compared with what is served, for what the watcher missed.
    #[arg(long, env = "COLLECTORY_TICK_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.tick_ms, value_parser = clap::value_parser!(u64).range(10..))]
    pub tick_ms: u64,

    /// How long a file that is written in place must be left alone before it is read.
    #[arg(long, env = "COLLECTORY_SETTLE_QUIET_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.settle_quiet_ms)]
    pub settle_quiet_ms: u64,

    /// How long a file must stay invalid, empty or gone before that is believed.
    #[arg(long, env = "COLLECTORY_SETTLE_PATIENCE_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.settle_patience_ms)]
    pub settle_patience_ms: u64,

    /// How old the knowledge of the policy file may be: a change of it holds after this time.
    #[arg(long, env = "COLLECTORY_POLICY_AGE_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.policy_age_ms_max)]
    pub policy_age_ms_max: u64,

    /// How often a stream of events that has nothing to tell sends the head of the branch.
    #[arg(long, env = "COLLECTORY_HEARTBEAT_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.heartbeat_ms, value_parser = clap::value_parser!(u64).range(10..))]
    pub heartbeat_ms: u64,

    /// Events by which the reader of a stream may fall behind; then it is sent `reset`.
    #[arg(long, env = "COLLECTORY_LAG_EVENTS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = Limits::DEFAULT.lag_events_max, value_parser = at_least::<1>)]
    pub lag_events_max: usize,

    /// How long a question about the history waits for it to be read, before 503 with Retry-After.
    #[arg(long, env = "COLLECTORY_HISTORY_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.history_wait_ms_max)]
    pub history_wait_ms_max: u64,

    /// How long requests under way may take to finish at a shutdown, before they are cut off.
    #[arg(long, env = "COLLECTORY_SHUTDOWN_GRACE_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.shutdown_grace_ms)]
    pub shutdown_grace_ms: u64,
}

impl Limits {
    /// What holds unless something else is set.
    pub const DEFAULT: Self = Self {
        queue_len_max: 1_024,
        batch_len_max: 256,
        races_max: 8,
        lock_wait_ms_max: 2_000,
        connections_max: 4_096,
        uri_bytes_max: 16 * 1_024,
        header_bytes_max: 16 * 1_024,
        header_wait_ms_max: 30_000,
        body_bytes_max: 1_024 * 1_024,
        body_wait_ms_max: 30_000,
        answer_wait_ms_max: 30_000,
        discard_bytes_max: 16 * 1_024 * 1_024,
        json_depth_max: 64,
        operations_max: 1_000,
        idempotency_retention_s: 86_400,
        idempotency_len_max: 10_000,
        tick_ms: 5_000,
        settle_quiet_ms: 20,
        settle_patience_ms: 100,
        policy_age_ms_max: 100,
        heartbeat_ms: 15_000,
        lag_events_max: 10_000,
        history_wait_ms_max: 2_000,
        shutdown_grace_ms: 10_000,
    };

    /// [`lock_wait_ms_max`](Self::lock_wait_ms_max) as a duration.
    #[must_use]
    pub const fn lock_wait_max(&self) -> Duration {
        Duration::from_millis(self.lock_wait_ms_max)
    }

    /// [`body_wait_ms_max`](Self::body_wait_ms_max) as a duration.
    #[must_use]
    pub const fn body_wait_max(&self) -> Duration {
        Duration::from_millis(self.body_wait_ms_max)
    }

    /// [`tick_ms`](Self::tick_ms) as a duration.
    #[must_use]
    pub const fn tick(&self) -> Duration {
        Duration::from_millis(self.tick_ms)
    }

    /// [`policy_age_ms_max`](Self::policy_age_ms_max) as a duration.
    #[must_use]
    pub const fn policy_age_max(&self) -> Duration {
        Duration::from_millis(self.policy_age_ms_max)
    }

    /// [`heartbeat_ms`](Self::heartbeat_ms) as a duration.
    #[must_use]
    pub const fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    /// [`history_wait_ms_max`](Self::history_wait_ms_max) as a duration.
    #[must_use]
    pub const fn history_wait_max(&self) -> Duration {
        Duration::from_millis(self.history_wait_ms_max)
    }

    /// [`shutdown_grace_ms`](Self::shutdown_grace_ms) as a duration.
    #[must_use]
    pub const fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(self.shutdown_grace_ms)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What to serve, and where.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct ServeConfig {
    /// The repository: bare or with a work tree. Made when the folder is absent or empty.
    #[arg(long = "repo", env = "COLLECTORY_REPO", value_name = "DIR", default_value = REPOSITORY_DEFAULT)]
    pub repository: PathBuf,

    /// The branch to serve; without it the one that HEAD names at start. It stays while the
    /// service runs, whatever is checked out.
    #[arg(long, env = "COLLECTORY_BRANCH", value_name = "NAME",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub branch: Option<String>,

    /// The folder of the collection files inside the repository; may be nested, `.cms/collections`.
    #[arg(long = "path", env = "COLLECTORY_PATH", value_name = "FOLDER", default_value = FOLDER_DEFAULT,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub folder: String,

    /// The address and port to listen on; port 0 takes a free one.
    #[arg(long, env = "COLLECTORY_LISTEN", value_name = "ADDRESS:PORT", default_value_t = listen_default(),
          value_parser = listen)]
    pub listen: SocketAddr,

    /// The path below which the API stands, as `/settings/v1`.
    #[arg(long, env = "COLLECTORY_BASE_PATH", value_name = "PATH", default_value_t = BasePath::root())]
    pub base_path: BasePath,

    /// What becomes of saved files that are not committed: served at once, or ignored.
    #[arg(long, env = "COLLECTORY_UNCOMMITTED", value_name = "WHAT", value_enum, default_value_t = Uncommitted::Serve)]
    pub uncommitted: Uncommitted,

    /// Refuse updates and deletes that come without `If-Match`, with 428.
    #[arg(long, env = "COLLECTORY_REQUIRE_IF_MATCH")]
    pub require_if_match: bool,

    /// Web pages of this origin may use the service, as `https://cms.example.org`; may be given
    /// several times or as a comma list. `*` allows every page, without credentials. Without it
    /// no page of another origin may.
    #[arg(
        long = "cors-origin",
        env = "COLLECTORY_CORS_ORIGIN",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    pub cors_origins: Vec<Origin>,

    /// Send the whole list compressed (gzip) to clients that take it so, if it is large enough to
    /// pay. It is compressed once after each change.
    #[arg(long, env = "COLLECTORY_COMPRESS")]
    pub compress: bool,

    /// Whether the small packs that writes leave are merged in the background. Without it that is
    /// left to `git gc`.
    #[arg(long, env = "COLLECTORY_MAINTENANCE", value_name = "WHETHER", value_enum, default_value_t = Maintenance::On)]
    pub maintenance: Maintenance,

    /// The name under which the service commits; authors are the callers.
    #[arg(long, env = "COLLECTORY_COMMITTER_NAME", value_name = "NAME", default_value = "Collectory",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub committer_name: String,

    /// The e-mail address under which the service commits.
    #[arg(long, env = "COLLECTORY_COMMITTER_EMAIL", value_name = "EMAIL", default_value = "collectory@localhost",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub committer_email: String,

    /// The limits.
    #[command(flatten)]
    pub limits: Limits,
}

/// The repository that is meant when none is named.
pub const REPOSITORY_DEFAULT: &str = "./settings";

/// The folder of the collection files when none is named.
pub const FOLDER_DEFAULT: &str = "collections";

impl ServeConfig {
    /// Serves this repository with the default of everything else.
    #[must_use]
    pub fn new(repository: impl Into<PathBuf>) -> Self {
        Self {
            repository: repository.into(),
            branch: None,
            folder: FOLDER_DEFAULT.to_owned(),
            listen: listen_default(),
            base_path: BasePath::root(),
            uncommitted: Uncommitted::Serve,
            require_if_match: false,
            cors_origins: Vec::new(),
            compress: false,
            maintenance: Maintenance::On,
            committer_name: "Collectory".to_owned(),
            committer_email: "collectory@localhost".to_owned(),
            limits: Limits::DEFAULT,
        }
    }
}

fn listen_default() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8080))
}

/// Whether the repository is looked after in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Maintenance {
    /// Small packs are merged.
    #[default]
    On,
    /// Packs are left as they are.
    Off,
}

/// What becomes of saved files that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Uncommitted {
    /// They are live at once, over the committed version, and marked.
    #[default]
    Serve,
    /// Commits only.
    Ignore,
}

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// No authentication and no OpenAPI routes.
    None,
    /// The variant with authorization, opened on purpose.
    AllowAll,
    /// The bearer tokens of a policy file.
    Policy(PathBuf),
}

impl FromStr for Auth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name none, allow-all or a policy file".into()),
            "none" => Ok(Self::None),
            "allow-all" => Ok(Self::AllowAll),
            file => Ok(Self::Policy(file.into())),
        }
    }
}

/// Where web pages come from: a scheme, a host and, unless it is the scheme's own, a port, or all
/// of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `*`
    Any,
    /// One, as browsers send it.
    One(String),
}

impl FromStr for Origin {
    type Err = String;

    /// Browsers send origins in lower case and without the scheme's own port, and are compared
    /// byte by byte, so that is what is kept.
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

/// The path below which the API stands: empty, or `/` and parts without a `/` at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// The most bytes a base path has.
    pub const BYTES_MAX: usize = 256;

    /// No base path: the API stands at `/collections`.
    #[must_use]
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// The path without a `/` at the end, ready to be put before `/collections`; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BasePath {
    type Err = String;

    /// Takes `/`, `/api` and `/api/` alike; parts are made of unreserved characters (RFC 3986
    /// section 2.3), so that no client, proxy or link needs to escape anything.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("{text:?} must begin with \"/\""));
        };
        if text.len() > Self::BYTES_MAX {
            return Err(format!("a base path has at most {} bytes", Self::BYTES_MAX));
        }
        if rest.is_empty() {
            return Ok(Self::root());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        match rest.split('/').find(|part| matches!(*part, "" | "." | "..") || !part.chars().all(plain)) {
            Some(part) => {
                Err(format!("{text:?} has the part {part:?}; write letters, digits, `-`, `.`, `_`, `~`"))
            }
            None => Ok(Self(format!("/{rest}"))),
        }
    }
}

/// With a `/` at the end, as in the address of the service.
impl fmt::Display for BasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an IP address and a port, as 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080".into())
}

fn at_least<const MIN: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number >= MIN => Ok(number),
        Ok(_) | Err(_) => Err(format!("write a whole number from {MIN}")),
    }
}

fn between<const MIN: usize, const MAX: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (MIN..=MAX).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("write a whole number from {MIN} to {MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn parsed(args: &[&str]) -> Result<ServeConfig, clap::Error> {
        let command = ServeConfig::augment_args(Command::new("serve").no_binary_name(true));
        // The environment of whoever runs the tests must not decide them.
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
    fn origins_are_listed_in_one_flag_or_in_several() {
        let one = |text: &str| Origin::One(text.to_owned());
        let flags = ["--cors-origin", "https://a.org,http://b.org:3000", "--cors-origin", "*"];
        let origins = parsed(&flags).unwrap().cors_origins;
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

    #[test]
    fn a_base_path_has_one_form() {
        for (text, kept) in [("/", ""), ("/api", "/api"), ("/api/", "/api"), ("/a-b/v1.2", "/a-b/v1.2")] {
            assert_eq!(text.parse::<BasePath>().unwrap().as_str(), kept, "{text}");
        }
        for text in ["", "api", "//", "/a//b", "/..", "/a/./b", "/a b", "/a%20b", "/a?b", "/ä"] {
            assert!(text.parse::<BasePath>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_policy_file_with_the_name_of_a_choice_is_reached_by_its_path() {
        assert_eq!("none".parse(), Ok(Auth::None));
        assert_eq!("allow-all".parse(), Ok(Auth::AllowAll));
        assert_eq!("./none".parse(), Ok(Auth::Policy("./none".into())));
    }
}
