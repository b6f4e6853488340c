//! The commit-graph, verified by git, and the statistics.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::store::Journal as _;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::maintenance::commit_graph::CommitGraph;
use crate::store::git::maintenance::git_process::alive;
use crate::store::git::maintenance::statistics::Statistics;
use crate::store::git::packs::store::PACKS_MAX;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};

/// The number of commits that is enough for a commit-graph in these tests.
const COMMITS_MIN: usize = 20;

fn options(repo: &Repo) -> Options {
    Options { graph_commits_min: COMMITS_MIN, ..repo.options() }
}

fn open(repo: &Repo) -> GitJournal {
    GitJournal::open(options(repo)).unwrap()
}

fn commit(journal: &mut GitJournal, count: usize) {
    let drafts: Vec<_> = (0..count).map(|i| set(&format!("c{}.yaml", i % 7), &format!("{i}\n"))).collect();
    append(journal, &drafts);
    append(journal, &[set("last.yaml", &format!("{:?}\n", journal.flushes()))]);
}

/// A bare repository with enough commits, not served.
fn long_history() -> Repo {
    let repo = Repo::bare();
    let mut journal = GitJournal::open(Options { maintain: false, ..repo.options() }).unwrap();
    commit(&mut journal, COMMITS_MIN);
    repo
}

fn graph(repo: &Repo, git: impl Into<PathBuf>) -> CommitGraph {
    CommitGraph::new(archive_at(repo.path(), "collections"), git.into(), COMMITS_MIN, &Barrier::default())
}

fn info(repo: &Repo) -> PathBuf {
    repo.pack_folder().with_file_name("info")
}

fn has_graph(repo: &Repo) -> bool {
    info(repo).join("commit-graphs/commit-graph-chain").exists()
}

/// Returns which Bloom filters `git log` of a file used, from git's trace.
fn filters_used_by(repo: &Repo, path: &str) -> String {
    let trace = repo.path().join("../trace");
    let mut command = Command::new("git");
    command.current_dir(repo.path()).args(["log", "--oneline", "main", "--", path]);
    assert!(
        command
            .env("GIT_TRACE2_PERF", fs::canonicalize(repo.path()).unwrap().join("../trace"))
            .output()
            .is_ok()
    );
    let text = fs::read_to_string(trace).unwrap();
    text.lines().filter(|line| line.contains("bloom")).map(str::to_owned).collect()
}

/// Creates an executable script to run in place of git.
fn script(repo: &Repo, text: &str) -> PathBuf {
    let path = fs::canonicalize(repo.path()).unwrap().join("../fake-git");
    // Written by another process, because a thread of ours that forks in the meantime must not have it open for
    // writing.
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh"]);
    assert!(shell.arg(format!("#!/bin/sh\n{text}")).arg(&path).status().unwrap().success());
    path
}

fn fifo(repo: &Repo) -> PathBuf {
    let path = fs::canonicalize(repo.path()).unwrap().join("../fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn after_enough_commits_the_log_of_a_file_uses_the_filters_of_a_graph() {
    for repo in [Repo::bare(), Repo::new()] {
        for round in 1..=3 {
            let mut journal = open(&repo);
            commit(&mut journal, round * COMMITS_MIN);
            run_maintenance(&mut journal);
            repo.git(&["commit-graph", "verify"]);
            repo.check();
            let used = filters_used_by(&repo, "collections/c3.yaml");
            assert!(used.contains("definitely_not"), "{used}");
        }
    }
}

#[test]
fn commits_of_people_count_too_and_those_that_a_graph_has_do_not() {
    let repo = Repo::new();
    let mut journal = open(&repo);
    for i in 0..COMMITS_MIN - 1 {
        repo.git(&["commit", "-q", "--allow-empty", "-m", &i.to_string()]);
    }
    let graph = graph(&repo, "git");
    assert!(!graph.write_if_due().unwrap());
    append(&mut journal, &[set("a.yaml", "the last\n")]);
    assert!(graph.write_if_due().unwrap());
    assert!(!graph.write_if_due().unwrap());
    commit(&mut journal, COMMITS_MIN - 2);
    assert!(!graph.write_if_due().unwrap());
    repo.git(&["commit", "-q", "--allow-empty", "-m", "one more"]);
    assert!(graph.write_if_due().unwrap());
    repo.git(&["commit-graph", "verify"]);
}

#[test]
fn a_graph_that_somebody_removed_is_written_again() {
    let repo = long_history();
    assert!(graph(&repo, "git").write_if_due().unwrap());
    fs::remove_dir_all(info(&repo)).unwrap();
    assert!(graph(&repo, "git").write_if_due().unwrap());
    assert!(has_graph(&repo));
}

#[test]
fn what_is_merged_into_a_new_graph_stays_for_whoever_has_read_the_list_just_before() {
    let repo = long_history();
    assert!(graph(&repo, "git").write_if_due().unwrap());
    let folder = info(&repo).join("commit-graphs");
    let list = || fs::read_to_string(folder.join("commit-graph-chain")).unwrap();
    let before = list();
    // As many commits again, so git merges the two graphs.
    commit(&mut GitJournal::open(Options { maintain: false, ..repo.options() }).unwrap(), COMMITS_MIN);
    assert!(graph(&repo, "git").write_if_due().unwrap());
    assert!(before.lines().all(|name| !list().contains(name)));
    assert!(before.lines().all(|name| folder.join(format!("graph-{name}.graph")).exists()));
    repo.git(&["commit-graph", "verify"]);
}

#[test]
fn no_graph_is_written_when_it_is_not_wished_or_git_has_no_use_for_it() {
    let stands_in_the_way: [&dyn Fn(&Repo); 4] = [
        &|repo| drop(repo.git(&["config", "core.commitGraph", "false"])),
        &|repo| fs::write(repo.path().join("gc.pid"), "1 elsewhere").unwrap(),
        &|repo| drop(repo.git(&["replace", "main~1", "main~2"])),
        &|repo| fs::write(repo.path().join("shallow"), repo.git(&["rev-parse", "main~9"])).unwrap(),
    ];
    for stand in stands_in_the_way {
        let repo = long_history();
        stand(&repo);
        run_maintenance(&mut open(&repo));
        assert!(!has_graph(&repo));
    }
    let repo = long_history();
    run_maintenance(&mut GitJournal::open(Options { maintain: false, ..options(&repo) }).unwrap());
    assert!(!has_graph(&repo));
    run_maintenance(&mut open(&repo));
    assert!(has_graph(&repo));
}

#[test]
fn where_no_object_may_be_removed_there_is_a_graph_and_packs_stay() {
    let repo = Repo::bare();
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.preciousObjects", "true"]);
    let mut journal = open(&repo);
    for i in 0..=PACKS_MAX {
        append(&mut journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    run_maintenance(&mut journal);
    assert!(has_graph(&repo));
    assert_eq!(repo.packs().len(), PACKS_MAX + 1);
}

#[test]
fn writes_go_on_while_the_graph_is_written() {
    let repo = Repo::new();
    // The commits here are old, and git is not to be run to expire their reflog.
    repo.git(&["config", "gc.reflogExpire", "never"]);
    let fifo = fifo(&repo);
    let log = fifo.with_file_name("log");
    let text = format!("read go < {}; nice > {}; exec git \"$@\"", fifo.display(), log.display());
    let mut journal = GitJournal::open(Options { git: script(&repo, &text), ..options(&repo) }).unwrap();
    commit(&mut journal, COMMITS_MIN);
    journal.start_maintenance().unwrap();
    // Opening the pipe waits until the script reads it.
    let mut go = OpenOptions::new().write(true).open(&fifo).unwrap();
    for _ in 0..2 * PACKS_MAX {
        commit(&mut journal, 1);
        journal.start_maintenance().unwrap();
    }
    assert!(!has_graph(&repo));
    go.write_all(b"go\n").unwrap();
    journal.finish_maintenance();
    repo.git(&["commit-graph", "verify"]);
    repo.check();
    assert_eq!(fs::read_to_string(log).unwrap().trim(), "19", "at the lowest priority");
}

#[test]
fn a_stop_in_the_middle_ends_git_and_the_next_start_goes_on() {
    let repo = long_history();
    let fifo = fifo(&repo);
    let git = script(&repo, &format!("read go < {}", fifo.display()));
    let mut journal = GitJournal::open(Options { git, ..options(&repo) }).unwrap();
    journal.start_maintenance().unwrap();
    let mut go = OpenOptions::new().write(true).open(&fifo).unwrap();
    drop(journal);
    assert!(go.write_all(b"go\n").is_err(), "nobody reads any more");
    // What git leaves when it can't clean up.
    let folder = info(&repo).join("commit-graphs");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tmp_graph_abcdef"), "half a graph").unwrap();
    repo.check();
    run_maintenance(&mut open(&repo));
    assert!(has_graph(&repo));
    repo.git(&["commit-graph", "verify"]);
}

#[test]
fn a_stop_ends_what_git_has_started_too() {
    let repo = long_history();
    let fifo = fifo(&repo);
    let git = script(&repo, &format!("(read go < {}) & wait", fifo.display()));
    let mut journal = GitJournal::open(Options { git, ..options(&repo) }).unwrap();
    journal.start_maintenance().unwrap();
    let child = OpenOptions::new().write(true).open(&fifo).unwrap();
    let (done, ended) = mpsc::channel();
    let stop = thread::spawn(move || {
        drop(journal);
        done.send(()).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_secs(10));
    // What is left of it ends now.
    drop(child);
    stop.join().unwrap();
    ended.expect("a stop does not wait for what git has started");
}

#[test]
fn nothing_that_the_repository_names_runs_and_only_its_own_configuration_is_read() {
    let repo = long_history();
    let marker = fs::canonicalize(repo.path()).unwrap().join("../ran");
    let environment = marker.with_file_name("environment");
    let trap = marker.with_file_name("trap");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    for (name, value) in [
        ("core.fsmonitor", trap),
        ("core.pager", trap),
        ("pager.commit-graph", trap),
        ("alias.commit-graph", &format!("!{trap}")),
        ("core.sshCommand", trap),
        ("remote.origin.url", "ssh://nowhere/x"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", trap),
    ] {
        repo.git(&["config", name, value]);
    }
    for hook in ["pre-auto-gc", "reference-transaction", "post-commit", "post-index-change"] {
        fs::create_dir_all(repo.path().join("hooks")).unwrap();
        fs::copy(trap, repo.path().join("hooks").join(hook)).unwrap();
    }
    // Git would fetch the target of this ref from a remote that promises it.
    fs::write(repo.path().join("refs/heads/missing"), format!("{}\n", "1".repeat(40))).unwrap();
    let text = format!("env > {}; exec git \"$@\"", environment.display());
    graph(&repo, script(&repo, &text)).write_if_due().unwrap();
    assert!(!marker.exists());
    let environment = fs::read_to_string(environment).unwrap();
    let names = environment.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name));
    // Variables that the shell itself adds are ignored.
    let mut names: Vec<_> = names.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "GIT_ALLOW_PROTOCOL",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_NOSYSTEM",
            "GIT_DIR",
            "GIT_NO_LAZY_FETCH",
            "LC_ALL",
            "PATH"
        ]
    );
}

#[test]
fn a_git_that_is_missing_or_keeps_failing_is_not_tried_again() {
    let repo = long_history();
    let missing = graph(&repo, "/nowhere/git");
    assert!(!missing.write_if_due().unwrap());
    let runs = fs::canonicalize(repo.path()).unwrap().join("../runs");
    let text = format!("echo again >> {}; echo 'fatal: no' >&2; exit 128", runs.display());
    let failing = graph(&repo, script(&repo, &text));
    for _ in 0..4 {
        assert!(!failing.write_if_due().unwrap());
    }
    assert_eq!(fs::read_to_string(runs).unwrap(), "again\nagain\n", "once may be for somebody's gc");
    assert!(!missing.write_if_due().unwrap());
    assert!(graph(&repo, "git").write_if_due().unwrap(), "the next start tries again");
}

#[test]
fn a_lock_of_somebody_else_is_waited_for_and_never_removed() {
    let repo = long_history();
    let lock = info(&repo).join("commit-graphs/commit-graph-chain.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    // The first lock exists before git starts; the second is taken while it runs.
    let locking = script(&repo, &format!("touch {}; exec git \"$@\"", lock.display()));
    for git in [Path::new("git"), &locking] {
        let graph = graph(&repo, git);
        if git == Path::new("git") {
            fs::write(&lock, "").unwrap();
        }
        assert!(!graph.write_if_due().unwrap());
        assert!(lock.exists() && !has_graph(&repo));
        fs::remove_file(&lock).unwrap();
        if git == Path::new("git") {
            assert!(graph.write_if_due().unwrap());
            fs::remove_dir_all(info(&repo).join("commit-graphs")).unwrap();
            fs::create_dir_all(lock.parent().unwrap()).unwrap();
        }
    }
}

#[test]
fn a_person_s_gc_at_the_same_time_harms_neither() {
    let repo = Repo::bare();
    let mut journal = GitJournal::open(Options { lock_wait_ms_max: 60_000, ..options(&repo) }).unwrap();
    let done = AtomicBool::new(false);
    let beside = graph(&repo, "git");
    std::thread::scope(|threads| {
        let collecting = threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                repo.try_git(&["-c", "gc.writeCommitGraph=true", "gc", "-q", "--prune=now"]);
            }
        });
        let tried = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..6 {
                commit(&mut journal, COMMITS_MIN);
                // What is being read may be removed in the meantime, which the next call repairs.
                drop(beside.write_if_due());
            }
        }));
        done.store(true, Ordering::Relaxed);
        collecting.join().unwrap();
        tried.unwrap_or_else(|panic| resume_unwind(panic));
    });
    commit(&mut journal, COMMITS_MIN);
    assert!(graph(&repo, "git").write_if_due().unwrap());
    repo.git(&["commit-graph", "verify"]);
    repo.check();
}

#[test]
fn the_figures_are_those_of_git() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "by hand\n")]);
    let mut journal = open(&repo);
    for i in 0..3 {
        append(&mut journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    let statistics = Statistics::of(repo.pack_folder().parent().unwrap());
    let listed = repo.git(&["count-objects", "-v"]);
    let by_git = |name: &str| {
        let line = listed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(statistics.packs, by_git("packs"));
    assert_eq!(statistics.objects, by_git("in-pack"));
    assert_eq!(statistics.loose_objects, by_git("count"));
    assert_eq!(statistics.bytes / 1_024, by_git("size-pack"));
}

#[test]
fn a_lock_that_a_killed_git_of_ours_has_left_is_removed_at_the_start_and_another_s_is_not() {
    let repo = long_history();
    let lock = info(&repo).join("commit-graphs/commit-graph-chain.lock");
    let writer = repo.path().join("collectory/graph-writer");
    let us = alive(std::process::id()).unwrap();
    let mut git = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let another_with_our_number = format!("{} 1\n", std::process::id());
    let killed = alive(git.id()).unwrap();
    git.kill().unwrap();
    // The process has ended but has not been reaped.
    waitid(WaitId::Pid(Pid::from_child(&git)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    for (noted, stays) in
        [(Some(&killed), false), (Some(&another_with_our_number), false), (Some(&us), true), (None, true)]
    {
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        noted.into_iter().for_each(|noted| fs::write(&writer, noted).unwrap());
        fs::write(&lock, "").unwrap();
        drop(GitJournal::open(Options { maintain: false, ..repo.options() }).unwrap());
        assert_eq!(lock.exists(), stays, "{noted:?}");
        assert_eq!(writer.exists(), noted == Some(&us));
        drop(fs::remove_file(&writer));
    }
    git.wait().unwrap();
}
