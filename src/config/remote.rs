//! The remote to share with other services, and how.

use std::path::PathBuf;
use std::time::Duration;

/// The remote to share with other services, and how.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteConfig {
    /// Share the branch of this remote with any number of other services: `https://HOST/PATH`, `ssh://HOST/PATH`,
    /// `HOST:PATH` or a folder. A repository that is absent or empty is cloned from it.
    #[arg(id = "remote", long = "remote", env = "COLLECTORY_REMOTE", value_name = "URL")]
    pub url: Option<String>,

    /// The branch of the remote; by default, its name is that of the served branch.
    #[arg(id = "remote_branch", long = "remote-branch", env = "COLLECTORY_REMOTE_BRANCH", value_name = "NAME", requires = "remote",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub branch: Option<String>,

    /// When a write is answered: once it is durable here and on the remote, or once it is durable here, with the push
    /// right after.
    #[arg(id = "remote_ack", long = "remote-ack", env = "COLLECTORY_REMOTE_ACK", value_name = "WHEN", value_enum,
          default_value_t = RemoteAck::Pushed, requires = "remote")]
    pub ack: RemoteAck,

    /// With --remote-ack local: how many commits may wait to be pushed; further writes are answered 503.
    #[arg(id = "ahead_commits_max", long = "ahead-commits-max", env = "COLLECTORY_AHEAD_COMMITS_MAX", value_name = "COUNT",
          hide_short_help = true, default_value_t = Self::DEFAULT.ahead_commits_max, requires = "remote",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub ahead_commits_max: usize,

    /// What to do if the remote's history is rewritten: follow it, keeping and reporting the commits that it lost, or
    /// stop writes until an operator has decided.
    #[arg(id = "remote_rewrite", long = "remote-rewrite", env = "COLLECTORY_REMOTE_REWRITE", value_name = "WHAT", value_enum,
          default_value_t = Rewrite::Follow, requires = "remote")]
    pub rewrite: Rewrite,

    /// Follow the remote without taking writes (405): a read-only replica.
    #[arg(long = "follow", env = "COLLECTORY_FOLLOW",
          conflicts_with_all = ["peer", "remote_push_interval_ms"])]
    pub follow: bool,

    /// Clone the remote with a work tree; without this flag the clone is bare.
    #[arg(long, env = "COLLECTORY_WORK_TREE")]
    pub work_tree: bool,

    /// How the remote is reached, and how this service authenticates.
    #[command(flatten)]
    pub access: RemoteAccess,

    /// How often the remote is polled, and how long it may take.
    #[command(flatten)]
    pub times: RemoteTimes,

    /// Notices of changes, incoming and outgoing.
    #[command(flatten)]
    pub siblings: SiblingConfig,
}

/// How the remote is reached, and how this service authenticates.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteAccess {
    /// Allow a remote whose traffic anyone on the way can read and change: http:// and git://.
    #[arg(id = "remote_insecure", long = "remote-insecure", env = "COLLECTORY_REMOTE_INSECURE")]
    pub insecure: bool,

    /// The private key for ssh; by default, the operator's own agent and keys.
    #[arg(
        id = "remote_key",
        long = "remote-key",
        env = "COLLECTORY_REMOTE_KEY",
        value_name = "FILE",
        requires = "remote"
    )]
    pub key: Option<PathBuf>,

    /// The hosts that ssh trusts, in the format of `known_hosts`; by default, the operator's own.
    #[arg(
        id = "remote_known_hosts",
        long = "remote-known-hosts",
        env = "COLLECTORY_REMOTE_KNOWN_HOSTS",
        value_name = "FILE",
        requires = "remote"
    )]
    pub known_hosts: Option<PathBuf>,

    /// The file with the token or password for https, read again for each use; the user is that of the URL, or
    /// `x-access-token`. By default, the operator's own credential helpers are used.
    #[arg(
        id = "remote_token_file",
        long = "remote-token-file",
        env = "COLLECTORY_REMOTE_TOKEN_FILE",
        value_name = "FILE",
        requires = "remote"
    )]
    pub token_file: Option<PathBuf>,
}

/// How often the remote is polled, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteTimes {
    /// How often the remote is polled when no notice of a change arrives, varied by up to a fifth; 0 is never.
    #[arg(id = "remote_poll_ms", long = "remote-poll-ms", env = "COLLECTORY_REMOTE_POLL_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Self::DEFAULT.poll_ms, requires = "remote")]
    pub poll_ms: u64,

    /// How long one exchange with the remote may take before its processes are ended. A write whose push has had no
    /// answer by then is answered 503 with the code `outcome_unknown`.
    #[arg(id = "remote_timeout_ms", long = "remote-timeout-ms", env = "COLLECTORY_REMOTE_TIMEOUT_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Self::DEFAULT.timeout_ms, requires = "remote",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,

    /// The least time between two pushes, for a remote that allows only few; more writes share a push then.
    #[arg(id = "remote_push_interval_ms", long = "remote-push-interval-ms", env = "COLLECTORY_REMOTE_PUSH_INTERVAL_MS", value_name = "MS",
          hide_short_help = true, default_value_t = Self::DEFAULT.push_interval_ms, requires = "remote")]
    pub push_interval_ms: u64,

    /// How long the remote may be out of contact before `/readyz` reports not ready; by default there is no limit.
    #[arg(
        long,
        env = "COLLECTORY_MAX_STALENESS_MS",
        value_name = "MS",
        requires = "remote",
        hide_short_help = true
    )]
    pub max_staleness_ms: Option<u64>,
}

/// Notices of changes, incoming and outgoing.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct SiblingConfig {
    /// The file with the secret with which git hosts and siblings sign notices of changes (`POST /remote/notices`).
    #[arg(
        id = "remote_notice_secret",
        long = "remote-notice-secret",
        env = "COLLECTORY_REMOTE_NOTICE_SECRET",
        value_name = "FILE",
        requires = "remote"
    )]
    pub notice_secret: Option<PathBuf>,

    /// A sibling to notify after each push, such as `https://HOST/`; may be given several times or as a comma list.
    #[arg(
        id = "peer",
        long = "peer",
        env = "COLLECTORY_PEER",
        value_name = "URL",
        value_delimiter = ',',
        value_parser = peer,
        requires = "remote"
    )]
    pub peers: Vec<String>,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RemoteAck {
    /// Once it is durable here and on the remote.
    Pushed,
    /// Once it is durable here; it is pushed right after.
    Local,
}

/// What to do if the remote's history is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Rewrite {
    /// Follow it.
    Follow,
    /// Stop writes until an operator has decided.
    Stop,
}

impl RemoteConfig {
    /// The default: no remote.
    pub const DEFAULT: Self = Self {
        url: None,
        branch: None,
        ack: RemoteAck::Pushed,
        ahead_commits_max: 10_000,
        rewrite: Rewrite::Follow,
        follow: false,
        work_tree: false,
        access: RemoteAccess::DEFAULT,
        times: RemoteTimes::DEFAULT,
        siblings: SiblingConfig::DEFAULT,
    };
}

impl RemoteAccess {
    /// The default.
    pub const DEFAULT: Self = Self { insecure: false, key: None, known_hosts: None, token_file: None };
}

impl RemoteTimes {
    /// The default.
    pub const DEFAULT: Self =
        Self { poll_ms: 5_000, timeout_ms: 15_000, push_interval_ms: 0, max_staleness_ms: None };

    /// Returns [`poll_ms`](Self::poll_ms) as a duration; `None` is never.
    #[must_use]
    pub const fn poll(&self) -> Option<Duration> {
        match self.poll_ms {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }

    /// Returns [`timeout_ms`](Self::timeout_ms) as a duration.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

impl SiblingConfig {
    /// The default.
    pub const DEFAULT: Self = Self { notice_secret: None, peers: Vec::new() };
}

fn peer(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let is_host =
        !host.is_empty() && !host.contains(|it: char| it == '@' || it.is_whitespace() || it.is_control());
    if is_host { Ok(text.to_owned()) } else { Err("write https://HOST/ or http://HOST:PORT/".to_owned()) }
}
