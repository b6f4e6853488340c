//! How many files the service may have open.
//!
//! Each connection is an open file. Systems give a program far fewer than it may ask for, 1,024 as
//! a rule, for the sake of programs that use `select` (getrlimit(2), `RLIMIT_NOFILE`); we don't.

use rustix::process::{Resource, getrlimit, setrlimit};

/// What the repository, its packs, the log and the threads have open, connections aside.
const OWN_FILES_LEN: u64 = 512;

/// Asks for as many open files as the system allows, and tells the operator if these are too few
/// for so many connections.
pub(crate) fn raise(connections_max: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_add(OWN_FILES_LEN);
    // No more than is of use: some systems call the maximum unlimited and mean less.
    let possible = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < possible) {
        limit.current = Some(possible);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot ask for more open files");
        }
    }
    let allowed = getrlimit(Resource::Nofile).current;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) {
        tracing::warn!(
            allowed,
            wanted,
            "fewer open files are allowed than --connections-max may need; raise the limit \
             (`ulimit -n`, `LimitNOFILE=` of systemd) or lower --connections-max"
        );
    }
}
