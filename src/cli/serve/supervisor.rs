//! The supervisor of the process, such as systemd: sockets from it, notifications to it.
//!
//! The notifications are those of `sd_notify(3)`; nothing is sent without a supervisor that asks for them
//! (`NOTIFY_SOCKET`). The watchdog is notified as long as the async threads make progress: a thread that panicked has
//! already ended the process, and a restart does not repair a disk that hangs.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

use crate::http::server::Socket;
use crate::service::Service;

/// How often the supervisor gets the status, unless the watchdog needs more frequent notifications.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Returns the socket on which the supervisor listens for the service (`LISTEN_FDS`), if there is one. It replaces
/// `--listen`, so that no client is refused during a restart.
///
/// # Errors
///
/// Fails when the passed descriptor is not a listening socket.
pub(super) fn inherited_socket() -> io::Result<Option<Socket>> {
    const FIRST: usize = 0;
    let mut passed_on = ListenFd::from_env();
    if passed_on.len() == 0 {
        return Ok(None);
    }
    let tcp = passed_on.take_tcp_listener(FIRST).map(|taken| taken.map(Socket::Tcp));
    tcp.or_else(|_| passed_on.take_unix_listener(FIRST).map(|taken| taken.map(Socket::Unix)))
}

/// Notifies the supervisor that the service is ready.
pub(super) fn notify_ready(service: &Service) {
    notify(&[NotifyState::Ready, NotifyState::Status(&service.status())]);
}

/// Notifies the supervisor that the service reloads, and when it is done.
pub(super) fn reloading(reload: impl FnOnce()) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "cannot read the clock for the supervisor"),
    }
    reload();
    notify(&[NotifyState::Ready]);
}

/// Notifies the supervisor that the service is stopping.
pub(super) fn notify_stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("finishing what is under way")]);
}

/// Sends watchdog notifications and the status periodically; never returns.
pub(super) async fn notify_periodically(service: &Service) {
    let half = sd_notify::watchdog_enabled().map(|watchdog| watchdog / 2);
    let mut interval = tokio::time::interval(half.unwrap_or(STATUS_INTERVAL).min(STATUS_INTERVAL));
    loop {
        interval.tick().await;
        notify(&[NotifyState::Watchdog, NotifyState::Status(&service.status())]);
    }
}

/// Sends a notification. A failure has no other effect, because a supervisor that does not listen only misses it.
fn notify(states: &[NotifyState<'_>]) {
    let place = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let sent = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => notify_abstract_socket(name, states),
        None => sd_notify::notify(states),
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot notify the supervisor");
    }
}

/// Sends a notification to an abstract socket (unix(7)), whose name the crate would take for a path.
fn notify_abstract_socket(name: &[u8], states: &[NotifyState<'_>]) -> io::Result<()> {
    let datagram: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.send(datagram.as_bytes()).map(drop)
}
