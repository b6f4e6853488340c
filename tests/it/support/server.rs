//! The real program, started as a process.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use super::client::Client;
use super::patience::{eventually, eventually_sync};
use super::repo::{Repo, hermetic};

/// The authorization of the service.
#[derive(Debug, Clone)]
pub(crate) enum Auth {
    /// `--auth none`: no authentication, no OpenAPI routes.
    None,
    /// `--auth allow-all`.
    AllowAll,
    /// `--auth FILE` with this content.
    Policy(String),
}

/// The repository that the service gets.
#[derive(Debug, Clone)]
enum Given {
    Fixture(String),
    Bare(String),
    Unborn,
    Absent,
    Own(PathBuf),
}

/// How to start a service; see [`TestServer::setup`].
#[derive(Debug, Clone)]
#[must_use = "a setup does nothing until it is started"]
pub(crate) struct Setup {
    given: Given,
    auth: Auth,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    base: String,
    wrapper: Vec<String>,
    listen: String,
}

/// A running service with its own repository.
///
/// Dropping it stops the service as an operator would. The repository must then be sound: `git fsck` finds nothing,
/// no lock or temporary file is left, and `git status` is as the test has declared with
/// [`expect_git_status`](Self::expect_git_status).
pub(crate) struct TestServer {
    folder: TempDir,
    repo: Repo,
    setup: Setup,
    process: Option<Process>,
    client: Client,
    status: Option<String>,
}

struct Process {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

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
}

/// The program under test, in an isolated environment.
pub(crate) fn collectory_command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_collectory"));
    hermetic(&mut command, folder);
    command.env_remove("GIT_AUTHOR_DATE").env_remove("GIT_COMMITTER_DATE").env_remove("RUST_LOG");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

impl Setup {
    /// Sets the authorization.
    pub(crate) fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// Adds a flag of `serve`, with its value if it has one.
    pub(crate) fn flag(mut self, flag: &[&str]) -> Self {
        self.flags.extend(flag.iter().map(|&part| part.to_owned()));
        self
    }

    /// Adds an environment variable.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Limits how many files the program may have open, unless it raises the limit (`ulimit -S -n`).
    pub(crate) fn open_files(self, count: u32) -> Self {
        // A shell sets the limit, because it is inherited and must not apply to the harness.
        self.through(&["sh", "-c", "ulimit -S -n \"$0\" && exec \"$@\"", &count.to_string()])
    }

    /// Limits how many files the program may have open, with a hard limit (`ulimit -n`).
    pub(crate) fn open_files_max(self, count: u32) -> Self {
        self.through(&["sh", "-c", "ulimit -n \"$0\" && exec \"$@\"", &count.to_string()])
    }

    /// Takes root's privileges from the service if root runs the tests (capabilities(7)).
    pub(crate) fn without_capabilities(self) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        if is_root { self.through(&["setpriv", "--bounding-set=-all", "--"]) } else { self }
    }

    /// Makes hard links fail; `folder` is for the program that ensures that.
    pub(crate) fn without_links(self, folder: &Path) -> Self {
        let program = folder.join("no_links");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/no_links.c");
        let compiled = Command::new("cc").arg("-o").args([program.as_path(), Path::new(source)]).status();
        assert!(compiled.expect("there is a C compiler").success());
        self.through(&[&program.to_string_lossy()])
    }

    /// Makes calls below the repository fail while the file `fault` in this folder says so (`fail.c`).
    pub(crate) fn with_injected_faults(self, folder: &Path) -> Self {
        let library = folder.join("fail.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/fail.c");
        let options = ["-shared", "-fPIC", "-O1", "-o"];
        let compiled = Command::new("cc")
            .args(options)
            .args([library.as_path(), Path::new(source)])
            .arg("-ldl")
            .status();
        assert!(compiled.expect("there is a C compiler").success());
        let below = std::env::temp_dir().join("collectory-it-").to_string_lossy().into_owned();
        self.environment("LD_PRELOAD", &library.to_string_lossy())
            .environment("FAIL_FILE", &folder.join("fault").to_string_lossy())
            .environment("FAIL_BELOW", &below)
    }

    /// Sets the permissions that new files don't have (`umask`).
    pub(crate) fn umask(self, mask: &str) -> Self {
        self.through(&["sh", "-c", "umask \"$0\" && exec \"$@\"", mask])
    }

    /// Adds a program through which the service is started.
    fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper.extend(wrapper.iter().map(|&part| part.to_owned()));
        self
    }

    /// Sets `--base-path`.
    pub(crate) fn base_path(mut self, base: &str) -> Self {
        base.clone_into(&mut self.base);
        self.flag(&["--base-path", base])
    }

    /// Uses a repository with the fixture's history and no work tree.
    pub(crate) fn bare(mut self) -> Self {
        self.given = match self.given {
            Given::Fixture(name) => Given::Bare(name),
            other => other,
        };
        self
    }

    /// Uses a repository without a commit.
    pub(crate) fn unborn(mut self) -> Self {
        self.given = Given::Unborn;
        self
    }

    /// Uses no repository: the service creates it.
    pub(crate) fn without_repository(mut self) -> Self {
        self.given = Given::Absent;
        self
    }

    /// Uses a repository that the test has made and keeps alive.
    pub(crate) fn repository(mut self, path: &Path) -> Self {
        self.given = Given::Own(path.to_owned());
        self
    }

    /// Starts the service and waits until it is ready.
    pub(crate) async fn start(self) -> TestServer {
        let server = self.start_without_waiting();
        server.wait_until_ready().await;
        server
    }

    /// Starts the service without waiting, for tests in which the harness can't ask whether it is ready.
    pub(crate) fn start_without_waiting(self) -> TestServer {
        let (folder, repo) = self.prepared();
        let process = Process::spawn(self.command(folder.path(), &repo));
        let client = Client::new(process.address, &self.base);
        let process = Some(process);
        TestServer { folder, repo, setup: self, process, client, status: None }
    }

    /// Starts a service that must refuse to run; returns its output.
    pub(crate) fn expect_start_failure(self) -> ProgramOutput {
        let (folder, repo) = self.prepared();
        run_to_end(&mut self.command(folder.path(), &repo))
    }

    /// Prepares a folder with everything that the service is given.
    fn prepared(&self) -> (TempDir, Repo) {
        let folder = tempfile::Builder::new().prefix("collectory-it-").tempdir().expect("a temporary folder");
        let path = folder.path().join("settings");
        let repo = match &self.given {
            Given::Fixture(name) => Repo::seeded(path, name),
            Given::Bare(name) => Repo::seeded(folder.path().join("seed"), name).bare_clone(path),
            Given::Unborn => Repo::init(path),
            Given::Absent => Repo::at(path),
            Given::Own(own) => Repo::at(own),
        };
        if let Auth::Policy(text) = &self.auth {
            fs::write(folder.path().join("policy.yaml"), text).expect("a file can be written");
        }
        (folder, repo)
    }

    fn command(&self, folder: &Path, repo: &Repo) -> Command {
        let mut command = collectory_command(folder);
        let auth = match &self.auth {
            Auth::None => "none".to_owned(),
            Auth::AllowAll => "allow-all".to_owned(),
            Auth::Policy(_) => folder.join("policy.yaml").to_string_lossy().into_owned(),
        };
        command.args(["serve", "--listen", &self.listen, "--auth", &auth, "--repo"]).arg(repo.path());
        command.args(&self.flags).envs(self.environment.iter().cloned());
        let Some((wrapper, words)) = self.wrapper.split_first() else { return command };
        let mut wrapped = Command::new(wrapper);
        wrapped.args(words).arg(command.get_program()).args(command.get_args());
        wrapped.current_dir(folder).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped
    }
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

impl Process {
    fn spawn(mut command: Command) -> Self {
        // In its own process group, so that its child processes can be killed too.
        let command = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("it is piped");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut readers = vec![follow(BufReader::new(stderr), Arc::clone(&log))];
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the program writes UTF-8");
        let Some(address) = address_in(&line) else {
            child.kill().ok();
            child.wait().ok();
            for reader in readers {
                reader.join().ok();
            }
            let log = log.lock().expect("readers do not panic").clone();
            panic!("the service did not start; it printed {line:?} and logged:\n{log}");
        };
        readers.push(follow(stdout, Arc::clone(&log)));
        Self { child, address, log, readers }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program runs");
    }

    fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status =
            eventually_sync("the service stops", || child.try_wait().expect("a child can be waited for"));
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader ends");
        }
        status
    }

    fn kill_group(&self) {
        // The group may have ended already.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
    }

    fn log(&self) -> String {
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

impl TestServer {
    /// Sets up a service on a fixture repository with a work tree, without authentication.
    pub(crate) fn setup(fixture: &str) -> Setup {
        Setup {
            given: Given::Fixture(fixture.to_owned()),
            auth: Auth::None,
            flags: Vec::new(),
            environment: Vec::new(),
            base: String::new(),
            wrapper: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
        }
    }

    /// Starts a service with [`setup`](Self::setup) alone.
    pub(crate) async fn start(fixture: &str) -> Self {
        Self::setup(fixture).start().await
    }

    /// Returns the client; the server dereferences to it.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns a folder for the test, outside the repository.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the address on which the service listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.running().address
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        self.running().log()
    }

    /// Waits until the log contains a text. The log comes through a pipe, so an answer about the same event may
    /// arrive first.
    pub(crate) async fn wait_for_log(&self, text: &str) {
        eventually("it is logged", async || self.log().contains(text).then_some(())).await;
    }

    /// Declares what `git status --porcelain` shows in the end; by default nothing.
    pub(crate) fn expect_git_status(&mut self, status: &str) {
        self.status = Some(status.trim_end().to_owned());
    }

    /// Waits until the service is ready.
    pub(crate) async fn wait_until_ready(&self) {
        eventually("the service is ready", async || {
            let answer = self.client.request("GET", "/readyz").attempt().await?;
            (answer.status() == 200).then_some(())
        })
        .await;
    }

    /// Stops the service as an operator does, and asserts that it succeeds. Returns the log.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> String {
        let mut process = self.process.take().expect("the service runs");
        process.signal(Signal::TERM);
        let status = process.wait();
        let log = process.log();
        assert_eq!(status.code(), Some(0), "after SIGTERM; the log:\n{log}");
        log
    }

    /// Waits for the service to end by itself with this exit code; returns its log.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self, code: i32) -> String {
        let mut process = self.process.take().expect("the service runs");
        let status = process.wait();
        let log = process.log();
        assert_eq!(status.code(), Some(code), "the log:\n{log}");
        log
    }

    /// Kills the process, as a power cut would.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("the service runs");
        process.child.kill().expect("a child can be killed");
        process.wait();
    }

    /// Like [`kill`](Self::kill), together with the processes that the service has started.
    pub(crate) fn kill_group(&mut self) {
        let mut process = self.process.take().expect("the service runs");
        process.kill_group();
        process.wait();
    }

    /// Waits for the end of a service that something else kills.
    #[track_caller]
    pub(crate) fn was_killed(&mut self) {
        let mut process = self.process.take().expect("the service runs");
        let status = process.wait();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "the log:\n{}", process.log());
    }

    /// Kills the processes that the service has started, and theirs: the transfers with the remote.
    pub(crate) fn kill_transfers(&self) {
        let own = self.running().child.id();
        let threads = fs::read_dir(format!("/proc/{own}/task")).into_iter().flatten().flatten();
        let of_threads = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        for children in of_threads {
            for group in children.split_whitespace().filter_map(|it| Pid::from_raw(it.parse().ok()?)) {
                // Each leads its own process group; one that has already ended is not a failure.
                kill_process_group(group, Signal::KILL).ok();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.running().signal(signal);
    }

    /// Starts the service again after `stop` or `kill`, with the same settings and another port.
    pub(crate) async fn start_again(&mut self) {
        self.start_again_unready();
        self.wait_until_ready().await;
    }

    /// Like [`start_again`](Self::start_again), for a repository that can't be read yet.
    pub(crate) fn start_again_unready(&mut self) {
        assert!(self.process.is_none(), "the service runs already");
        let process = Process::spawn(self.setup.command(self.folder.path(), &self.repo));
        self.client = Client::new(process.address, &self.setup.base);
        self.process = Some(process);
    }

    /// Stops the service and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.start_again().await;
    }

    /// Like [`restart`](Self::restart), at the same address.
    pub(crate) async fn restart_here(&mut self) {
        self.setup.listen = self.address().to_string();
        self.restart().await;
    }

    /// Changes the value of a flag, from the next start on.
    pub(crate) fn set_flag(&mut self, name: &str, value: &str) {
        let at = self.setup.flags.iter().position(|flag| flag == name).expect("the flag was given");
        value.clone_into(&mut self.setup.flags[at + 1]);
    }

    /// Waits until there is a problem with this id, and returns its resource.
    pub(crate) async fn wait_for_problem(&self, path: &str) -> serde_json::Value {
        eventually(&format!("{path} is a problem"), async || {
            let problems = self.get("/problems").await.is(200).data();
            problems.as_array().expect("a list").iter().find(|problem| problem["id"] == path).cloned()
        })
        .await
    }

    /// Waits until there is no problem.
    pub(crate) async fn wait_for_no_problem(&self) {
        eventually("there is no problem", async || {
            self.get("/problems").await.is(200).ids().is_empty().then_some(())
        })
        .await;
    }

    /// Waits until an attribute has a value (`null` for none) and returns the whole answer.
    pub(crate) async fn wait_for_attribute(
        &self,
        key: &str,
        attribute: &str,
        value: impl Into<serde_json::Value>,
    ) -> super::CheckedAnswer {
        let value = value.into();
        eventually(&format!("{key} has {attribute} {value}"), async || {
            let answer = self.read(key).await;
            if answer.status() == 404 {
                answer.is(404);
                return None;
            }
            let good = answer.is(200);
            (good.attributes()[attribute] == value).then_some(good)
        })
        .await
    }

    /// Waits until a key is no longer served.
    pub(crate) async fn wait_until_not_found(&self, key: &str) {
        eventually(&format!("{key} is gone"), async || {
            let answer = self.read(key).await;
            (answer.status() == 404).then(|| answer.is(404))
        })
        .await;
    }

    /// Waits until the service serves a revision.
    pub(crate) async fn wait_for_revision(&self, revision: &str) {
        eventually(&format!("{revision} is served"), async || {
            let found = self.list().await.is(200).header_if_any("collectory-revision");
            (found.as_deref() == Some(revision)).then_some(())
        })
        .await;
    }

    /// Commits everything in the work tree by hand, and waits until that is served. Returns the revision.
    pub(crate) async fn commit_by_hand(&self, message: &str) -> String {
        let revision = self.repo.commit(message);
        self.wait_for_revision(&revision).await;
        revision
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("the service runs")
    }

    fn check_repository(&self) {
        self.repo.fsck();
        let strays = self.repo.leftover_files();
        assert!(strays.is_empty(), "left behind: {strays:#?}");
        if !self.repo.is_bare() {
            assert_eq!(self.repo.status(), self.status.clone().unwrap_or_default(), "git status at the end");
        }
    }
}

impl Deref for TestServer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(process) = &self.process {
                say(&format!("the service's log:\n{}", process.log()));
            }
            return;
        }
        if self.process.is_some() {
            self.stop();
        }
        self.check_repository();
    }
}

#[expect(clippy::print_stderr, reason = "the test runner shows it beside the failure")]
fn say(text: &str) {
    eprintln!("{text}");
}
