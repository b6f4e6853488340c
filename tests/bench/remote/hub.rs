//! A remote that is reached by several transports, and a script that pushes to it and retries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::git_servers::{Daemon, ServedFolders, TOKEN, serve_http, sshd};
use crate::proxy::{Proxy, ProxyMode};
use crate::support::{Process, file, git, hermetic, key, repository};

/// The transport to a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Folder,
    Http,
    Ssh,
}

impl By {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Http => "http",
            Self::Ssh => "ssh",
        }
    }
}

/// A remote and the transport to it.
pub(crate) struct Hub {
    folder: TempDir,
    path: PathBuf,
    url: String,
    flags: Vec<OsString>,
    /// The `GIT_SSH_COMMAND` of the clones, which authenticates them.
    ssh: Option<String>,
    _daemon: Option<Daemon>,
}

impl Hub {
    /// Creates a remote with collections behind a delaying proxy; `None` where `sshd` is not installed.
    pub(crate) fn new(by: By, delay: Duration, collections: usize) -> Option<Self> {
        let (folder, path) = repository(collections, true);
        let (root, mut flags) = (folder.path(), Vec::<OsString>::new());
        let (mut ssh, mut daemon) = (None, None);
        let delayed = |port: u16| match delay {
            Duration::ZERO => port,
            delay => {
                let proxy = Proxy::start(port);
                proxy.set(ProxyMode::Delay(delay));
                proxy.port
            }
        };
        let url = match by {
            By::Folder => path.display().to_string(),
            By::Http => {
                let token = root.join("token");
                std::fs::write(&token, TOKEN).expect("a file can be written");
                flags.extend(["--remote-insecure".into(), "--remote-token-file".into(), token.into()]);
                let port = delayed(serve_http(ServedFolders::all_from(root)));
                format!("http://127.0.0.1:{port}/settings")
            }
            By::Ssh => {
                let port = delayed(daemon.insert(sshd(root)?).1);
                let [key, hosts, host] = ["user", "hosts", "host.pub"].map(|name| root.join(name));
                let host = std::fs::read_to_string(host).expect("it has a key");
                std::fs::write(&hosts, format!("[127.0.0.1]:{port} {host}")).expect("a file can be written");
                let options = format!("ssh -i {} -o UserKnownHostsFile={}", key.display(), hosts.display());
                ssh = Some(format!("{options} -o BatchMode=yes"));
                flags.extend(["--remote-key".into(), key.into()]);
                flags.extend(["--remote-known-hosts".into(), hosts.into()]);
                format!("ssh://127.0.0.1:{port}{}", path.display())
            }
        };
        flags.extend(["--remote".into(), url.clone().into()]);
        Some(Self { folder, path, url, flags, ssh, _daemon: daemon })
    }

    /// Starts a service that shares the remote.
    pub(crate) fn instance(&self, name: &str, more: &[&str]) -> Process {
        let mut flags: Vec<&std::ffi::OsStr> = self.flags.iter().map(OsString::as_os_str).collect();
        flags.extend(more.iter().map(std::ffi::OsStr::new));
        Process::serve_with(&self.folder.path().join(name), &flags)
    }

    /// Lets people change their own collections and push, retrying after lost races. Returns pushes per second.
    pub(crate) fn loops(&self, people: usize, time: Duration) -> f64 {
        let clones: Vec<PathBuf> = (0..people).map(|person| self.clone_of(person)).collect();
        let started = Instant::now();
        let pushed: usize = thread::scope(|scope| {
            let push = |(person, clone)| scope.spawn(move || self.push_until(clone, person, started + time));
            let people: Vec<_> =
                clones.iter().enumerate().map(|(person, clone)| push((person, clone))).collect();
            people.into_iter().map(|person| person.join().expect("nobody gives up")).sum()
        });
        clones.iter().for_each(|clone| drop(std::fs::remove_dir_all(clone)));
        pushed as f64 / time.as_secs_f64()
    }

    fn clone_of(&self, person: usize) -> PathBuf {
        let clone = self.folder.path().join(format!("person-{person}"));
        let target = clone.to_str().expect("temporary paths are UTF-8");
        git(&self.path, &["clone", "-q", ".", target]);
        // People keep their passwords in a credential helper, which git also queries before each command.
        let url = self.url.replacen("http://", &format!("http://x-access-token:{TOKEN}@"), 1);
        git(&clone, &["remote", "set-url", "origin", &url]);
        git(&clone, &["config", "user.name", "Bench"]);
        git(&clone, &["config", "user.email", "bench@example.org"]);
        clone
    }

    fn push_until(&self, clone: &Path, person: usize, until: Instant) -> usize {
        let mut pushed = 0;
        while Instant::now() < until {
            if !self.asks(clone, &["pull", "-q", "--rebase"]) {
                continue;
            }
            let content = file(person, &format!("Person {person}, {pushed}"));
            std::fs::write(clone.join(format!("collections/{}.yaml", key(person))), content)
                .expect("a file can be written");
            git(clone, &["commit", "-q", "-a", "-m", "Update"]);
            while !self.asks(clone, &["push", "-q"]) && Instant::now() < until {
                self.asks(clone, &["pull", "-q", "--rebase"]);
            }
            pushed += usize::from(Instant::now() < until);
        }
        pushed
    }

    /// Runs git, which fails when it loses a race.
    fn asks(&self, clone: &Path, arguments: &[&str]) -> bool {
        let mut command = Command::new("git");
        hermetic(&mut command);
        command.current_dir(clone).args(arguments).envs(self.ssh.iter().map(|ssh| ("GIT_SSH_COMMAND", ssh)));
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.expect("git is installed").success()
    }
}
