//! How many files the service may have open.
//!
//! Each connection is an open file. Systems give a program far fewer than it may ask for, 1,024 as
//! a rule, for the sake of programs that use `select` (getrlimit(2), `RLIMIT_NOFILE`); we don't.

use rustix::process::{Resource, getrlimit, setrlimit};

/// What the repository, its packs, the log and the threads have open, connections aside.
const OWN_FILES_LEN: u64 = 512;

/// Asks for as many open files as the system allows, and tells how many connections there may be. If the files are too
/// few for `connections_max`, there are fewer, and the operator is told: a connection too many would take a file that a
/// write needs.
#[must_use]
pub(crate) fn raise(connections_max: usize) -> usize {
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
    let Some(allowed) = allowed.filter(|allowed| *allowed < wanted) else { return connections_max };
    let connections = connections_for(allowed).min(connections_max);
    tracing::warn!(
        allowed,
        wanted,
        connections,
        "fewer open files are allowed than --connections-max may need, so there may be fewer connections; raise \
         the limit (`ulimit -n`, `LimitNOFILE=` of systemd)"
    );
    connections
}

/// How many connections fit into this many open files; up to half as many again are accepted only to be told that the
/// service is full.
fn connections_for(files: u64) -> usize {
    let connections = files.saturating_sub(OWN_FILES_LEN).max(files / 4).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_for_writes() {
        let connections: Vec<_> = [0, 64, 256, 1_024, 4_608].map(connections_for).into();
        assert_eq!(connections, [1, 16, 64, 512, 4_096]);
    }
}
