//! Debian's `chromedriver`, one per browser, and its commands beyond the `WebDriver` standard.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use fantoccini::wd::WebDriverCompatibleCommand;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The error of an invalid URL.
type NoUrl = <Url as FromStr>::Err;

/// The required programs, where Debian installs them.
const NEEDED: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromedriver"];

/// Maximum attempts to start a driver: the port that it gets for IPv4 may be taken for IPv6, and then it exits.
const STARTS_MAX: usize = 5;

/// A running driver; its browser ends with it.
pub(crate) struct Driver {
    child: Child,
    pub(crate) port: u16,
    /// The home folder of the browser.
    _home: TempDir,
}

impl Driver {
    /// Starts a driver. Where no browser is installed, prints that and returns `None`.
    pub(crate) fn start() -> Option<Self> {
        if !is_there(&NEEDED, "apt-get install chromium chromium-driver") {
            return None;
        }
        let mut said = String::new();
        let driver = (0..STARTS_MAX).find_map(|_| Self::try_start(&mut said));
        Some(driver.unwrap_or_else(|| panic!("no driver says where it listens, but\n{said}")))
    }

    /// Tries to start a driver. Returns `None` if it ends before it listens; `said` collects its output.
    fn try_start(said: &mut String) -> Option<Self> {
        let home = tempfile::Builder::new().prefix("collectory-browser-").tempdir().unwrap();
        let mut command = Command::new(NEEDED[1]);
        command.arg("--port=0").env("HOME", home.path()).env("TMPDIR", home.path()).env("LC_ALL", "C.UTF-8");
        command.env("TZ", "Europe/Berlin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().expect("the driver starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            writeln!(said, "{line}").unwrap();
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let Some(port) = port else {
            child.wait().unwrap();
            return None;
        };
        // Later output is discarded.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some(Self { child, port, _home: home })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let asked = b"GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
            if stream.write_all(asked).is_ok() {
                stream.read_to_end(&mut Vec::new()).ok();
            }
        }
        let group = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        self.child.wait().ok();
    }
}

/// Reports whether these files exist. Prints a missing file to standard error directly, because the test harness
/// hides the output of a passing test.
pub(crate) fn is_there(files: &[impl AsRef<Path>], remedy: &str) -> bool {
    let Some(missing) = files.iter().find(|file| !file.as_ref().exists()) else { return true };
    let missing = missing.as_ref().display();
    let is_required = std::env::var_os("COLLECTORY_BROWSER").is_some_and(|value| value == "required");
    assert!(!is_required, "{missing} is missing: {remedy}");
    writeln!(std::io::stderr(), "{missing} is missing, so the browser suite checks nothing: {remedy}").ok();
    false
}

/// A command of the Chrome `DevTools` Protocol.
#[derive(Debug)]
pub(crate) struct DevTools(pub(crate) &'static str, pub(crate) Value);

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, NoUrl> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(json!({"cmd": self.0, "params": self.1}).to_string()))
    }
}

/// A request for the browser log since the last request.
#[derive(Debug)]
pub(crate) struct Complaints;

impl WebDriverCompatibleCommand for Complaints {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, NoUrl> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(json!({"type": "browser"}).to_string()))
    }
}
