//! Which remote is shared with others, and how.

use std::path::PathBuf;
use std::time::Duration;

/// Which remote is shared with others, and how.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteConfig {
    /// Share the branch of this remote with any number of other services: `https://HOST/PATH`,
    /// `ssh://HOST/PATH`, `HOST:PATH` or a folder. A repository that is absent or empty is cloned from it.
    #[arg(id = "remote", long = "remote", env = "COLLECTORY_REMOTE", value_name = "URL")]
    pub url: Option<String>,

    /// The branch of the remote; by default called as the served one.
    #[arg(id = "remote_branch", long = "remote-branch", env = "COLLECTORY_REMOTE_BRANCH", value_name = "NAME", requires = "remote",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub branch: Option<String>,

    /// When a write is answered: when it is durable here and on the remote, or when it is durable here, and then it
    /// is pushed right after.
    #[arg(id = "remote_ack", long = "remote-ack", env = "COLLECTORY_REMOTE_ACK", value_name = "WHEN", value_enum,
          default_value_t = RemoteAck::Pushed, requires = "remote")]
    pub ack: RemoteAck,

    /// With --remote-ack local: how many commits may wait to be pushed; then writes are answered 503.
    #[arg(id = "ahead_commits_max", long = "ahead-commits-max", env = "COLLECTORY_AHEAD_COMMITS_MAX", value_name = "COUNT",
          hide_short_help = true, default_value_t = Self::DEFAULT.ahead_commits_max, requires = "remote",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub ahead_commits_max: usize,

    /// What a remote that was rewritten means: the branch here follows it, and what went is kept and told; or
    /// writes stop until somebody has decided.
    #[arg(id = "remote_rewrite", long = "remote-rewrite", env = "COLLECTORY_REMOTE_REWRITE", value_name = "WHAT", value_enum,
          default_value_t = Rewrite::Follow, requires = "remote")]
    pub rewrite: Rewrite,

    /// Take no writes (405): a replica for reading.
    #[arg(long = "follow", env = "COLLECTORY_FOLLOW", requires_if("true", "remote"),
          conflicts_with_all = ["peer", "remote_push_interval_ms"])]
    pub follow: bool,

    /// Give the clone of the remote a work tree; without it it is bare.
    #[arg(long, env = "COLLECTORY_WORK_TREE", requires_if("true", "remote"))]
    pub work_tree: bool,

    /// How the remote is reached, and as whom.
    #[command(flatten)]
    pub access: RemoteAccess,

    /// How often the remote is asked, and how long it is waited for.
    #[command(flatten)]
    pub times: RemoteTimes,

    /// Who tells of changes, and who is told.
    #[command(flatten)]
    pub siblings: SiblingConfig,
}

/// How the remote is reached, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteAccess {
    /// Take a remote whose words anybody on the way can read and change: http:// and git://.
    #[arg(
        id = "remote_insecure",
        long = "remote-insecure",
        env = "COLLECTORY_REMOTE_INSECURE",
        requires_if("true", "remote")
    )]
    pub insecure: bool,

    /// The private key for ssh; without it the operator's own agent and keys.
    #[arg(
        id = "remote_key",
        long = "remote-key",
        env = "COLLECTORY_REMOTE_KEY",
        value_name = "FILE",
        requires = "remote"
    )]
    pub key: Option<PathBuf>,

    /// The hosts that ssh trusts, as in `known_hosts`; without it the operator's own.
    #[arg(
        id = "remote_known_hosts",
        long = "remote-known-hosts",
        env = "COLLECTORY_REMOTE_KNOWN_HOSTS",
        value_name = "FILE",
        requires = "remote"
    )]
    pub known_hosts: Option<PathBuf>,

    /// The file with the token or password for https, read again for each use; the user is that of the URL,
    /// or `x-access-token`. Without it the operator's own credential helpers.
    #[arg(
        id = "remote_token_file",
        long = "remote-token-file",
        env = "COLLECTORY_REMOTE_TOKEN_FILE",
        value_name = "FILE",
        requires = "remote"
    )]
    pub token_file: Option<PathBuf>,
}

/// How often the remote is asked, and how long it is waited for.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct RemoteTimes {
    /// How often the remote is asked when nobody tells of a change, a fifth more or less; 0 is never.
    #[arg(id = "remote_poll_ms", long = "remote-poll-ms", env = "COLLECTORY_REMOTE_POLL_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Self::DEFAULT.poll_ms, requires = "remote")]
    pub poll_ms: u64,

    /// How long one exchange with the remote may take; its processes are ended then. A write whose push has had
    /// no answer by then is answered 503 with the code `outcome_unknown`.
    #[arg(id = "remote_timeout_ms", long = "remote-timeout-ms", env = "COLLECTORY_REMOTE_TIMEOUT_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Self::DEFAULT.timeout_ms, requires = "remote",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout_ms: u64,

    /// The least time between two pushes, for a remote that allows few; more writes share one then.
    #[arg(id = "remote_push_interval_ms", long = "remote-push-interval-ms", env = "COLLECTORY_REMOTE_PUSH_INTERVAL_MS", value_name = "MS",
          hide_short_help = true, default_value_t = Self::DEFAULT.push_interval_ms, requires = "remote")]
    pub push_interval_ms: u64,

    /// The remote not seen for so long, and the service is not ready; without it reads go on for ever.
    #[arg(
        long,
        env = "COLLECTORY_MAX_STALENESS_MS",
        value_name = "MS",
        requires = "remote",
        hide_short_help = true
    )]
    pub max_staleness_ms: Option<u64>,
}

/// Who tells of changes, and who is told.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Many machines")]
pub struct SiblingConfig {
    /// The file with the secret that notices of changes (`POST /remote/notices`) are signed with, by git hosts and
    /// siblings.
    #[arg(
        id = "remote_notice_secret",
        long = "remote-notice-secret",
        env = "COLLECTORY_REMOTE_NOTICE_SECRET",
        value_name = "FILE",
        requires = "remote"
    )]
    pub notice_secret: Option<PathBuf>,

    /// A sibling that is told after each push, as `https://HOST/`; may be given several times or as a comma list.
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
    /// When it is durable here and on the remote.
    Pushed,
    /// When it is durable here; it is pushed right after.
    Local,
}

/// What a remote that was rewritten means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Rewrite {
    /// It is followed.
    Follow,
    /// Writes stop until somebody has decided.
    Stop,
}

impl RemoteConfig {
    /// What holds unless something else is set: no remote.
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
    /// What holds unless something else is set.
    pub const DEFAULT: Self = Self { insecure: false, key: None, known_hosts: None, token_file: None };
}

impl RemoteTimes {
    /// What holds unless something else is set.
    pub const DEFAULT: Self =
        Self { poll_ms: 5_000, timeout_ms: 15_000, push_interval_ms: 0, max_staleness_ms: None };

    /// [`poll_ms`](Self::poll_ms) as a duration; `None` is never.
    #[must_use]
    pub const fn poll(&self) -> Option<Duration> {
        match self.poll_ms {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }

    /// [`timeout_ms`](Self::timeout_ms) as a duration.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

impl SiblingConfig {
    /// What holds unless something else is set.
    pub const DEFAULT: Self = Self { notice_secret: None, peers: Vec::new() };
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn peer(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let is_host =
        !host.is_empty() && !host.contains(|it: char| it == '@' || it.is_whitespace() || it.is_control());
    if is_host { Ok(text.to_owned()) } else { Err("write https://HOST/ or http://HOST:PORT/".to_owned()) }
}
