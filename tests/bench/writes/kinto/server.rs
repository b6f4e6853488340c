//! Kinto on uWSGI, as `docs/configuration/production.rst` of Kinto has it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::database::Database;
use crate::support::family_processor_time;
use crate::writes::free_address;

/// How many processes answer: the example of Kinto's documentation has three.
pub(super) const PROCESSES: usize = 3;

/// A server that ends with its owner.
pub(super) struct Kinto {
    server: Child,
    /// Where it listens.
    pub(super) address: SocketAddr,
    _folder: TempDir,
    database: Database,
}

impl Kinto {
    /// Starts it with a database of its own, if both are installed.
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

    /// The processor time that it and its database have used.
    pub(super) fn processor_time(&self) -> Duration {
        family_processor_time(self.server.id()) + self.database.processor_time()
    }
}

impl Drop for Kinto {
    fn drop(&mut self) {
        // The master ends its processes; killed, it would leave them behind.
        kill_process(Pid::from_child(&self.server), Signal::INT).ok();
        self.server.wait().ok();
    }
}

/// The program that `COLLECTORY_BENCH_KINTO` names, or the first of `PATH`.
#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
fn program() -> Option<PathBuf> {
    let named = std::env::var("COLLECTORY_BENCH_KINTO").ok().map(PathBuf::from);
    let found = || search_path().map(|folder| folder.join("kinto")).find(|program| program.is_file());
    // A link to it does not have its neighbours.
    named.or_else(found)?.canonicalize().ok()
}

/// The folders of `PATH`.
pub(super) fn search_path() -> impl Iterator<Item = PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).collect::<Vec<_>>().into_iter()
}

/// Writes the settings and the program that uWSGI starts.
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

/// uWSGI as in Kinto's documentation, which has nginx before it; here its own router keeps the
/// connections, a process beside the others.
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
