//! The remote that the service shares its branch with: its configuration, and the repository that is cloned from it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{RemoteAccess, RemoteAck, RemoteConfig, Rewrite, ServeConfig, read_named};
use crate::domain::{Actor, Revision};
use crate::engine::{CollectionMerger, Remote};
use crate::http::{Clock, NoticeSecret, SharedBranch};
use crate::service::StartError;
use crate::service::peers;
use crate::store::StoreError;
use crate::store::git::{GitJournal, NewRepository, is_branch_name};
use crate::store::remote::{
    Ack, BranchSource, Decision, Git, Link, RemoteJournal, RemoteSecrets, RemoteSettings, RemoteUrl,
    Transport, check_version, default_branch,
};

/// The branch of a remote that names none.
const BRANCH_DEFAULT: &str = "main";

/// How long a start waits for the remote in all: for the name of its branch, and for its head where nothing can be
/// served without it. It is asked again later.
const START_WAIT_MAX: Duration = Duration::from_secs(5);

/// Returns until when a start that begins now waits for the remote.
pub(crate) fn start_deadline(config: &RemoteConfig) -> Instant {
    Instant::now() + config.times.timeout().min(START_WAIT_MAX)
}

/// Returns the URL of the remote, if there is one.
///
/// # Errors
///
/// Fails if it names no remote, or one that the flags do not allow ([`StoreError::Misnamed`]).
pub(crate) fn url(config: &RemoteConfig) -> Result<Option<RemoteUrl>, StoreError> {
    let Some(text) = &config.url else { return without_remote(config).map(|()| None) };
    let url: RemoteUrl = text.parse().map_err(|why| StoreError::Misnamed(format!("--remote: {why}")))?;
    if url.is_insecure() && !config.access.insecure {
        let why = format!(
            "--remote {url}: what is sent can be read and changed on the way; --remote-insecure allows that"
        );
        return Err(StoreError::Misnamed(why));
    }
    if let Some(branch) = config.branch.as_ref().filter(|branch| !is_branch_name(branch)) {
        return Err(StoreError::Misnamed(format!("--remote-branch: git makes no branch `{branch}`")));
    }
    check_flags(config, &url).map_err(StoreError::Misnamed)?;
    Ok(Some(url))
}

/// Refuses flags that have no effect without a remote. Those with a value are refused by the command line.
fn without_remote(config: &RemoteConfig) -> Result<(), StoreError> {
    let RemoteConfig { follow, work_tree, access, .. } = config;
    let flags = [("--follow", follow), ("--work-tree", work_tree), ("--remote-insecure", &access.insecure)];
    match flags.into_iter().find(|(_, given)| **given) {
        Some((flag, _)) => Err(StoreError::Misnamed(format!(
            "{flag} is for a branch that is shared with others; name its remote with --remote <URL>"
        ))),
        None => Ok(()),
    }
}

/// Refuses flags that have no effect beside others, as an operator who gives them expects one, and files that can't be
/// read.
fn check_flags(config: &RemoteConfig, url: &RemoteUrl) -> Result<(), String> {
    let is_local = config.ack == RemoteAck::Local;
    if config.follow && is_local {
        return Err("--follow takes no writes, so there are none for --remote-ack local".to_owned());
    }
    if !is_local && config.ahead_commits_max != RemoteConfig::DEFAULT.ahead_commits_max {
        return Err(
            "--ahead-commits-max is for --remote-ack local: else nothing waits to be pushed".to_owned()
        );
    }
    let RemoteAccess { key, known_hosts, token_file, insecure: _ } = &config.access;
    let is_ssh = url.transport() == Transport::Ssh;
    let is_http = matches!(url.transport(), Transport::Https | Transport::Http);
    for (flag, file, is_asked_for, whose) in [
        ("--remote-key", key, is_ssh, "ssh"),
        ("--remote-known-hosts", known_hosts, is_ssh, "ssh"),
        ("--remote-token-file", token_file, is_http, "https"),
    ] {
        let Some(file) = file else { continue };
        if !is_asked_for {
            return Err(format!("{flag} is for a remote that is reached by {whose}, which {url} is not"));
        }
        std::fs::metadata(file)
            .map_err(|error| format!("{flag}: {} cannot be read: {error}", file.display()))?;
    }
    Ok(())
}

/// Creates the repository if there is none, with the remote's branch; returns whether it did.
pub(crate) fn init(config: &ServeConfig, url: &RemoteUrl, until: Instant) -> Result<bool, StoreError> {
    let remote = &config.remote;
    let is_there = GitJournal::is_occupied(&config.repository.dir);
    match check_version() {
        // An existing repository is served anyway.
        Err(error) if is_there => tracing::error!("{error}"),
        checked => checked?,
    }
    let dir = &config.repository.dir;
    let new = |branch: &str| {
        let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        GitJournal::init_as(dir, NewRepository { is_bare: !remote.work_tree, branch })
    };
    let named = config.repository.branch.as_deref().or(remote.branch.as_deref());
    if is_there || named.is_some() {
        return new(named.unwrap_or(BRANCH_DEFAULT));
    }
    match default_branch(url, &access(remote), until) {
        Ok(branch) => new(branch.as_deref().unwrap_or(BRANCH_DEFAULT)),
        Err(_) => {
            let is_new = new(BRANCH_DEFAULT)?;
            let common_dir = if remote.work_tree { dir.join(".git") } else { dir.clone() };
            Git::note_unnamed(&common_dir)?;
            Ok(is_new)
        }
    }
}

/// Creates the link to the remote at `url`.
pub(crate) fn link(
    config: &ServeConfig,
    journal: &GitJournal,
    url: RemoteUrl,
    secret: Option<NoticeSecret>,
    first_poll_until: Instant,
) -> Result<Arc<Link>, StartError> {
    let remote = &config.remote;
    let branch = match remote.branch.as_ref().or(config.repository.branch.as_ref()) {
        Some(_) => BranchSource::Operator(remote.branch.as_deref().unwrap_or_else(|| journal.branch())),
        None => BranchSource::Remote(journal.branch()),
    };
    let git = Git::open(journal.common_dir(), url, branch, access(remote)).map_err(StoreError::from)?;
    let ack = match remote.ack {
        RemoteAck::Pushed => Ack::Pushed,
        RemoteAck::Local => Ack::Local { ahead_max: remote.ahead_commits_max },
    };
    let settings = RemoteSettings {
        ack,
        folder: config.repository.folder.clone(),
        merger: Box::new(CollectionMerger::new(&config.repository.folder)),
        poll: remote.times.poll(),
        timeout: remote.times.timeout(),
        push_interval: Duration::from_millis(remote.times.push_interval_ms),
        follow_rewrites: remote.rewrite == Rewrite::Follow,
        committer: Actor::new(&config.commits.committer_name, &config.commits.committer_email),
        is_follower: remote.follow,
        siblings: peers::start(&remote.siblings.peers, secret).map_err(StartError::Thread)?,
    };
    let clock = Clock::system();
    tracing::info!(remote = %git.url(), branch = git.branch(), "sharing the branch with a remote");
    let clock: Box<_> = Box::new(move || clock.now());
    Ok(Arc::new(Link::new(git, Arc::new(journal.archive()), settings, first_poll_until, clock)))
}

/// Reads the secret that notices are signed with.
///
/// # Errors
///
/// Fails if the file can't be read, or is no secret ([`StoreError::Misnamed`]).
pub(crate) fn notice_secret(remote: &RemoteConfig) -> Result<Option<NoticeSecret>, StoreError> {
    let Some(path) = &remote.siblings.notice_secret else { return Ok(None) };
    let wrong = |why: &str| StoreError::Misnamed(format!("--remote-notice-secret: {} {why}", path.display()));
    let text = read_named(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    let text = text.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    Ok(Some(NoticeSecret::new(&text).map_err(wrong)?))
}

/// Returns what requests need to know about the link.
pub(crate) fn shared(
    config: &RemoteConfig,
    link: Arc<Link>,
    notice_secret: Option<NoticeSecret>,
) -> SharedBranch {
    SharedBranch {
        remote: Remote::new(link),
        notice_secret,
        is_follower: config.follow,
        max_staleness: config.times.max_staleness_ms.map(Duration::from_millis),
    }
}

/// Carries out an operator's decision in the repository itself; returns the branch's head.
///
/// # Errors
///
/// Fails with the reason; for example, a service serves the repository.
pub(crate) fn decide(config: &ServeConfig, decision: Decision) -> Result<Revision, StartError> {
    let journal = GitJournal::open(crate::service::options::journal_options(config)?)?;
    let none = || StoreError::Misnamed("name the remote with --remote".to_owned());
    let url = url(&config.remote)?.ok_or_else(none)?;
    let link = link(config, &journal, url, notice_secret(&config.remote)?, start_deadline(&config.remote))?;
    Ok(RemoteJournal::new(journal, link, config.limits.writes.races_max).decide(decision)?)
}

fn access(remote: &RemoteConfig) -> RemoteSecrets {
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    RemoteSecrets {
        key: remote.access.key.as_ref().map(absolute),
        known_hosts: remote.access.known_hosts.as_ref().map(absolute),
        token_file: remote.access.token_file.as_ref().map(absolute),
    }
}
