//! Measures the cost of monitoring features: each is compared in turn with the same service without it.
//!
//! Reads of one collection on 64 connections, with `--admin-listen`, with `--access-log`, and over TLS with
//! keep-alive connections; updates by 1 and by 64 clients with a webhook receiver that is down. For reads, the
//! service's processor time is printed too: on a machine that others use, it is more exact than requests per second.
//!
//! `COLLECTORY_BENCH_ROUNDS` (9; updates: 5), `COLLECTORY_BENCH_MS` (600 a measurement; updates: 1000),
//! `COLLECTORY_BENCH_CONNECTIONS` (64). TLS needs `openssl`, which makes the certificate.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::read::{ONE, connections, time};
use crate::support::{Connection, Process, Stream, load_on, median, repository, setting};
use crate::table::{Goal, Table, per_second};
use crate::writes::service::updates;
use crate::writes::{free_address, rounds, settle};

pub(crate) const PART: &str = "operations";

const CLIENTS: usize = 64;

pub(crate) async fn compare(table: &mut Table) {
    let count = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let (folder, path) = repository(count, true);
    let (_plain, plain_path) = repository(count, true);
    let plain = Process::serve(&plain_path);
    for (what, flags, goal) in [
        ("with metrics", &["--admin-listen", "127.0.0.1:0"][..], 0.98),
        ("with an access log", &["--access-log"], 0.95),
    ] {
        let flags: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
        let watched = Process::serve_with(&path, &flags);
        let open = move |address| Connection::open(address);
        reads(table, what, (&watched, open), &plain, Goal::AtLeast(goal)).await;
    }
    if let Some(tls) = Pair::made(folder.path()) {
        let flags = ["--tls-cert".as_ref(), tls.certificate.as_ref(), "--tls-key".as_ref(), tls.key.as_ref()];
        let secured = Process::serve_with(&path, &flags);
        let connector = tls.connector();
        let open = move |address| {
            let connector = connector.clone();
            async move {
                let stream = TcpStream::connect(address).await.expect("the service listens");
                stream.set_nodelay(true).expect("a socket option can be set");
                let name = ServerName::try_from("localhost").expect("it is a name");
                Connection::over(connector.connect(name, stream).await.expect("the service speaks TLS"))
            }
        };
        reads(table, "over TLS, connections kept", (&secured, open), &plain, Goal::None).await;
    } else {
        println!("openssl is not installed: TLS is left out");
    }
    let receivers = folder.path().join("webhooks.yaml");
    let list = format!("- {{name: down, url: 'http://{}/', secret: {SECRET}}}\n", free_address());
    std::fs::write(&receivers, list).expect("a file can be written");
    let flags = ["--webhooks".as_ref(), receivers.as_os_str(), "--webhook-allow-private".as_ref()];
    let telling = Process::serve_with(&path, &flags);
    writes(table, &telling, &plain, count).await;
}

/// The webhook secret; no delivery ever reaches a receiver.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Compares reads of one service, on connections that `open` makes, with reads of a plain service.
async fn reads<S: Stream, O: Future<Output = Connection<S>>>(
    table: &mut Table,
    what: &str,
    (watched, open): (&Process, impl Fn(SocketAddr) -> O),
    plain: &Process,
    goal: Goal,
) {
    let (mut rates, mut costs): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
    for _ in 0..setting("COLLECTORY_BENCH_ROUNDS", 9) {
        let (rate, cost) = read(watched, || open(watched.address)).await;
        rates[0].push(rate);
        costs[0].push(cost);
        let (rate, cost) = read(plain, || Connection::open(plain.address)).await;
        rates[1].push(rate);
        costs[1].push(cost);
    }
    let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(with, without)| with / without).collect();
    let ratio = median(&ratios);
    let [with, without] = costs.map(|figures| median(&figures));
    let rates = rates.map(|figures| per_second(median(&figures)));
    println!(
        "read one, {what}: {}, without {}, ratio {ratio:.2}; processor time {with:.2}, {without:.2} µs, ratio {:.2}",
        rates[0],
        rates[1],
        without / with
    );
    table.compared(PART, format!("read one, {what} / without"), rates, ratio, goal);
}

/// Returns reads per second, and microseconds of the service's processor time per read.
async fn read<S: Stream, O: Future<Output = Connection<S>>>(
    service: &Process,
    open: impl Fn() -> O,
) -> (f64, f64) {
    let before = service.processor_time();
    let rate = load_on(open, connections(), ONE, time()).await;
    let took = service.processor_time() - before;
    (rate, took.as_secs_f64() * 1e6 / (rate * time().as_secs_f64()))
}

/// Compares updates of a service whose receiver is down with updates of a service without a receiver.
async fn writes(table: &mut Table, telling: &Process, plain: &Process, collections: usize) {
    for clients in [1, CLIENTS] {
        let (mut rates, mut ratios): ([Vec<f64>; 2], _) = (Default::default(), Vec::new());
        for round in 0..rounds() {
            settle();
            let with = updates(telling.address, clients, collections, round).await;
            settle();
            let without = updates(plain.address, clients, collections, round).await;
            rates[0].push(with);
            rates[1].push(without);
            ratios.push(with / without);
        }
        let (ratio, rates) = (median(&ratios), rates.map(|figures| per_second(median(&figures))));
        println!(
            "updates, {clients} clients, a receiver down: {}, none {}, ratio {ratio:.2}",
            rates[0], rates[1]
        );
        let what = format!("PATCH with a receiver that is down / without, clients: {clients}");
        table.compared(PART, what, rates, ratio, Goal::AtLeast(1.0));
    }
}

/// The files of a certificate and its private key.
struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    /// Makes a certificate, or returns `None` where `openssl` is not installed.
    fn made(folder: &Path) -> Option<Self> {
        let file = |ending: &str| folder.join(format!("tls.{ending}")).to_string_lossy().into_owned();
        let made = Self { certificate: file("crt"), key: file("key") };
        let mut openssl = Command::new("openssl");
        openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '));
        openssl.args("-subj /CN=localhost -addext subjectAltName=DNS:localhost".split(' '));
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &made.key, "-out"]);
        let output = openssl.arg(&made.certificate).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(made)
    }

    /// A TLS connector that trusts this certificate and no other.
    fn connector(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(&self.certificate).expect("it was just made");
        roots.add(certificate).expect("it is a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("TLS 1.3 is known");
        TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
    }
}
