//! Servers for a folder of repositories: git's own daemon, HTTP with a password, and a real `sshd`.

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The password of the user `x-access-token` at the HTTP server.
pub(crate) const TOKEN: &str = "s3cret";

/// That user and password in basic authentication.
pub(crate) const AUTHORIZATION: &str = "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0";

/// How long a server may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// A server and its port. It starts child processes, so its whole process group is ended.
pub(crate) struct Daemon(Child, pub(crate) u16);

impl Drop for Daemon {
    fn drop(&mut self) {
        rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
        self.0.wait().ok();
    }
}

impl Daemon {
    fn start(command: &mut Command, port: u16) -> Self {
        let command = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Self(command.spawn().unwrap(), port);
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(began.elapsed() < START_TIME_MAX, "{:?} does not listen", command.get_program());
            thread::park_timeout(Duration::from_millis(3));
        }
        daemon
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// A `git` command for a server, without the configuration of the user and of the machine.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder);
    command.current_dir(folder);
    command
}

/// Starts `git daemon`, which accepts pushes from everyone.
pub(crate) fn git_daemon(folder: &Path) -> Daemon {
    let port = free_port();
    let mut command = git(folder);
    command.args(["daemon", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"]);
    command.arg(format!("--port={port}")).arg(format!("--base-path={}", folder.display()));
    Daemon::start(&mut command, port)
}

/// The folders that are served over HTTP for reads and for pushes.
#[derive(Debug, Clone)]
pub(crate) struct ServedFolders {
    pub(crate) read: PathBuf,
    pub(crate) pushed: PathBuf,
}

impl ServedFolders {
    pub(crate) fn all_from(folder: &Path) -> Self {
        Self { read: folder.to_owned(), pushed: folder.to_owned() }
    }
}

/// Starts a server for `git http-backend` that requires a password; it ends with the process.
pub(crate) fn serve_http(hosted: ServedFolders) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let hosted = hosted.clone();
            thread::spawn(move || answer(&stream, &hosted));
        }
    });
    port
}

/// Starts a server that answers with this head and keeps the heads of requests; it ends with the process.
pub(crate) fn serve_fixed_response(head: String) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, sent) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
    let kept = Arc::clone(&sent);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Some(lines) = head_of(&mut BufReader::new(&stream)) else { continue };
            kept.lock().unwrap().push(lines.join("\n"));
            // The client may be gone.
            drop(write!(stream, "{head}Content-Length: 0\r\nConnection: close\r\n\r\n"));
        }
    });
    (port, sent)
}

/// Reads the lines of a request's head.
fn head_of(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => return Some(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

/// Answers one request, if it arrives completely, and closes the connection.
fn answer(mut stream: &TcpStream, hosted: &ServedFolders) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let lines = head_of(&mut reader)?;
    let header = |name: &str| {
        let found = lines
            .iter()
            .filter_map(|line| line.split_once(": "))
            .find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map_or_else(String::new, |(_, value)| value.to_owned())
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    if !header("authorization").eq_ignore_ascii_case(AUTHORIZATION) {
        let denied = "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"hub\"\r\n";
        return write!(stream, "{denied}Content-Length: 0\r\nConnection: close\r\n\r\n").ok();
    }
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let folder = if target.contains("git-receive-pack") { &hosted.pushed } else { &hosted.read };
    let mut backend = git(folder);
    backend.arg("http-backend").env("GIT_PROJECT_ROOT", folder).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    backend.env("CONTENT_TYPE", header("content-type")).env("CONTENT_LENGTH", body.len().to_string());
    backend
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"));
    backend.env("REMOTE_USER", "somebody").env("REMOTE_ADDR", "127.0.0.1");
    let mut backend =
        backend.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    backend.stdin.take()?.write_all(&body).ok()?;
    let said = backend.wait_with_output().ok()?.stdout;
    let end = said.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&said[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let length = said.len() - end - 4;
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{head}\r\n\r\n")
        .ok()?;
    stream.write_all(&said[end + 4..]).ok()
}

/// Starts a real `sshd`, if one is installed.
pub(crate) fn sshd(folder: &Path) -> Option<Daemon> {
    let program =
        ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())?;
    let port = free_port();
    for name in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
        assert!(keygen.status().unwrap().success());
    }
    let host = fs::read_to_string(folder.join("host.pub")).unwrap();
    fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    // `HOME` keeps the user's shell and git files out of connections; this key exchange takes only a millisecond.
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nUsePAM no\nMaxStartups 1000\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\nStrictModes no\n\
         SetEnv HOME={}\nKexAlgorithms curve25519-sha256\n",
        file("host"),
        file("user.pub"),
        folder.display()
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    // Root can start `sshd` only if this folder exists.
    fs::create_dir_all("/run/sshd").ok();
    Some(Daemon::start(Command::new(program).args(["-D", "-e", "-f", &file("sshd_config")]), port))
}
