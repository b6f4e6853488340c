//! The real program as a process, run to its end or in the background.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::patience::eventually_sync;
use super::repo::hermetic;

/// How a program ended, and its output.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProgramOutput {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn assert_exit_code(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        self
    }

    /// Returns what it has printed, a JSON value a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

/// The program under test, in an isolated environment.
pub(crate) fn collectory_command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collectory"));
    hermetic(&mut command, folder);
    command.env_remove("GIT_AUTHOR_DATE").env_remove("GIT_COMMITTER_DATE").env_remove("RUST_LOG");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the program in a folder to its end.
#[track_caller]
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    run_to_end(collectory_command(folder).args(arguments))
}

/// Runs a program to its end. A program that exceeds the deadline is killed, and the test fails.
#[track_caller]
pub(crate) fn run_to_end(command: &mut Command) -> ProgramOutput {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let drain = |mut stream: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("the program writes UTF-8");
            text
        })
    };
    let stdout = drain(Box::new(child.stdout.take().expect("it is piped")));
    let stderr = drain(Box::new(child.stderr.take().expect("it is piped")));
    let mut guard = KillOnDrop(child);
    let status =
        eventually_sync("the program ends", || guard.0.try_wait().expect("a child can be waited for"));
    let text = |reader: JoinHandle<String>| reader.join().expect("a reader ends");
    ProgramOutput { status, stdout: text(stdout), stderr: text(stderr) }
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A service in the background. Dropping it kills it, together with the processes that it has started.
pub(crate) struct Process {
    pub(super) child: Child,
    /// The line with which it has said that it listens.
    pub(crate) ready: String,
    log: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a service and waits until it listens.
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        // In its own process group, so that its child processes can be killed too.
        let command = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("it is piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut readers = vec![follow(BufReader::new(stderr), Arc::clone(&log))];
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("the program writes UTF-8");
        readers.push(follow(stdout, Arc::clone(&log)));
        let mut process = Self { child, ready, log, readers };
        if !process.ready.starts_with("listening on ") {
            process.kill_group();
            process.wait();
            panic!(
                "the service did not start; it printed {:?} and logged:\n{}",
                process.ready,
                process.log()
            );
        }
        process
    }

    /// Returns the address on which it listens, unless that is a socket in the file system.
    pub(super) fn address(&self) -> SocketAddr {
        address_in(&self.ready).unwrap_or_else(|| panic!("{:?} names no address", self.ready))
    }

    /// Stops it as an operator does, and asserts that it succeeds. Returns the log.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        self.wait_for_exit(0)
    }

    /// Waits for it to end by itself with this exit code; returns its log.
    #[track_caller]
    pub(super) fn wait_for_exit(mut self, code: i32) -> String {
        let status = self.wait();
        let log = self.log();
        assert_eq!(status.code(), Some(code), "the log:\n{log}");
        log
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program runs");
    }

    pub(super) fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status =
            eventually_sync("the service stops", || child.try_wait().expect("a child can be waited for"));
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader ends");
        }
        status
    }

    pub(super) fn kill_group(&self) {
        // The group may have ended already.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
    }

    pub(super) fn log(&self) -> String {
        self.log.lock().expect("readers do not panic").clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After a wait the group no longer exists, and its id may be reused.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill_group();
            self.child.wait().ok();
        }
    }
}

/// Parses the address in `listening on http://127.0.0.1:8080/`, or `https`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let rest = line.strip_prefix("listening on http")?.trim_start_matches('s').strip_prefix("://")?;
    rest.split('/').next()?.trim().parse().ok()
}

fn follow(mut stream: impl BufRead + Send + 'static, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            log.lock().expect("readers do not panic").push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}
