//! How a service is started: its repository, its authorization, its flags, and what is around it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::process::{ProgramOutput, collectory_command, run_to_end};
use super::repo::Repo;
use super::server::TestServer;

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
    pub(super) flags: Vec<String>,
    environment: Vec<(String, String)>,
    pub(super) base: String,
    wrapper: Vec<String>,
    pub(super) listen: String,
}

impl Setup {
    /// Sets up a service on a fixture repository with a work tree, without authentication.
    pub(super) fn of(fixture: &str) -> Self {
        Self {
            given: Given::Fixture(fixture.to_owned()),
            auth: Auth::None,
            flags: Vec::new(),
            environment: Vec::new(),
            base: String::new(),
            wrapper: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
        }
    }

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

    /// Lets the service learn of no change by itself: nothing is watched, and no tick comes during a test.
    pub(crate) fn deaf(self) -> Self {
        self.flag(&["--watch", "none", "--tick-ms", "3600000"])
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

    /// Limits how large a file of the program may be, in blocks of 512 or 1,024 bytes (`ulimit -f`).
    pub(crate) fn file_blocks_max(self, count: u32) -> Self {
        self.through(&["sh", "-c", "ulimit -f \"$0\" && exec \"$@\"", &count.to_string()])
    }

    /// Lets nobody read the log: standard error is a pipe that is full.
    pub(crate) fn stuck_log(self) -> Self {
        let script = "f=$(mktemp -u) && mkfifo \"$f\" && exec 3<>\"$f\" || exit
                      dd if=/dev/zero of=\"$f\" oflag=nonblock bs=4096 2>/dev/null
                      rm \"$f\" && exec \"$@\" 2>&3";
        self.through(&["sh", "-c", script, "sh"])
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
        TestServer::spawn(self, folder, repo)
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

    /// Returns the command that starts the service.
    pub(super) fn command(&self, folder: &Path, repo: &Repo) -> Command {
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
