//! Measures the whole service over HTTP against etcd's gateway: no git there, one log, flushed in batches.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use base64ct::{Base64, Encoding as _};
use tempfile::TempDir;

use super::service::updates;
use super::{ask, free_address, rounds, settle, until_it_listens, which};
use crate::support::{Process, file, key, median, repository, setting};
use crate::table::{Goal, Table, per_second};

const CLIENTS: usize = 64;

pub(crate) const PART: &str = "etcd";

/// Prints both figures, if etcd is installed.
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

/// Puts through the gateway, with separate keys for each client. Returns puts per second.
async fn puts(address: SocketAddr, count: usize, round: usize) -> f64 {
    let answered = ask(address, CLIENTS, move |client, done| {
        let which = which(client + CLIENTS * done, count);
        put(&key(which), &file(which, &format!("Round {round}, {client} writes {done}")))
    });
    let answered = answered.await;
    assert_eq!(answered.refusal, None);
    answered.per_second
}

fn put(key: &str, value: &str) -> String {
    let body = format!(
        r#"{{"key":"{}","value":"{}"}}"#,
        Base64::encode_string(key.as_bytes()),
        Base64::encode_string(value.as_bytes())
    );
    format!(
        "POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
