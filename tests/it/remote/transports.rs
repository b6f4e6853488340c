//! The remote behind servers: git's own daemon, and http with a password.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::json;

use super::{Hub, create, link};
use crate::support::{Auth, Setup, TestServer, eventually, git_command};

/// `x-access-token:s3cret` as basic authentication has it.
const AUTHORIZATION: &str = "basic eC1hY2Nlc3MtdG9rZW46czNjcmV0";

fn setup(url: &str) -> Setup {
    let setup = TestServer::setup("").absent().auth(Auth::AllowAll);
    setup.flag(&["--remote", url, "--remote-insecure", "--remote-poll-ms", "100"])
}

/// What holds whatever the remote is behind.
async fn shares(one: &TestServer, other: &TestServer, hub: &Hub) {
    let revision = create(one, "posts").await;
    assert_eq!(hub.head().as_ref(), Some(&revision));
    other.serves(&revision).await;
    for round in 0..3 {
        let (name, there) = (json!({"name": format!("{round}")}), json!({"name": format!("there {round}")}));
        let (here, there) = tokio::join!(one.patch("posts", name), other.patch("posts", there));
        here.is(200);
        there.is(200);
    }
    assert_eq!(hub.repo.git(&["rev-list", "--count", "main"]), "7");
    other.delete("nobody").await.is(404);
}

/// The daemon and its port. `git` starts it as a child of its own, so what is ended is their process group.
pub(super) struct Daemon(Child, pub(super) u16);

impl Drop for Daemon {
    fn drop(&mut self) {
        rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
        self.0.wait().ok();
    }
}

/// `git daemon`, which takes pushes from everybody.
pub(super) async fn daemon(folder: &Path) -> Daemon {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut command = git_command(folder);
    command.args(["daemon", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"]);
    command.arg(format!("--port={port}")).arg(format!("--base-path={}", folder.display()));
    let daemon =
        Daemon(command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(), port);
    eventually("git daemon listens", async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()).await;
    daemon
}

#[tokio::test]
async fn a_branch_is_shared_through_git_daemon() {
    let hub = Hub::empty();
    let daemon = daemon(hub.folder.path()).await;
    let url = format!("git://127.0.0.1:{}/hub.git", daemon.1);
    let (one, other) = (setup(&url).start().await, setup(&url).start().await);
    shares(&one, &other, &hub).await;
}

#[tokio::test]
async fn a_branch_is_shared_over_http_with_a_token_that_nobody_sees() {
    let hub = Hub::empty();
    hub.repo.git(&["config", "http.receivepack", "true"]);
    let port = serve_http(hub.folder.path().to_owned());
    let url = format!("http://127.0.0.1:{port}/hub.git");
    let token = hub.folder.path().join("token");
    fs::write(&token, "s3cret\n").unwrap();
    let start = || setup(&url).flag(&["--remote-token-file", token.to_str().unwrap()]).start();
    let (mut one, other) = (start().await, start().await);
    shares(&one, &other, &hub).await;
    // The file is read for each use.
    fs::write(&token, "wrong\n").unwrap();
    one.patch("posts", json!({"name": "No"})).await.is(503);
    let told = link(&one).await.to_string();
    fs::write(&token, "s3cret\n").unwrap();
    eventually("writes go on", async || {
        (one.patch("posts", json!({"name": "Yes"})).await.status() == 200).then_some(())
    })
    .await;
    let log = one.stop();
    assert!(!log.contains("s3cret") && !log.contains("wrong") && !told.contains("wrong"), "{told}\n{log}");
}

/// A server before `git http-backend` that wants a password; it ends with the process.
fn serve_http(folder: PathBuf) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            std::thread::spawn(move || answer(&stream, &folder));
        }
    });
    port
}

/// Answers one request, if it comes whole, and closes the connection.
fn answer(mut stream: &TcpStream, folder: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
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
    let mut backend = Command::new("git");
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

/// A real `sshd` of our own, where there is one.
async fn sshd(folder: &Path) -> Option<Daemon> {
    let program =
        ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    for name in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name));
        assert!(keygen.status().unwrap().success());
    }
    let host = fs::read_to_string(folder.join("host.pub")).unwrap();
    fs::write(folder.join("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nUsePAM no\n\
         PermitRootLogin prohibit-password\nPasswordAuthentication no\nStrictModes no\n",
        file("host"),
        file("user.pub")
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    // It may be started by root only where this folder is.
    fs::create_dir_all("/run/sshd").ok();
    let mut command = Command::new(program);
    command.args(["-D", "-e", "-f", &file("sshd_config")]).process_group(0);
    let daemon = Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?, port);
    eventually("sshd listens", async || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()).await;
    Some(daemon)
}

#[tokio::test]
async fn a_branch_is_shared_over_ssh_with_a_key_and_a_host_that_are_known() {
    let hub = Hub::empty();
    let Some(daemon) = sshd(hub.folder.path()).await else { return };
    let url = format!("ssh://127.0.0.1:{}{}", daemon.1, hub.url());
    let file = |name: &str| hub.folder.path().join(name).display().to_string();
    let with = |hosts: &str| {
        let (key, hosts) = (file("user"), file(hosts));
        setup(&url).flag(&["--remote-key", &key, "--remote-known-hosts", &hosts])
    };
    let (one, other) = (with("known_hosts").start().await, with("known_hosts").start().await);
    shares(&one, &other, &hub).await;
    fs::write(file("no_hosts"), "").unwrap();
    let stranger = with("no_hosts").start_unchecked();
    let told = eventually("it says why it is not ready", async || {
        let told = stranger.get("/readyz").await;
        (told.status() == 503)
            .then(|| told.checked().json().to_string())
            .filter(|told| told.contains("remote"))
    })
    .await;
    assert!(!told.contains("user"), "{told}");
}
