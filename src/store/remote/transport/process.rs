//! A process that ends in time, with all that it has started.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// So much of what a process says is kept, from the beginning of each of its two outputs.
const SAID_BYTES_MAX: u64 = 256 * 1024;

/// How long a process that was asked to end may take to remove what it was making.
const GRACE: Duration = Duration::from_millis(500);

/// How long its outputs are read on when it has ended: somebody whom it left behind may hold them open, as ssh
/// does that serves several connections.
const TAIL_WAIT: Duration = Duration::from_millis(100);

/// How often it is told what a process says that may take long.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` when its time was over and it was ended.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: String,
    pub(crate) error: String,
}

impl Ended {
    pub(crate) fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a process in a group of its own, and ends the group when the time has come.
///
/// # Errors
///
/// Fails when it can't be started.
pub(crate) fn run(command: Command, until: Instant) -> io::Result<Ended> {
    run_with(command, Stdio::null(), None, until)
}

/// The same of a process that may take as long as it likes while it says something, which is told.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_speaking(
    mut command: Command,
    quiet_max: Duration,
    tell: &dyn Fn(&str),
) -> io::Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let output = Listener::to(child.stdout.take());
    let error = Listener::to(child.stderr.take());
    let (end_it, ended) = mpsc::channel();
    thread::spawn(move || drop(end_it.send(child.wait())));
    let (mut heard, mut quiet) = (0, Duration::ZERO);
    let status = loop {
        match ended.recv_timeout(TELL_EVERY) {
            Ok(status) => break Some(status?),
            Err(RecvTimeoutError::Timeout) if quiet < quiet_max => {
                let now = error.heard.load(Ordering::Relaxed);
                quiet = if now == heard { quiet + TELL_EVERY } else { Duration::ZERO };
                if now != heard {
                    heard = now;
                    tell(&error.last_line());
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                stop(group, &ended);
                break None;
            }
        }
    };
    Ok(Ended { status, output: output.said(), error: error.said() })
}

/// Ends a group, with force if it takes too long.
fn stop<T>(group: Pid, ended: &mpsc::Receiver<T>) {
    end(group, Signal::TERM);
    if ended.recv_timeout(GRACE).is_err() {
        end(group, Signal::KILL);
    }
}

/// The same of a process that is given something, and whose whole output goes to a file.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_with(
    mut command: Command,
    input: Stdio,
    output: Option<File>,
    until: Instant,
) -> io::Result<Ended> {
    let output = output.map_or_else(Stdio::piped, Stdio::from);
    command.stdin(input).stdout(output).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let output = Listener::to(child.stdout.take());
    let error = Listener::to(child.stderr.take());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || drop(tell.send(child.wait())));
    let status = match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(status) => Some(status?),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            stop(group, &told);
            None
        }
    };
    Ok(Ended { status, output: output.said(), error: error.said() })
}

/// Signals a group; that nobody is left in it is no failure.
fn end(group: Pid, signal: Signal) {
    let _gone = kill_process_group(group, signal);
}

/// Takes down what a process says.
struct Listener {
    said: Arc<Mutex<Vec<u8>>>,
    /// How many bytes there were, kept or not.
    heard: Arc<AtomicU64>,
    /// The end of it.
    last: Arc<Mutex<Vec<u8>>>,
    done: mpsc::Receiver<()>,
}

impl Listener {
    fn to(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (said, last) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::new(AtomicU64::new(0));
        let (tell, done) = mpsc::channel();
        if let Some(pipe) = pipe {
            let (said, last, heard) = (Arc::clone(&said), Arc::clone(&last), Arc::clone(&heard));
            thread::spawn(move || {
                listen(pipe, &said, |chunk| {
                    heard.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = chunk.to_vec();
                });
                drop(tell);
            });
        }
        Self { said, heard, last, done }
    }

    /// The last line that was said, as far as it came in one piece.
    fn last_line(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&last);
        text.split(['\r', '\n']).map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }

    fn said(self) -> String {
        // The other end is dropped, with nothing sent, when all is read.
        let _ended = self.done.recv_timeout(TAIL_WAIT);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// Reads to the end, also what is not kept: a full pipe would stop the process.
fn listen(mut pipe: impl Read, said: &Mutex<Vec<u8>>, mut note: impl FnMut(&[u8])) {
    let mut buffer = [0; 8 * 1024];
    while let Ok(len @ 1..) = pipe.read(&mut buffer) {
        note(&buffer[..len]);
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() as u64 <= SAID_BYTES_MAX {
            said.extend_from_slice(&buffer[..len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_process_says_and_how_it_ends_is_told() {
        let until = Instant::now() + Duration::from_secs(60);
        let ended = run(shell("echo out; echo err >&2; exit 3"), until).unwrap();
        assert_eq!((ended.output.as_str(), ended.error.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert!(!ended.is_well());
    }

    #[test]
    fn when_the_time_is_over_the_whole_group_is_ended() {
        let began = Instant::now();
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("pid");
        // The inner one would hold the outputs open for a minute.
        let script = format!("sleep 60 & echo $! > {}; wait", mark.display());
        let ended = run(shell(&script), began + Duration::from_millis(300)).unwrap();
        assert!(ended.status.is_none() && began.elapsed() < Duration::from_secs(30));
        let inner: u32 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
        let is_there = || {
            let state = std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        // It has been told to end, and takes a moment.
        while is_there() && began.elapsed() < Duration::from_secs(30) {
            thread::yield_now();
        }
        assert!(!is_there());
    }
}
