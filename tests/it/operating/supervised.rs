//! A service under a supervisor such as systemd.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{DEADLINE, Process, Signal, TestServer, collectory_command, raw_exchange};

/// Waits for a notification that has a line with this beginning, and returns it.
#[track_caller]
fn notification(socket: &UnixDatagram, line: &str) -> String {
    let mut notice = [0; 4_096];
    loop {
        let length = socket.recv(&mut notice).unwrap_or_else(|error| panic!("{line} is not told: {error}"));
        let text = String::from_utf8_lossy(&notice[..length]).into_owned();
        if text.lines().any(|notified| notified.starts_with(line)) {
            return text;
        }
    }
}

#[tokio::test]
async fn a_supervisor_is_told_what_the_service_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let setup = TestServer::setup("small").environment("NOTIFY_SOCKET", &path.to_string_lossy());
    let mut server = setup.environment("WATCHDOG_USEC", "20000").start().await;
    let ready = notification(&socket, "READY=1");
    let at = &server.repo().head()[..10];
    assert!(ready.contains(&format!("serves 3 collections at {at}; 0 files have problems")), "{ready}");
    notification(&socket, "WATCHDOG=1");
    notification(&socket, "WATCHDOG=1");
    server.signal(Signal::HUP);
    assert!(notification(&socket, "RELOADING=1").contains("MONOTONIC_USEC="));
    notification(&socket, "READY=1");
    server.stop();
    notification(&socket, "STOPPING=1");
}

#[tokio::test]
async fn a_supervisor_may_listen_at_a_name_that_is_no_path() {
    let name = format!("collectory-it-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let setup = TestServer::setup("small").environment("NOTIFY_SOCKET", &format!("@{name}"));
    let _server = setup.start().await;
    notification(&socket, "READY=1");
}

/// Starts a service with socket activation, as systemd does: `listener` is file descriptor 3.
fn activated(folder: &Path, listener: impl Into<OwnedFd>) -> Process {
    let program = collectory_command(folder);
    let mut shell = Command::new("sh");
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    shell.args(["-c", script, "sh"]).arg(program.get_program());
    shell.args(["serve", "--auth", "none", "--listen", "127.0.0.1:9"]).current_dir(folder);
    for (name, value) in program.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    Process::spawn(shell.stdin(Stdio::from(listener.into())))
}

#[test]
fn a_restart_on_a_socket_that_is_passed_on_refuses_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..2 {
        // No process accepts yet, but connecting succeeds.
        let asking = std::thread::spawn(move || {
            raw_exchange(
                address,
                b"GET /collections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            )
        });
        let service = activated(folder.path(), listener.try_clone().unwrap());
        assert_eq!(service.ready, format!("listening on http://{address}/\n"));
        let answer = asking.join().unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn a_socket_at_a_path_can_be_passed_on_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passed.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let service = activated(folder.path(), listener);
    assert_eq!(service.ready, format!("listening on unix:{}\n", path.display()));
    drop(service);
    assert!(path.exists(), "the file is the supervisor's");
}

/// A mount of a single file does not show the file that replaces it.
#[test]
fn the_compose_file_mounts_the_folder_of_what_is_replaced() {
    let compose = source("examples/container/compose.yaml");
    let compose: serde_json::Value = serde_yaml::from_str(&compose).expect("the compose file is YAML");
    let service = &compose["services"]["collectory"];
    let policy = service["environment"]["COLLECTORY_AUTH"].as_str().expect("it has a policy");
    let mounts = service["volumes"].as_array().unwrap().iter().map(|mount| mount.as_str().unwrap());
    let targets: Vec<&str> = mounts.map(|mount| mount.split(':').nth(1).unwrap()).collect();
    let folder = Path::new(policy).parent().and_then(Path::to_str).unwrap();
    assert!(targets.contains(&folder) && !targets.contains(&policy), "{targets:?}");
}

#[test]
fn what_is_packaged_says_what_it_was_made_of() {
    for (packager, how) in [
        (".ci/deb", "export COLLECTORY_BUILD_REVISION"),
        ("examples/container/Containerfile", "ENV COLLECTORY_BUILD_REVISION="),
    ] {
        let text = source(packager);
        let (before, _) = text.split_once("cargo build --release").expect("it is built there");
        assert!(before.contains(how), "{packager}");
    }
}

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}
