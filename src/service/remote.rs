//! The remote that the service shares its branch with: what the flags say, and the repository that is cloned from it.

use std::sync::Arc;
use std::time::Instant;

use crate::config::{RemoteConfig, Rewrite, ServeConfig};
use crate::http::Clock;
use crate::service::StartError;
use crate::store::StoreError;
use crate::store::git::{GitJournal, NewRepository};
use crate::store::remote::{Access, Git, Link, RemoteUrl, Settings, check_version, default_branch};

/// The branch of a remote that tells no other.
const BRANCH_DEFAULT: &str = "main";

/// Where the remote is, if there is one.
///
/// # Errors
///
/// Refuses what is no remote, and one that the flags do not allow ([`StoreError::Misnamed`]).
pub(crate) fn url(config: &RemoteConfig) -> Result<Option<RemoteUrl>, StoreError> {
    let Some(text) = &config.url else { return Ok(None) };
    let url: RemoteUrl = text.parse().map_err(|why| StoreError::Misnamed(format!("--remote: {why}")))?;
    if url.is_insecure() && !config.insecure {
        let why = format!(
            "--remote {url}: what is sent can be read and changed on the way; --remote-insecure allows that"
        );
        return Err(StoreError::Misnamed(why));
    }
    Ok(Some(url))
}

/// Makes the repository when nothing is there, with the branch that the remote has; answers whether it did.
pub(crate) fn init(config: &ServeConfig, url: &RemoteUrl) -> Result<bool, StoreError> {
    check_version()?;
    let remote = &config.remote;
    let named = config.branch.as_deref().or(remote.branch.as_deref());
    let is_there = GitJournal::is_there(&config.repository);
    let asked = || default_branch(url, &access(remote), Instant::now() + remote.timeout());
    let branch = named.map(str::to_owned).or_else(|| if is_there { None } else { asked() });
    let branch = branch.as_deref().unwrap_or(BRANCH_DEFAULT);
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    GitJournal::init_as(&config.repository, NewRepository { is_bare: !remote.work_tree, branch })
}

/// The link to the remote, if there is one.
pub(crate) fn link(config: &ServeConfig, journal: &GitJournal) -> Result<Option<Arc<Link>>, StartError> {
    let remote = &config.remote;
    let Some(url) = url(remote)? else { return Ok(None) };
    let branch = remote.branch.as_deref().unwrap_or_else(|| journal.branch());
    let git = Git::open(journal.common_dir(), url, branch, access(remote)).map_err(StoreError::from)?;
    let settings = Settings {
        poll: remote.poll(),
        timeout: remote.timeout(),
        push_interval: remote.push_interval(),
        follow_rewrites: remote.rewrite == Rewrite::Follow,
    };
    let clock = Clock::system();
    tracing::info!(remote = %git.url(), branch, "sharing the branch with a remote");
    Ok(Some(Arc::new(Link::new(git, settings, Box::new(move || clock.now())))))
}

fn access(remote: &RemoteConfig) -> Access {
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    Access {
        key: remote.key.as_ref().map(absolute),
        known_hosts: remote.known_hosts.as_ref().map(absolute),
        token_file: remote.token_file.as_ref().map(absolute),
    }
}
