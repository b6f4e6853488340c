//! A proxy between a service and its remote that fails as network connections do.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the proxy does to connections that are opened from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// Passes everything on.
    Pass,
    /// Passes everything on, each chunk after this delay.
    Delay(Duration),
    /// Closes connections at once.
    Refuse,
    /// Reads everything and answers nothing.
    Swallow,
    /// Closes the connection after this many bytes to the remote.
    CutAfter(usize),
    /// Passes pushes on to the remote, and drops its answers to them.
    LoseAnswers,
    /// Like `LoseAnswers` for one push; closes all other connections.
    LoseEverything,
}

/// A proxy; its connections end with the process.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    line: Arc<Mutex<ProxyMode>>,
}

impl Proxy {
    /// Starts a proxy to a port of this machine.
    pub(crate) fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
        let proxy = Self {
            port: listener.local_addr().expect("it is bound").port(),
            line: Arc::new(Mutex::new(ProxyMode::Pass)),
        };
        let line = Arc::clone(&proxy.line);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let line = Arc::clone(&line);
                thread::spawn(move || carry(client, port, &line));
            }
        });
        proxy
    }

    /// Changes what the proxy does to new connections.
    pub(crate) fn set(&self, line: ProxyMode) {
        *self.line.lock().unwrap() = line;
    }
}

fn carry(mut client: TcpStream, port: u16, shared: &Mutex<ProxyMode>) -> Option<()> {
    let line = *shared.lock().unwrap();
    if line == ProxyMode::Refuse {
        return client.shutdown(Shutdown::Both).ok();
    }
    if line == ProxyMode::Swallow {
        return std::io::copy(&mut client, &mut std::io::sink()).ok().map(drop);
    }
    // The git protocol starts with the requested service.
    let mut first = [0; 4096];
    let len = client.read(&mut first).ok()?;
    let is_push = first[..len].windows(16).any(|word| word == b"git-receive-pack");
    if line == ProxyMode::LoseEverything {
        if !is_push {
            return client.shutdown(Shutdown::Both).ok();
        }
        *shared.lock().unwrap() = ProxyMode::Refuse;
    }
    let mut remote = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let sent = Arc::new(AtomicUsize::new(0));
    let is_lost = is_push && matches!(line, ProxyMode::LoseAnswers | ProxyMode::LoseEverything);
    let (mut back, mut from) = (client.try_clone().ok()?, remote.try_clone().ok()?);
    let known = Arc::clone(&sent);
    let down = thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            wait(line);
            // The remote's first message lists its refs; its answer to the push comes after the commands.
            if !(is_lost && known.load(Ordering::SeqCst) > 0) && back.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        back.shutdown(Shutdown::Both).ok();
    });
    let limit = if let ProxyMode::CutAfter(limit) = line { limit } else { usize::MAX };
    remote.write_all(&first[..len.min(limit)]).ok()?;
    let mut all = len;
    let mut buffer = [0; 4096];
    while all < limit
        && let Ok(len @ 1..) = client.read(&mut buffer)
    {
        wait(line);
        let len = len.min(limit - all);
        sent.fetch_add(len, Ordering::SeqCst);
        all += len;
        if remote.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    if all >= limit {
        client.shutdown(Shutdown::Both).ok();
        remote.shutdown(Shutdown::Both).ok();
    }
    remote.shutdown(Shutdown::Write).ok();
    down.join().ok()
}

fn wait(line: ProxyMode) {
    if let ProxyMode::Delay(time) = line {
        thread::sleep(time);
    }
}
