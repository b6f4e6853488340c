//! The number of files that the service may have open.
//!
//! Each connection is an open file. The default limit is usually 1,024, far below what a program may request, for the
//! sake of programs that use `select` (getrlimit(2), `RLIMIT_NOFILE`), which this one does not.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The number of files that the repository, its packs, the log and the threads have open, without connections.
const OWN_FILES_LEN: u64 = 512;

/// Raises the limit of open files as far as needed and allowed, and returns the maximum number of connections. If the
/// limit stays too low, this is less than `connections_max`, with a warning: a connection too many would take a file
/// from a write.
#[must_use]
pub(crate) fn raise_limit(connections_max: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_add(OWN_FILES_LEN);
    // Requests no more than is useful: some systems report an unlimited maximum but grant less.
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

/// Returns how many connections fit into this many open files. Up to half as many again are accepted, only to be
/// answered that the service is full.
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
