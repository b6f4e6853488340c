//! TLS: with real certificates, made by `openssl`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::support::{Setup, Signal, TestServer, collectory_command, eventually, run_to_end};

/// A self-signed certificate for this machine, and its key.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

fn pair(folder: &Path, name: &str) -> Pair {
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    let made = Pair { certificate: file("crt"), key: file("key") };
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args([
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]);
    openssl.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate);
    let output = openssl.output().expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::set_permissions(&made.key, fs::Permissions::from_mode(0o600)).unwrap();
    made
}

fn setup(pair: &Pair) -> Setup {
    let flags = [&*pair.certificate.to_string_lossy(), &*pair.key.to_string_lossy()].map(str::to_owned);
    TestServer::setup("small").flag(&["--tls-cert", &flags[0], "--tls-key", &flags[1]])
}

/// Sends a request over TLS, trusting only one certificate.
fn ask(address: SocketAddr, trusted: &Path) -> Result<String, ureq::Error> {
    let roots = [Certificate::from_pem(&fs::read(trusted).unwrap()).unwrap()];
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build();
    let agent = Agent::from(Agent::config_builder().tls_config(tls).build());
    agent.get(format!("https://{address}/collections/posts")).call()?.body_mut().read_to_string()
}

#[tokio::test]
async fn a_certificate_is_taken_over_when_it_changes_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let [served, other] = ["served", "other"].map(|name| pair(folder.path(), name));
    let first = folder.path().join("first.crt");
    fs::copy(&served.certificate, &first).unwrap();
    let server = setup(&served).start_without_waiting();
    eventually("it is served over TLS", async || ask(server.address(), &first).ok()).await;
    assert!(ask(server.address(), &other.certificate).is_err());

    // A certificate that does not match its key is not used.
    fs::copy(&other.certificate, &served.certificate).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("can't be used together").await;
    ask(server.address(), &first).unwrap();

    fs::copy(&other.key, &served.key).unwrap();
    eventually("the new pair is shown", async || ask(server.address(), &other.certificate).ok()).await;
    assert_eq!(server.log().matches("kept the last good TLS certificate").count(), 1, "{}", server.log());

    let mut check = collectory_command(folder.path());
    check.arg("healthcheck").env("COLLECTORY_LISTEN", server.address().to_string());
    run_to_end(check.env("COLLECTORY_TLS_CERT", &served.certificate)).assert_exit_code(0);
}

#[tokio::test]
async fn clients_without_tls_are_not_served_and_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pair = pair(folder.path(), "served");
    let server = setup(&pair).flag(&["--header-wait-ms-max", "200"]).start_without_waiting();
    // This client sends nothing, and must not block others.
    let silent = std::net::TcpStream::connect(server.address()).unwrap();
    let answer = server.client().request("GET", "/livez").attempt().await;
    assert!(answer.is_none());
    eventually("others are served", async || ask(server.address(), &pair.certificate).ok()).await;
    let mut left = Vec::new();
    std::io::Read::read_to_end(&mut &silent, &mut left).unwrap();
    assert_eq!(left, b"", "the connection is closed");
}

#[test]
fn a_key_that_others_may_read_or_that_does_not_fit_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| pair(folder.path(), name));
    let mixed = Pair { certificate: one.certificate.clone(), key: other.key.clone() };
    let said = setup(&mixed).expect_start_failure().assert_exit_code(1).stderr;
    assert!(said.contains("can't be used together"), "{said}");
    fs::set_permissions(&one.key, fs::Permissions::from_mode(0o644)).unwrap();
    let said = setup(&one).expect_start_failure().assert_exit_code(1).stderr;
    assert!(said.contains("others than its owner may read the key") && said.contains("chmod 600"), "{said}");
    fs::set_permissions(&one.key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&one.certificate, "no certificate\n").unwrap();
    let said = setup(&one).expect_start_failure().assert_exit_code(1).stderr;
    assert!(said.contains("one.crt holds no certificate in PEM"), "{said}");
    let alone = TestServer::setup("small").flag(&["--tls-cert", "a.crt"]);
    alone.expect_start_failure().assert_exit_code(2);
}
