//! The whole service over HTTP against etcd's gateway: no git there, one log, flushed in batches.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::task::JoinSet;

use super::service::updates;
use super::{free_address, rounds, settle, until_it_listens, which};
use crate::support::{Connection, Process, file, key, median, repository, setting};
use crate::table::{Goal, Table, per_second};

const CLIENTS: usize = 64;

/// What this part is called.
pub(crate) const PART: &str = "etcd";

/// Prints both, when etcd is installed.
pub(crate) async fn compare(table: &mut Table) {
    let Some(etcd) = Etcd::start().await else {
        println!("etcd is not installed (`apt-get install etcd-server`)");
        return;
    };
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let (_folder, path) = repository(count, true);
    let service = Process::serve(&path);
    let mut rates: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds() {
        settle();
        let ours = updates(service.address, CLIENTS, count, round).await;
        settle();
        let theirs = puts(etcd.address, count, round).await;
        rates[0].push(ours);
        rates[1].push(theirs);
        rates[2].push(ours / theirs);
    }
    let [ours, theirs, ratio] = rates.map(|figures| median(&figures));
    println!(
        "durable writes/s over HTTP, {CLIENTS} clients, {count} collections, bare / etcd put through its gateway:"
    );
    println!("  {ours:.0} / {theirs:.0}  {ratio:.2}");
    let what = format!("PATCH, {CLIENTS} clients / etcd put through its gateway");
    table.compared(PART, what, [ours, theirs].map(per_second), ratio, Goal::AtLeast(0.6));
}

struct Etcd {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Etcd {
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let [clients, peers] = [free_address(), free_address()];
        let (client_url, peer_url) = (format!("http://{clients}"), format!("http://{peers}"));
        let arguments = [
            ("--data-dir", folder.path().to_str()?),
            ("--listen-client-urls", &client_url),
            ("--advertise-client-urls", &client_url),
            ("--listen-peer-urls", &peer_url),
            ("--initial-advertise-peer-urls", &peer_url),
            ("--initial-cluster", &format!("default={peer_url}")),
        ];
        let mut command = Command::new("etcd");
        for (flag, value) in arguments {
            command.args([flag, value]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let etcd = Self { child, address: clients, _folder: folder };
        until_it_listens(clients).await;
        Some(etcd)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Puts through the gateway, each client its own keys.
async fn puts(address: SocketAddr, count: usize, round: usize) -> f64 {
    let time = Duration::from_millis(setting("COLLECTORY_BENCH_MS", 1000) as u64);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for client in 0..CLIENTS {
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await;
            let mut done = 0_u32;
            while started.elapsed() < time {
                let which = which(client + CLIENTS * done as usize, count);
                let value = file(which, &format!("Round {round}, {client} writes {done}"));
                let (status, answer) = connection.ask(put(&key(which), &value).as_bytes()).await;
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(answer));
                done += 1;
            }
            done
        });
    }
    let total: u32 = tasks.join_all().await.into_iter().sum();
    f64::from(total) / started.elapsed().as_secs_f64()
}

fn put(key: &str, value: &str) -> String {
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
    format!(
        "POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// As in RFC 4648, section 4.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for bytes in text.as_bytes().chunks(3) {
        let group =
            (0..3).fold(0_u32, |group, at| group << 8 | u32::from(bytes.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * at) & 63) as usize];
            encoded.push(if at <= bytes.len() { char::from(letter) } else { '=' });
        }
    }
    encoded
}
