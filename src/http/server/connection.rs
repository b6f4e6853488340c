//! What a connection and the requests on it tell each other.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// One connection, as the requests on it know it.
#[derive(Debug, Default)]
pub struct ClientConnection {
    remote: Option<SocketAddr>,
    /// Whether somebody wants to hear that the client has ended it.
    is_watched: AtomicBool,
    has_ended: AtomicBool,
    ended: Notify,
}

impl ClientConnection {
    /// A connection with this other end, if that has an address.
    #[must_use]
    pub fn of(remote: Option<SocketAddr>) -> Self {
        Self { remote, ..Self::default() }
    }

    /// The other end, if it has an address.
    #[must_use]
    pub const fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The network of the other end, if it has an address.
    pub(crate) fn network(&self) -> Option<IpAddr> {
        self.remote.map(|remote| network(remote.ip()))
    }

    /// Waits until the client has sent its last byte: it has left, or has nothing to add. It is found out only
    /// while somebody waits for it, so that it costs nobody else anything.
    pub(crate) async fn ended(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
        let _unwatched = Unwatched(self);
        while !self.has_ended.load(Ordering::Relaxed) {
            self.ended.notified().await;
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub(crate) fn note_end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.ended.notify_one();
    }
}

/// The address, or the network of one of IPv6: whoever has one of them has all of them.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

struct Unwatched<'a>(&'a ClientConnection);

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        self.0.is_watched.store(false, Ordering::Relaxed);
    }
}
