//! A private PostgreSQL in a temporary folder with `initdb`'s defaults: every commit is flushed.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::support::family_processor_time;

/// Where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The programs that must be installed.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_isready"];

/// How long the server may take to start.
const START_WAIT: Duration = Duration::from_secs(60);

/// A server that listens on a socket in its folder and is stopped when dropped.
pub(super) struct Database {
    server: Child,
    folder: TempDir,
}

impl Database {
    /// Starts the server, if PostgreSQL is installed.
    pub(super) fn start() -> Option<Self> {
        let programs = installed()?;
        let user = geteuid().is_root().then(unprivileged);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).expect("root may do this");
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            command
        };
        let data = folder.path().join("data");
        let made = command("initdb")
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .status();
        assert!(made.expect("it is installed").success(), "initdb failed");
        let server = command("postgres")
            .args(["-c", "listen_addresses=", "-c", "timezone=UTC", "-c"])
            .arg(format!("unix_socket_directories={}", folder.path().display()))
            .arg("-D")
            .arg(&data)
            .spawn()
            .expect("it is installed");
        let database = Self { server, folder };
        database.await_ready(&programs);
        Some(database)
    }

    fn await_ready(&self, programs: &Path) {
        let started = Instant::now();
        let mut ask = Command::new(programs.join("pg_isready"));
        ask.arg("-h").arg(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        while !ask.status().expect("it is installed").success() {
            assert!(started.elapsed() < START_WAIT, "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the processor time that the server has used.
    pub(super) fn processor_time(&self) -> Duration {
        family_processor_time(self.server.id())
    }

    /// Returns the server's URL for `SQLAlchemy`.
    pub(super) fn url(&self) -> String {
        format!("postgresql://postgres@/postgres?host={}", self.folder.path().display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // PostgreSQL's "fast shutdown" disconnects all clients. A kill would leave shared memory behind.
        kill_process(Pid::from_child(&self.server), Signal::INT).ok();
        self.server.wait().ok();
    }
}

/// Returns the folder of the programs: that of Debian's newest version, or one of `PATH`.
fn installed() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let versions = versions.into_iter().rev().map(|(_, folder)| folder);
    versions
        .chain(super::server::search_path())
        .find(|folder| PROGRAMS.iter().all(|program| folder.join(program).is_file()))
}

/// Returns a user and a group that PostgreSQL agrees to run as: it refuses to run as root.
fn unprivileged() -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let find = |name: &str| {
        let mut fields =
            users.lines().map(|line| line.split(':')).find(|it| it.clone().next() == Some(name))?;
        Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ["postgres", "nobody"].into_iter().find_map(find).expect("every system has the user `nobody`")
}
