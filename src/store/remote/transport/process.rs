//! Child processes that end in time, together with all processes they have started.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The number of bytes kept of a process's output, from the beginning of each of its two streams.
const SAID_BYTES_MAX: usize = 256 * 1024;

/// How long a process that was asked to end may take to remove unfinished files.
const GRACE: Duration = Duration::from_millis(500);

/// How long the output is still read after the process has ended: a process that it left behind may hold the pipes
/// open, as an ssh does that serves several connections.
const TAIL_WAIT: Duration = Duration::from_millis(100);

/// How often the output of a process that may take long is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The exit status and output of a process.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    /// `None` if it was ended because its time was over.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: String,
    pub(crate) error: String,
}

impl ProcessOutput {
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// A message to the thread that waits for a process.
#[derive(Debug)]
enum Heard {
    Ended(io::Result<ExitStatus>),
    /// The process has to end now.
    End,
}

/// The running processes, each in a process group of its own.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    running: Mutex<Running>,
    one_ended: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    is_over: bool,
    /// The channels to the threads that wait for them.
    ends: BTreeMap<u64, Sender<Heard>>,
    started: u64,
}

struct Process<'a> {
    group: Pid,
    heard: Receiver<Heard>,
    number: u64,
    all: &'a Processes,
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        self.all.running().ends.remove(&self.number);
        self.all.one_ended.notify_all();
    }
}

impl Process<'_> {
    /// Ends the group, with `SIGKILL` if it takes too long.
    fn stop(&self) {
        end(self.group, Signal::TERM);
        let until = Instant::now() + GRACE;
        while let Ok(heard) = self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if matches!(heard, Heard::Ended(_)) {
                return;
            }
        }
        end(self.group, Signal::KILL);
    }
}

impl Processes {
    /// Runs a process, and ends its group at `until`.
    ///
    /// # Errors
    ///
    /// Fails when it can't be started.
    pub(crate) fn run(&self, command: Command, until: Instant) -> io::Result<ProcessOutput> {
        self.run_with(command, Stdio::null(), None, until)
    }

    /// Runs a process with this input, and with its whole output in a file if one is given; ends its group at `until`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) fn run_with(
        &self,
        mut command: Command,
        input: Stdio,
        output: Option<File>,
        until: Instant,
    ) -> io::Result<ProcessOutput> {
        command.stdin(input).stdout(output.map_or_else(Stdio::piped, Stdio::from));
        let (process, output, error) = self.start(command)?;
        let status = match process.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Heard::Ended(status)) => Some(status?),
            Ok(Heard::End) | Err(_) => {
                process.stop();
                None
            }
        };
        Ok(ProcessOutput { status, output: output.said(), error: error.said() })
    }

    /// Runs a process that may take as long as it keeps writing to its error stream, whose last line is passed to
    /// `report`; ends its group when it has been silent for longer than `quiet_max`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) fn run_speaking(
        &self,
        mut command: Command,
        quiet_max: Duration,
        report: &dyn Fn(&str),
    ) -> io::Result<ProcessOutput> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let (process, output, error) = self.start(command)?;
        let (mut heard, mut quiet) = (0, Duration::ZERO);
        let status = loop {
            match process.heard.recv_timeout(REPORT_INTERVAL) {
                Ok(Heard::Ended(status)) => break Some(status?),
                Err(RecvTimeoutError::Timeout) if quiet < quiet_max => {
                    let now = error.said_so_far().len;
                    quiet = if now == heard { quiet + REPORT_INTERVAL } else { Duration::ZERO };
                    if now != heard {
                        heard = now;
                        report(&error.last_line());
                    }
                }
                Ok(Heard::End) | Err(_) => {
                    process.stop();
                    break None;
                }
            }
        };
        Ok(ProcessOutput { status, output: output.said(), error: error.said() })
    }

    /// Returns whether no more processes are started.
    pub(crate) fn is_over(&self) -> bool {
        self.running().is_over
    }

    /// Ends all running processes and starts no more; returns when they have ended.
    pub(crate) fn end(&self) {
        let mut running = self.running();
        running.is_over = true;
        // A process that ends by itself has no receiver any more.
        running.ends.values().for_each(|end| drop(end.send(Heard::End)));
        drop(self.one_ended.wait_while(running, |running| !running.ends.is_empty()));
    }

    fn start(&self, mut command: Command) -> io::Result<(Process<'_>, Listener, Listener)> {
        let (sender, heard) = mpsc::channel();
        let mut running = self.running();
        if running.is_over {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the service is shutting down"));
        }
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn()?;
        running.started += 1;
        let number = running.started;
        running.ends.insert(number, sender.clone());
        drop(running);
        let process = Process { group: Pid::from_child(&child), heard, number, all: self };
        let (output, error) = (Listener::to(child.stdout.take()), Listener::to(child.stderr.take()));
        thread::spawn(move || drop(sender.send(Heard::Ended(child.wait()))));
        Ok((process, output, error))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals a process group; it is no failure if the group is empty.
fn end(group: Pid, signal: Signal) {
    let _gone = kill_process_group(group, signal);
}

/// The output of a process so far.
#[derive(Default)]
struct Said {
    /// Its beginning.
    kept: Vec<u8>,
    /// Its last piece, as it was read.
    last: Vec<u8>,
    /// Its length in bytes, kept or not.
    len: usize,
}

/// Collects the output of a process.
struct Listener {
    said: Arc<Mutex<Said>>,
    done: Receiver<()>,
}

impl Listener {
    fn to(pipe: Option<impl Read + Send + 'static>) -> Self {
        let said = Arc::<Mutex<Said>>::default();
        let (sender, done) = mpsc::channel();
        if let Some(pipe) = pipe {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                listen(pipe, &said);
                drop(sender);
            });
        }
        Self { said, done }
    }

    fn said_so_far(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last line of the last piece.
    fn last_line(&self) -> String {
        let said = self.said_so_far();
        let text = String::from_utf8_lossy(&said.last);
        text.split(['\r', '\n']).map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }

    fn said(self) -> String {
        // The sender is dropped, without a message, when all is read.
        let _ended = self.done.recv_timeout(TAIL_WAIT);
        String::from_utf8_lossy(&self.said_so_far().kept).into_owned()
    }
}

/// Reads to the end, also what is not kept: a full pipe would stop the process.
fn listen(mut pipe: impl Read, said: &Mutex<Said>) {
    let mut buffer = [0; 8 * 1024];
    while let Ok(len @ 1..) = pipe.read(&mut buffer) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.len += len;
        said.last = buffer[..len].to_vec();
        if said.kept.len() <= SAID_BYTES_MAX {
            said.kept.extend_from_slice(&buffer[..len]);
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
        let ended = Processes::default().run(shell("echo out; echo err >&2; exit 3"), until).unwrap();
        assert_eq!((ended.output.as_str(), ended.error.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert!(!ended.is_success());
    }

    #[test]
    fn when_the_time_is_over_the_whole_group_is_ended() {
        let began = Instant::now();
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("pid");
        // The inner process would hold the pipes open for a minute.
        let script = format!("sleep 60 & echo $! > {}; wait", mark.display());
        let ended = Processes::default().run(shell(&script), began + Duration::from_millis(300)).unwrap();
        assert!(ended.status.is_none() && began.elapsed() < Duration::from_secs(30));
        is_gone(&mark);
    }

    #[test]
    fn processes_that_run_are_ended_together_and_no_more_are_started() {
        let (folder, all) = (tempfile::tempdir().unwrap(), Arc::new(Processes::default()));
        let mark = folder.path().join("pid");
        let (began, runs) = (Instant::now(), Arc::clone(&all));
        let script = format!("sleep 60 & echo $! > {0}.new; mv {0}.new {0}; wait", mark.display());
        let one = thread::spawn(move || runs.run(shell(&script), began + Duration::from_secs(60)));
        while !mark.exists() && began.elapsed() < Duration::from_secs(30) {
            thread::yield_now();
        }
        all.end();
        assert!(one.join().unwrap().unwrap().status.is_none() && began.elapsed() < Duration::from_secs(30));
        is_gone(&mark);
        all.run(shell("true"), Instant::now() + Duration::from_secs(60)).unwrap_err();
    }

    /// Waits for the end of a process that was told to end, which takes a moment.
    fn is_gone(mark: &std::path::Path) {
        let began = Instant::now();
        let inner: u32 = std::fs::read_to_string(mark).unwrap().trim().parse().unwrap();
        let is_there = || {
            let state = std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        while is_there() && began.elapsed() < Duration::from_secs(30) {
            thread::yield_now();
        }
        assert!(!is_there());
    }
}
