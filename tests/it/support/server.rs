//! A running service with its own repository.

use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::client::Client;
use super::patience::eventually;
use super::process::Process;
use super::repo::Repo;
use super::setup::Setup;

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

impl TestServer {
    /// Sets up a service on a fixture repository with a work tree, without authentication.
    pub(crate) fn setup(fixture: &str) -> Setup {
        Setup::of(fixture)
    }

    /// Starts a service in a prepared folder.
    pub(super) fn spawn(setup: Setup, folder: TempDir, repo: Repo) -> Self {
        let process = Process::spawn(&mut setup.command(folder.path(), &repo));
        let client = Client::new(process.address(), &setup.base);
        Self { folder, repo, setup, process: Some(process), client, status: None }
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
        self.running().address()
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
        self.process.take().expect("the service runs").stop()
    }

    /// Waits for the service to end by itself with this exit code; returns its log.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self, code: i32) -> String {
        self.process.take().expect("the service runs").wait_for_exit(code)
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
        let process = Process::spawn(&mut self.setup.command(self.folder.path(), &self.repo));
        self.client = Client::new(process.address(), &self.setup.base);
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

    /// Renames a complete file into the place of the policy, as `collectory token` does.
    pub(crate) fn replace_policy(&self, policy: &str) {
        let new = self.folder().join("policy.new");
        fs::write(&new, policy).expect("a file can be written");
        fs::rename(&new, self.folder().join("policy.yaml")).expect("a file can be replaced");
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
