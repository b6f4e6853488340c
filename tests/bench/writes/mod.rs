//! The parts that write: each measures one thing in turn with its peer.
//!
//! Settings: `COLLECTORY_BENCH_COLLECTIONS` (1000; `journal`: 1,000, 10,000 and 100,000), `COLLECTORY_BENCH_ROUNDS`
//! (5), `COLLECTORY_BENCH_MS` (1000 a measurement of the service), `COLLECTORY_BENCH_BARE` (1; 0 for a repository
//! with a work tree), `COLLECTORY_BENCH_COMMITS` (for `size` and `long`). `journal` opens the repository as the
//! service does and appends groups to it, so it is the upper bound of what the service can reach.

pub(crate) mod etcd;
pub(crate) mod hand;
pub(crate) mod journal;
pub(crate) mod kinto;
pub(crate) mod long;
pub(crate) mod service;
pub(crate) mod size;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use chrono::DateTime;
use collectory::Actor;
use collectory::benched::{Draft, GitJournal, Journal as _, Options};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::{Connection, file, key, setting};

/// The number of commits in a group.
pub(crate) const GROUP_LEN: usize = 64;

/// How long a peer may take until it listens.
const START_WAIT: Duration = Duration::from_secs(20);

/// The number of rounds that are measured; the median counts.
pub(crate) fn rounds() -> usize {
    setting("COLLECTORY_BENCH_ROUNDS", 5)
}

/// Flushes what other writers have left to the kernel, because it would slow the next measurement.
pub(crate) fn settle() {
    rustix::fs::sync();
}

/// An address on which a peer may listen.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound")
}

/// Waits for a peer that was just started.
pub(crate) async fn until_it_listens(address: SocketAddr) {
    let started = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        assert!(started.elapsed() < START_WAIT, "the peer does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The results of requests that several clients made concurrently.
pub(crate) struct Answered {
    /// Requests per second answered with 200.
    pub(crate) per_second: f64,
    /// The fraction of requests answered otherwise.
    pub(crate) refused: f64,
    /// The answer to one of the refused requests.
    pub(crate) refusal: Option<String>,
}

/// Sends requests for a while from several clients, each on its own connection. `request` builds a request from the
/// client's number and how many requests it has sent before.
pub(crate) async fn ask(
    address: SocketAddr,
    clients: usize,
    request: impl Fn(usize, usize) -> String + Copy + Send + 'static,
) -> Answered {
    let time = Duration::from_millis(setting("COLLECTORY_BENCH_MS", 1000) as u64);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            let (mut asked, mut done, mut refusal) = (0, 0_usize, None);
            while started.elapsed() < time {
                match connection.ask(request(client, asked).as_bytes()).await {
                    (200, _) => done += 1,
                    (_, answer) => refusal = Some(String::from_utf8_lossy(answer).into_owned()),
                }
                asked += 1;
            }
            (asked, done, refusal)
        });
    }
    let all = tasks.join_all().await;
    let asked = all.iter().map(|(asked, ..)| asked).sum::<usize>() as f64;
    let done = all.iter().map(|(_, done, _)| done).sum::<usize>() as f64;
    Answered {
        per_second: done / started.elapsed().as_secs_f64(),
        refused: 1.0 - done / asked,
        refusal: all.into_iter().find_map(|(.., refusal)| refusal),
    }
}

/// The number of the file that commit `number` changes: spread over the folder, as real ones are.
pub(crate) fn which(number: usize, collections: usize) -> usize {
    // A prime, so that every file is changed in turn.
    number.wrapping_mul(7_919) % collections
}

/// A commit as the service makes it, including its message.
pub(crate) fn draft(number: usize, collections: usize, run: &str) -> Draft {
    let which = which(number, collections);
    let (key, name) = (key(which), format!("Run {run}, commit {number}"));
    let message = format!(
        "Update {key}: name\n\nname: \"Seed\" -> \"{name}\"\n\nCollectory-Action: collection.updated\n\
         Collectory-Key: {key}\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-{number:012x}\n"
    );
    let at = DateTime::from_timestamp(1_767_225_600, 0).expect("a time of this century");
    Draft {
        files: vec![(format!("{key}.yaml"), Some(file(which, &name).into_bytes()))],
        message,
        author: Actor::new("Bench", "bench@example.org"),
        at,
    }
}

/// Opens a repository as the service does.
pub(crate) fn open(path: &Path) -> GitJournal {
    GitJournal::open(Options::new(path)).expect("a repository that was just made can be served")
}

/// Appends `count` commits in groups of `group_len` and tends the journal as the writer does. Returns how long each
/// group took, in seconds.
pub(crate) fn append(
    journal: &mut GitJournal,
    (first, count, group_len): (usize, usize, usize),
    collections: usize,
    run: &str,
) -> Vec<f64> {
    /// The same value as in the engine's writer.
    const UNTENDED_GROUPS_MAX: usize = 32;
    let mut head = journal.head().expect("the branch can be read");
    let mut times = Vec::new();
    for start in (first..first + count).step_by(group_len) {
        let end = (start + group_len).min(first + count);
        let drafts: Vec<Draft> = (start..end).map(|number| draft(number, collections, run)).collect();
        let started = Instant::now();
        let committed = journal.append(head, &drafts).expect("nobody else writes");
        if (times.len() + 1) % UNTENDED_GROUPS_MAX == 0 {
            journal.start_maintenance().expect("nobody is in the way");
        }
        times.push(started.elapsed().as_secs_f64());
        head = committed.last().map(|it| it.revision).or(head);
    }
    times
}

/// Returns the number of packs of a repository.
pub(crate) fn pack_files(path: &Path) -> usize {
    let entries = std::fs::read_dir(path.join("objects/pack")).expect("it is there").flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "pack")).count()
}

/// Returns the total size of packs, their indexes and loose objects.
pub(crate) fn objects_bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path.join("objects")) else { return 0 };
    let folders =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.ends_with("pack") || is_fan(path));
    let files = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flat_map(Iterator::flatten);
    files
        .filter(|file| {
            let path = file.path();
            path.extension().is_none_or(|ending| ending == "pack" || ending == "idx")
        })
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn is_fan(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 2)
}
