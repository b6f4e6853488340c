//! Whoever supervises the process, as systemd does: sockets from it, notices to it.
//!
//! The notices are those of `sd_notify(3)`; without a supervisor that asks for them (`NOTIFY_SOCKET`) nothing
//! is sent. The watchdog is told that all is well as long as the threads that answer have turns: one that
//! died has ended the process already, and a disk that hangs is not mended by a restart.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::http::server::Socket;
use crate::service::Service;

/// How often the supervisor is told what the service does, if the watchdog does not ask for more.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// The socket that the supervisor listens on for the service, in place of `--listen` (`LISTEN_FDS`), so that a restart
/// refuses nobody.
///
/// # Errors
///
/// Says that something was passed on that is no listening socket.
pub(super) fn passed_on_socket() -> io::Result<Option<Socket>> {
    const FIRST: usize = 0;
    let mut passed_on = ListenFd::from_env();
    if passed_on.len() == 0 {
        return Ok(None);
    }
    let tcp = passed_on.take_tcp_listener(FIRST).map(|taken| taken.map(Socket::Tcp));
    tcp.or_else(|_| passed_on.take_unix_listener(FIRST).map(|taken| taken.map(Socket::Unix)))
}

/// Tells that the service serves.
pub(super) fn ready(service: &Service) {
    tell(&[NotifyState::Ready, NotifyState::Status(&service.status())]);
}

/// Tells that the service reads what it was told again, and when it has.
pub(super) fn reloading(reload: impl FnOnce()) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "cannot read the clock for the supervisor"),
    }
    reload();
    tell(&[NotifyState::Ready]);
}

/// Tells that the service ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("finishing what is under way")]);
}

/// Tells again and again that all is well, and what the service does; never ends.
pub(super) async fn keep_telling(service: &Service) {
    let half = sd_notify::watchdog_enabled().map(|watchdog| watchdog / 2);
    let mut interval = tokio::time::interval(half.unwrap_or(STATUS_INTERVAL).min(STATUS_INTERVAL));
    loop {
        interval.tick().await;
        tell(&[NotifyState::Watchdog, NotifyState::Status(&service.status())]);
    }
}

/// A supervisor that does not listen misses what it was told, and nothing else happens.
fn tell(states: &[NotifyState<'_>]) {
    let place = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let told = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => tell_by_name(name, states),
        None => sd_notify::notify(states),
    };
    if let Err(error) = told {
        tracing::debug!(%error, "cannot tell the supervisor");
    }
}

/// Tells it at a socket that has a name and no path (unix(7), "abstract"), which the crate takes for a path.
fn tell_by_name(name: &[u8], states: &[NotifyState<'_>]) -> io::Result<()> {
    let told: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.send(told.as_bytes()).map(drop)
}
