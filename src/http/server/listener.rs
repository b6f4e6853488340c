//! The socket that connections come in by.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::Listen;

/// Who may use a Unix socket: its owner and group.
const SOCKET_MODE: u32 = 0o660;

/// Where a service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// At this address, with the port that it really has.
    Tcp(SocketAddr),
    /// At this address, with the port that it really has, and TLS is spoken there.
    Tls(SocketAddr),
    /// At this path.
    Unix(PathBuf),
}

impl Bound {
    /// Whether nobody but this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// As a URL begins, or `unix:PATH`.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Tls(address) => write!(f, "https://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that somebody else listens on already, and passes on.
#[derive(Debug)]
pub enum Socket {
    /// At an address.
    Tcp(std::net::TcpListener),
    /// At a path, whose file stays whoever made it's.
    Unix(std::os::unix::net::UnixListener),
}

/// A socket that waits for its first connection.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
    PassedOn(UnixListener),
}

/// A connection and the other end of it, if that has an address.
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// The file of a Unix socket, removed with its listener.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // One that is gone already is no news, and a start takes the place of one that stays.
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Self> {
        let tcp = match listen {
            Listen::Address(address) => TcpListener::bind(address).await?,
            Listen::Name(host, port) => TcpListener::bind((host.as_str(), *port)).await?,
            Listen::Port(port) => every_address(*port).await?,
            Listen::Unix(path) => return socket(path).await,
        };
        Ok(Self::Tcp(tcp))
    }

    /// Goes on with a socket that was passed on.
    pub(crate) fn passed_on(socket: Socket) -> io::Result<Self> {
        match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::PassedOn)
            }
        }
    }

    pub(crate) fn bound(&self) -> io::Result<Bound> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Bound::Tcp),
            Self::Unix(_, SocketFile(path)) => Ok(Bound::Unix(path.clone())),
            Self::PassedOn(listener) => {
                let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
                Ok(Bound::Unix(path.unwrap_or_default()))
            }
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                listener.accept().await.map(|(stream, remote)| Accepted::Tcp(stream, remote))
            }
            Self::Unix(listener, _) | Self::PassedOn(listener) => {
                listener.accept().await.map(|(stream, _)| Accepted::Unix(stream))
            }
        }
    }
}

/// A port of IPv6 takes connections by IPv4 as well, where there is IPv6.
async fn every_address(port: u16) -> io::Result<TcpListener> {
    let of = |ip: IpAddr| SocketAddr::new(ip, port);
    match TcpListener::bind(of(Ipv6Addr::UNSPECIFIED.into())).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(of(Ipv4Addr::UNSPECIFIED.into())).await
        }
        bound => bound,
    }
}

/// Binds beside the path and renames, so that nobody connects before the mode is right; the socket of a
/// process that is gone is replaced.
async fn socket(path: &Path) -> io::Result<Listener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) if UnixStream::connect(path).await.is_ok() => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(_) | Err(_) => {}
    }
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let made = path.with_file_name(name);
    let listener = UnixListener::bind(&made)?;
    let socket = SocketFile(made);
    std::fs::set_permissions(&socket.0, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    std::fs::rename(&socket.0, path)?;
    Ok(Listener::Unix(listener, SocketFile(path.to_owned())))
}
