//! What the benches share: the program under test, repositories of any size, a load driver.
//!
//! On a shared machine only ratios of things measured in turn within one run are meaningful, so every figure is
//! printed beside the one that it is compared with.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Reads a whole number from the environment.
#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
pub(crate) fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[expect(clippy::disallowed_methods, reason = "a bench has no configuration but its environment")]
pub(crate) fn program() -> String {
    std::env::var("COLLECTORY_BENCH_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_collectory").into())
}

/// Returns the processor time of this thread, in seconds (Linux; zero elsewhere).
pub(crate) fn thread_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A process that is killed when dropped.
pub(crate) struct Process {
    child: Child,
    /// The address on which it listens.
    pub(crate) address: SocketAddr,
    /// The time from its start to its `listening` line.
    pub(crate) started_in: Duration,
}

impl Process {
    /// Starts a program that prints `listening on http://ADDRESS/`, or `https`, when it is ready.
    pub(crate) fn start(command: &mut Command) -> Self {
        let started = Instant::now();
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the program says where it listens");
        let started_in = started.elapsed();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .and_then(|url| url.split("//").nth(1)?.split('/').next());
        let address = address.and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the program did not start; it said {line:?}"));
        Self { child, address, started_in }
    }

    /// Starts the service on a repository, from the program of this build or the one that `COLLECTORY_BENCH_PROGRAM`
    /// names, to compare two builds.
    pub(crate) fn serve(repository: &Path) -> Self {
        Self::serve_with(repository, &[])
    }

    /// Like [`serve`](Self::serve), with further flags.
    pub(crate) fn serve_with(repository: &Path, flags: &[&OsStr]) -> Self {
        let mut command = Command::new(program());
        hermetic(&mut command);
        command.args(["serve", "--auth", "none", "--listen", "127.0.0.1:0", "--repo"]).arg(repository);
        command.args(flags);
        Self::start(&mut command)
    }

    /// Returns the processor time that the process has used.
    pub(crate) fn processor_time(&self) -> Duration {
        processor_time(&self.child.id().to_string()).unwrap_or_default()
    }

    /// Returns the resident memory of the process, in bytes (Linux).
    pub(crate) fn resident_bytes(&self) -> Option<usize> {
        resident_bytes(&self.child.id().to_string())
    }
}

/// Returns the resident memory of this process, in bytes (Linux).
pub(crate) fn own_resident_bytes() -> Option<usize> {
    resident_bytes("self")
}

/// Reads `VmRSS` of `proc_pid_status(5)`.
fn resident_bytes(process: &str) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok().map(|kib| kib * 1024)
}

/// Returns how many files this process has open (Linux; zero elsewhere).
pub(crate) fn own_open_files() -> usize {
    // Listing the directory opens one.
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1))
}

/// Returns the processor time that this process has used.
pub(crate) fn own_processor_time() -> Duration {
    processor_time("self").unwrap_or_default()
}

/// Returns the processor time that a process and its children have used.
pub(crate) fn family_processor_time(process: u32) -> Duration {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let others = children.split_whitespace().filter_map(processor_time);
    others.chain(processor_time(&process.to_string())).sum()
}

/// Reads `utime` and `stime` of `proc_pid_stat(5)` (Linux only).
fn processor_time(process: &str) -> Option<Duration> {
    /// The unit of these figures, `sysconf(_SC_CLK_TCK)`: 100 per second on every Linux.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, figures) = stat.rsplit_once(')')?;
    // They are fields 14 and 15; the first field after the name, the state, is field 3.
    let ticks = figures.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u32>().ok());
    Some(TICK * ticks.sum::<Option<u32>>()?)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Shields a command from the git configuration of the user who runs the bench.
pub(crate) fn hermetic(command: &mut Command) {
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
}

/// Runs git, which must succeed.
pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    hermetic(&mut command);
    let status =
        command.current_dir(folder).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.expect("git is installed").success(), "git {arguments:?} failed");
}

pub(crate) fn key(number: usize) -> String {
    format!("collection-{number:06}")
}

/// The file of a collection, about 225 bytes like real ones.
pub(crate) fn file(number: usize, name: &str) -> String {
    format!(
        "# Collection {number}\ntype: document\nname: {name}\ndirectory: content/section/{number}\nrecursive: true\n\
         format: markdown\ndocumentTitleKey: title\ndocumentDescriptionKey: summary\nrevisionDirectory: revisions/{number}\n"
    )
}

/// Creates a repository with one commit of `count` collections.
pub(crate) fn repository(count: usize, bare: bool) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("settings");
    std::fs::create_dir(&path).expect("a folder can be made");
    git(&path, if bare { &["init", "-q", "-b", "main", "--bare"] } else { &["init", "-q", "-b", "main"] });
    git(&path, &["config", "user.name", "Bench"]);
    git(&path, &["config", "user.email", "bench@example.org"]);
    seed(&path, count);
    if !bare {
        git(&path, &["reset", "-q", "--hard"]);
    }
    (folder, path)
}

/// Makes the first commit. `git fast-import` writes the blobs, in one pack. The folder's tree is written by hand,
/// because fast-import searches the whole folder for every file that it adds.
fn seed(path: &Path, count: usize) {
    let (mut stream, mut folder) = (String::new(), Vec::new());
    for number in 0..count {
        let content = file(number, "Seed");
        stream.push_str(&format!("blob\ndata {}\n{content}\n", content.len()));
        let blob = git2::Oid::hash_object(git2::ObjectType::Blob, content.as_bytes());
        folder.extend_from_slice(format!("100644 {}.yaml\0", key(number)).as_bytes());
        folder.extend_from_slice(blob.expect("a blob can be hashed").as_bytes());
    }
    fast_import(path, &stream);
    let repository = git2::Repository::open(path).expect("the repository can be opened");
    let objects = repository.odb().expect("there are objects");
    let write = |kind, content: &[u8]| objects.write(kind, content).expect("an object can be written");
    let mut root = Vec::new();
    if count > 0 {
        root.extend_from_slice(b"40000 collections\0");
        root.extend_from_slice(write(git2::ObjectType::Tree, &folder).as_bytes());
    }
    let tree = write(git2::ObjectType::Tree, &root);
    let who = "Bench <bench@example.org> 1767225600 +0000";
    let commit = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nSeed\n");
    let commit = write(git2::ObjectType::Commit, commit.as_bytes());
    repository.reference("refs/heads/main", commit, true, "seed").expect("a branch can be made");
}

/// Returns the start of a commit for `git fast-import`.
pub(crate) fn commit_head(message: &str) -> String {
    let len = message.len();
    format!(
        "commit refs/heads/main\ncommitter Bench <bench@example.org> 1767225600 +0000\ndata {len}\n{message}\n"
    )
}

/// Appends a file of a commit for `git fast-import`.
pub(crate) fn push_file(stream: &mut String, number: usize, name: &str) {
    let content = file(number, name);
    stream.push_str(&format!(
        "M 100644 inline collections/{}.yaml\ndata {}\n{content}\n",
        key(number),
        content.len()
    ));
}

pub(crate) fn fast_import(folder: &Path, stream: &str) {
    let mut command = Command::new("git");
    hermetic(&mut command);
    command.current_dir(folder).args(["fast-import", "--quiet", "--force"]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("git is installed");
    child.stdin.take().expect("it is piped").write_all(stream.as_bytes()).expect("git takes the stream");
    assert!(child.wait().expect("git ends").success(), "git fast-import failed");
}

/// A keep-alive connection.
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
}

/// The transport of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket option can be set");
        Self::over(stream)
    }
}

impl<S: Stream> Connection<S> {
    /// Wraps a stream to the server.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::with_capacity(64 * 1024) }
    }

    /// Sends a request; returns the status and the whole answer, which must have a `Content-Length`.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> (u16, &[u8]) {
        self.stream.write_all(request).await.expect("the server takes requests");
        self.buffer.clear();
        loop {
            if let Some(total) = whole(&self.buffer)
                && self.buffer.len() >= total
            {
                let status = std::str::from_utf8(&self.buffer[9..12]).ok().and_then(|text| text.parse().ok());
                return (status.unwrap_or(0), &self.buffer);
            }
            let read = self.stream.read_buf(&mut self.buffer).await.expect("the server answers");
            assert!(read > 0, "the server closed the connection");
        }
    }
}

/// Returns the total length of the response at the start of `bytes`, once its head is complete.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("a response head is ASCII");
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a length"))
    });
    Some(head + length.unwrap_or(0))
}

/// Sends the same request on many connections for a while; returns requests per second.
pub(crate) async fn load(
    address: SocketAddr,
    connections: usize,
    request: &'static [u8],
    time: Duration,
) -> f64 {
    load_on(|| Connection::open(address), connections, request, time).await
}

/// Like [`load`], on connections that `open` makes.
pub(crate) async fn load_on<S: Stream, O: Future<Output = Connection<S>>>(
    open: impl Fn() -> O,
    connections: usize,
    request: &'static [u8],
    time: Duration,
) -> f64 {
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(open().await);
    }
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    for mut connection in opened {
        tasks.spawn(async move {
            let mut count = 0_u32;
            while started.elapsed() < time {
                let (status, _) = connection.ask(request).await;
                assert_eq!(status, 200);
                count += 1;
            }
            count
        });
    }
    let total: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(total) / started.elapsed().as_secs_f64()
}

/// Runs a bench on one thread, so that the server has the other core to itself.
pub(crate) fn on_one_thread(bench: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(bench);
}
