//! Measures the cost of signatures: making and checking one, and the effect on the rate of writes.
//!
//! Each round measures two services in turn, one of which signs: updates by 1 client and by 64. Then
//! `collectory verify` checks the signed history, beside `git verify-commit` of a few of its commits where
//! `ssh-keygen` is installed. Prints medians and the ratios.
//!
//! Settings: `COLLECTORY_BENCH_COLLECTIONS` (1000), `COLLECTORY_BENCH_ROUNDS` (3), `COLLECTORY_BENCH_MS` (1000 a
//! measurement).

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, LineEnding, PrivateKey};

use crate::support::{Process, median, program, repository, setting};
use crate::writes::service::updates;

const CLIENTS: usize = 64;

/// How many signatures are made and checked in a round.
const SIGNATURES: u32 = 1_000;

/// How many commits `git verify-commit` checks.
const GIT_COMMITS: u32 = 10;

pub(crate) const PART: &str = "signing";

/// Prints the cost of signing and of checking.
pub(crate) async fn compare() {
    let rounds = setting("COLLECTORY_BENCH_ROUNDS", 3);
    let collections = setting("COLLECTORY_BENCH_COLLECTIONS", 1000);
    let (ours, path) = repository(collections, true);
    let (_plain, plain_path) = repository(collections, true);
    let signing_key = PrivateKey::from(Ed25519Keypair::from_seed(&[1; 32]));
    let file = ours.path().join("key");
    signing_key.write_openssh_file(&file, LineEnding::LF).expect("a file can be written");
    let plain = Process::serve(&plain_path);
    let signing = Process::serve_with(&path, &["--signing-key".as_ref(), file.as_os_str()]);

    let mut figures: [Vec<f64>; 6] = Default::default();
    for round in 0..rounds {
        let (made, checked) = signatures(&signing_key);
        figures[0].push(made);
        figures[1].push(checked);
        for (at, clients) in [(2, 1), (4, CLIENTS)] {
            figures[at].push(updates(plain.address, clients, collections, round).await);
            figures[at + 1].push(updates(signing.address, clients, collections, round).await);
        }
    }
    let [made, checked, one, one_signed, many, many_signed] = figures.map(|figures| median(&figures));
    println!("one signature of a commit (Ed25519): {made:.0} µs to make, {checked:.0} µs to check");
    println!("durable commits/s with {collections} collections, bare:");
    for (name, plain, signed) in [("1 client  ", one, one_signed), ("64 clients", many, many_signed)] {
        println!("  {name}  {plain:>8.0}   signed {signed:>8.0}   ratio {:>5.2}", signed / plain);
    }
    drop(signing);
    let public = signing_key.public_key().to_openssh().expect("a key can be written");
    let signers = ours.path().join("signers");
    std::fs::write(&signers, format!("collectory@localhost {public}\n")).expect("a file can be written");
    walk(&path, &signers);
}

/// Returns the microseconds to make a signature of a commit, and to check one.
fn signatures(signing_key: &PrivateKey) -> (f64, f64) {
    let commit = [b'x'; 600];
    let make = || signing_key.sign("git", HashAlg::Sha512, black_box(&commit)).expect("a key signs");
    let armored = || make().to_pem(LineEnding::LF).expect("a signature can be written");
    let made = each(|| drop(black_box(armored())));
    let armored = armored();
    let checked = each(|| {
        let signature = ssh_key::SshSig::from_pem(black_box(&armored)).expect("it was just written");
        signing_key.public_key().verify("git", &commit, &signature).expect("it was just made");
    });
    (made, checked)
}

/// Returns the median of many runs in microseconds; a single run is too short to be interrupted often.
fn each(mut run: impl FnMut()) -> f64 {
    let one = |_| {
        let started = Instant::now();
        run();
        started.elapsed().as_secs_f64() * 1e6
    };
    median(&(0..SIGNATURES).map(one).collect::<Vec<_>>())
}

/// Prints how long it takes to check the whole history, and how long git takes for a commit.
fn walk(path: &Path, signers: &Path) {
    let run = |command: &mut Command| {
        let started = Instant::now();
        let output = command.stderr(Stdio::null()).output().expect("the program starts");
        (started.elapsed(), output)
    };
    let mut verify = Command::new(program());
    verify.arg("verify").arg("--repo").arg(path).arg("--allowed-signers").arg(signers);
    // The first run builds the history index.
    run(&mut verify);
    let (took, output) = run(&mut verify);
    assert!(output.status.success(), "the history verifies");
    let commits = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    let each = took.as_secs_f64() * 1e6 / commits.max(1) as f64;
    println!("collectory verify, {commits} commits: {took:.1?}, {each:.0} µs each");
    if Command::new("ssh-keygen").arg("-?").stderr(Stdio::null()).status().is_err() {
        return;
    }
    let mut git = Command::new("git");
    git.arg("-C").arg(path).arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", signers.display()));
    git.arg("verify-commit").args((0..GIT_COMMITS).map(|back| format!("main~{back}")));
    let (took, output) = run(&mut git);
    assert!(output.status.success(), "git verifies them too");
    println!("git verify-commit: {:.0} µs each", took.as_secs_f64() * 1e6 / f64::from(GIT_COMMITS));
}
