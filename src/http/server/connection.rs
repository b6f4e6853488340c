//! State shared between a connection and the requests on it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// One connection, as seen by the requests on it.
#[derive(Debug, Default)]
pub struct ClientConnection {
    remote: Option<SocketAddr>,
    /// Whether a request waits for the client to end the connection.
    is_watched: AtomicBool,
    has_ended: AtomicBool,
    ended: Notify,
}

impl ClientConnection {
    /// Creates a connection with this peer address, if it has one.
    #[must_use]
    pub fn of(remote: Option<SocketAddr>) -> Self {
        Self { remote, ..Self::default() }
    }

    /// The peer's address, if it has one.
    #[must_use]
    pub const fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The peer's network, if it has an address.
    pub(crate) fn network(&self) -> Option<IpAddr> {
        self.remote.map(|remote| network(remote.ip()))
    }

    /// Waits until the client has sent its last byte: it has left, or has nothing to add. The stream checks for
    /// this only while a request waits here, so that other requests do not pay for it.
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

/// Returns an IPv4 address unchanged and the /64 network of an IPv6 address, which belongs to one client as a whole.
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
