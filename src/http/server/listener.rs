//! The listening socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::ListenAddress;

/// The mode of a Unix socket: its owner and group may connect.
const SOCKET_MODE: u32 = 0o660;

/// The address or path that a service listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// A TCP address with the port that was actually bound.
    Tcp(SocketAddr),
    /// A TCP address with the port that was actually bound, and TLS.
    Tls(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Bound {
    /// Reports whether only this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// Formats it as the beginning of a URL, or as `unix:PATH`.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Tls(address) => write!(f, "https://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket inherited from another process, such as a service manager.
#[derive(Debug)]
pub enum Socket {
    /// A TCP socket.
    Tcp(std::net::TcpListener),
    /// A Unix socket. Its file belongs to the process that created it and is not removed.
    Unix(std::os::unix::net::UnixListener),
}

/// How many bytes of an answer the system holds that are not on their way yet (`TCP_NOTSENT_LOWAT` in tcp(7)). By
/// default it takes some megabytes, and then nothing until a third of them has been read, so that whoever reads them
/// slowly would seem to read nothing.
const UNSENT_BYTES_MAX: u32 = 256 << 10;

/// A bound socket that does not accept connections yet.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
    PassedOn(UnixListener),
}

/// An accepted connection, with the address of its peer if that has one.
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// The file of a Unix socket. It is removed with the listener, unless somebody has put another one in its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let identity = identity(&path)?;
        Ok(Self { path, identity })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|there| there == self.identity) {
            // If removing it fails, the next start replaces it.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let there = std::fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

impl Listener {
    pub(crate) async fn bind(listen: &ListenAddress) -> io::Result<Self> {
        let tcp = match listen {
            ListenAddress::Address(address) => TcpListener::bind(address).await?,
            ListenAddress::Name(host, port) => TcpListener::bind((host.as_str(), *port)).await?,
            ListenAddress::Port(port) => every_address(*port).await?,
            ListenAddress::Unix(path) => return socket(path).await,
        };
        Ok(Self::tcp(tcp))
    }

    /// The sockets that it accepts take over how little they hold unsent.
    fn tcp(listener: TcpListener) -> Self {
        if let Err(error) = SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
            tracing::debug!(%error, "cannot set TCP_NOTSENT_LOWAT");
        }
        Self::Tcp(listener)
    }

    pub(crate) fn inherited(socket: Socket) -> io::Result<Self> {
        match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::tcp)
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
            Self::Unix(_, SocketFile { path, .. }) => Ok(Bound::Unix(path.clone())),
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

/// Listens on every address. A dual-stack IPv6 socket also accepts IPv4; without IPv6, IPv4 alone is used.
async fn every_address(port: u16) -> io::Result<TcpListener> {
    let of = |ip: IpAddr| SocketAddr::new(ip, port);
    match TcpListener::bind(of(Ipv6Addr::UNSPECIFIED.into())).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(of(Ipv4Addr::UNSPECIFIED.into())).await
        }
        bound => bound,
    }
}

/// Binds a temporary path and renames it, so that no client can connect before the mode is set. The socket of a
/// process that has exited is replaced.
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
    let mut socket = SocketFile::at(made)?;
    std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    std::fs::rename(&socket.path, path)?;
    path.clone_into(&mut socket.path);
    Ok(Listener::Unix(listener, socket))
}
