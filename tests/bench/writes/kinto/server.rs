//! Kinto on uWSGI, set up as in Kinto's `docs/configuration/production.rst`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::database::Database;
use crate::support::family_processor_time;
use crate::writes::free_address;

/// The number of worker processes: the example in Kinto's documentation has three.
pub(super) const PROCESSES: usize = 3;

/// A server that is stopped when dropped.
pub(super) struct Kinto {
    server: Child,
    /// The address on which it listens.
    pub(super) address: SocketAddr,
    _folder: TempDir,
    database: Database,
}

impl Kinto {
    /// Starts Kinto with a private database, if both are installed.
    pub(super) fn start() -> Option<Self> {
        let program = program()?;
        let programs = program.parent()?;
        let uwsgi = programs.join("uwsgi");
        if !uwsgi.is_file() {
            return None;
        }
        let database = Database::start()?;
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let settings = configure(folder.path(), &database.url());
        let mut migrate = Command::new(&program);
        migrate.args(["migrate", "--ini"]).arg(settings).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(migrate.status().expect("it is installed").success(), "kinto migrate failed");
        let address = free_address();
        let server = serve(&uwsgi, folder.path(), address).spawn().expect("it is installed");
        Some(Self { server, address, _folder: folder, database })
    }

    /// Returns the processor time that Kinto and its database have used.
    pub(super) fn processor_time(&self) -> Duration {
        family_processor_time(self.server.id()) + self.database.processor_time()
    }
}

impl Drop for Kinto {
    fn drop(&mut self) {
        // On SIGINT the master stops its workers; a killed master would leave them behind.
        kill_process(Pid::from_child(&self.server), Signal::INT).ok();
        self.server.wait().ok();
    }
}

/// Returns the program that `COLLECTORY_BENCH_KINTO` names, or the first in `PATH`.
#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
fn program() -> Option<PathBuf> {
    let named = std::env::var("COLLECTORY_BENCH_KINTO").ok().map(PathBuf::from);
    let found = || search_path().map(|folder| folder.join("kinto")).find(|program| program.is_file());
    // A symbolic link to the program does not have uwsgi beside it.
    named.or_else(found)?.canonicalize().ok()
}

/// The folders of `PATH`.
pub(super) fn search_path() -> impl Iterator<Item = PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).collect::<Vec<_>>().into_iter()
}

/// Writes the settings and the WSGI program that uWSGI starts. Returns the path of the settings.
fn configure(folder: &Path, database: &str) -> PathBuf {
    let settings = folder.join("kinto.ini");
    let mut text = "[app:main]\nuse = egg:kinto\nkinto.includes = kinto.plugins.history\n\
                    history.exclude_resources = /buckets/plain\nkinto.userid_hmac_secret = bench\n\
                    kinto.bucket_create_principals = system.Everyone\n"
        .to_owned();
    for part in ["storage", "cache", "permission"] {
        text.push_str(&format!("kinto.{part}_backend = kinto.core.{part}.postgresql\n"));
        text.push_str(&format!("kinto.{part}_url = {database}\n"));
    }
    std::fs::write(&settings, text).expect("a file can be written");
    let program = format!(
        "from pyramid.paster import get_app\napplication = get_app({:?})\n",
        settings.display().to_string()
    );
    std::fs::write(folder.join("app.wsgi"), program).expect("a file can be written");
    settings
}

/// The uWSGI command from Kinto's documentation. There, nginx is in front of uWSGI; here, uWSGI's own HTTP router,
/// which is one more process, keeps the connections.
fn serve(uwsgi: &Path, folder: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(uwsgi);
    command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["--http", &address.to_string(), "--http-keepalive", "--listen", "100"]);
    command.args(["--wsgi-file", "app.wsgi", "--need-app", "--processes", &PROCESSES.to_string()]);
    command.args(["--master", "--no-orphans", "--lazy-apps", "--enable-threads", "--single-interpreter"]);
    command.args(["--buffer-size", "65535", "--post-buffering", "65535", "--disable-logging"]);
    let environment = uwsgi.ancestors().nth(2).filter(|folder| folder.join("pyvenv.cfg").is_file());
    if let Some(environment) = environment {
        command.arg("--virtualenv").arg(environment);
    }
    command
}
