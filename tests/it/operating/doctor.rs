//! `collectory doctor`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{ProgramOutput, Repo, TestServer, collectory_command, run_to_end};

fn doctor(repo: &Repo, flags: &[&str]) -> ProgramOutput {
    run_to_end(
        collectory_command(repo.path().parent().unwrap())
            .arg("doctor")
            .arg("--repo")
            .arg(repo.path())
            .args(flags),
    )
}

/// Returns the exit code, and the findings as `check: severity`.
fn found(repo: &Repo, flags: &[&str]) -> (Option<i32>, Vec<String>) {
    let finished = doctor(repo, &[&["--json"], flags].concat());
    let report: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:#?}"));
    let findings = report["findings"].as_array().unwrap().iter().map(|finding| {
        let word =
            if finding["repaired"] == true { "repaired" } else { finding["severity"].as_str().unwrap() };
        assert!(finding["what"].is_string() && finding["why"].is_string() && finding["repair"].is_string());
        format!("{}: {word}", finding["check"].as_str().unwrap())
    });
    (finished.status.code(), findings.collect())
}

fn repo(folder: &Path) -> Repo {
    Repo::seeded(folder.join("settings"), "small")
}

#[test]
fn a_repository_that_is_well_is_told_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let finished = doctor(&repo, &[]).assert_exit_code(0);
    assert_eq!(finished.stdout, "all is well\n");
    repo.fsck();
}

#[tokio::test]
async fn beside_a_running_service_all_is_well() {
    let server = TestServer::setup("small").start().await;
    server.read("posts").await.is(200);
    let address = format!("http://{}", server.address());
    assert_eq!(found(server.repo(), &["--address", &address]), (Some(0), Vec::new()));
}

#[test]
fn a_lock_that_nobody_holds_is_told_with_the_command_that_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let lock = repo.git_folder().join("index.lock");
    fs::write(&lock, "").unwrap();
    let finished = doctor(&repo, &["--repair"]).assert_exit_code(1);
    assert!(finished.stdout.contains(&format!("rm '{}'", lock.display())), "{}", finished.stdout);
    assert!(finished.stdout.contains("no process has it open"), "{}", finished.stdout);
    assert!(lock.exists(), "it is a person's to remove");
    let held = fs::File::open(&lock).unwrap();
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()), "somebody has it open");
    drop(held);
    fs::remove_file(&lock).unwrap();
}

#[tokio::test]
async fn what_nobody_holds_is_removed_beside_a_running_service_too() {
    let server = TestServer::start("small").await;
    let graphs = server.repo().git_folder().join("objects/info/commit-graphs");
    fs::create_dir_all(&graphs).unwrap();
    fs::write(graphs.join("commit-graph-chain.lock"), "").unwrap();
    assert_eq!(found(server.repo(), &[]), (Some(1), vec!["locks: wrong".to_owned()]));
    assert_eq!(found(server.repo(), &["--repair"]), (Some(0), vec!["locks: repaired".to_owned()]));
    assert_eq!(found(server.repo(), &[]), (Some(0), Vec::new()));
}

#[test]
fn what_is_the_service_s_own_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let git = repo.git_folder();
    let ours = git.join("collectory");
    fs::create_dir_all(&ours).unwrap();
    let graphs = git.join("objects/info/commit-graphs");
    fs::create_dir_all(&graphs).unwrap();
    fs::write(graphs.join("commit-graph-chain.lock"), "").unwrap();
    fs::write(graphs.with_file_name("commit-graph.lock"), "").unwrap();
    fs::write(ours.join("history-index"), "nothing that fits").unwrap();
    fs::write(ours.join("history-index.7.0.new"), "half").unwrap();
    fs::create_dir(ours.join("scratch-index")).unwrap();
    fs::write(ours.join("scratch-index/pack-1.idx"), "half").unwrap();
    fs::write(ours.join("lock-HEAD"), "").unwrap();
    fs::hard_link(ours.join("lock-HEAD"), git.join("HEAD.lock")).unwrap();
    let wrong = ["locks: wrong", "locks: wrong", "locks: wrong", "leftovers: wrong", "index: wrong"]
        .map(str::to_owned);
    assert_eq!(found(&repo, &[]), (Some(1), wrong.to_vec()));
    let repaired =
        ["locks: repaired", "locks: repaired", "locks: repaired", "leftovers: repaired", "index: repaired"];
    assert_eq!(found(&repo, &["--repair"]), (Some(0), repaired.map(str::to_owned).to_vec()));
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()));
    repo.fsck();
}

#[tokio::test]
async fn a_work_tree_that_a_kill_left_behind_is_brought_forward_and_edits_stay() {
    let mut server = TestServer::setup("small").start().await;
    server.patch("posts", serde_json::json!({"name": "One"})).await.is(200);
    server.stop();
    let repo = server.repo();
    // As after a kill between moving the branch and updating its files.
    let before = repo.git(&["rev-parse", "HEAD~1"]);
    let note = repo.git_folder().join("collectory/work-tree");
    let text = fs::read_to_string(&note).unwrap();
    let (head, old) = (repo.head(), before.trim());
    fs::write(&note, text.replace(&head, old)).unwrap();
    repo.git(&["checkout", "--quiet", old, "--", "."]);
    repo.write("notes.txt", "mine");
    assert_eq!(found(repo, &[]), (Some(1), vec!["work-tree: wrong".to_owned()]));
    assert_eq!(found(repo, &["--repair"]), (Some(0), vec!["work-tree: repaired".to_owned()]));
    assert!(repo.read("collections/posts.yaml").contains("One"));
    assert_eq!(repo.status().trim(), "?? notes.txt");
    server.expect_git_status("?? notes.txt");
}

#[tokio::test]
async fn a_commit_by_hand_while_nobody_serves_leaves_nothing_behind() {
    let mut server = TestServer::setup("small").start().await;
    server.patch("posts", serde_json::json!({"name": "One"})).await.is(200);
    server.stop();
    let repo = server.repo();
    repo.write("collections/posts.yaml", "type: document\nname: Two\n");
    repo.git(&["commit", "--quiet", "--all", "--message=By hand"]);
    assert_eq!(doctor(repo, &[]).assert_exit_code(0).stdout, "all is well\n");
    repo.write("collections/posts.yaml", "type: document\nname: Three\n");
    assert_eq!(doctor(repo, &[]).assert_exit_code(0).stdout, "all is well\n");
    repo.git(&["commit", "--quiet", "--all", "--message=By hand"]);
}

#[test]
fn another_folder_than_the_usual_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::init(folder.path().join("settings"));
    repo.write("cms/posts.yaml", "type: document\n");
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "--quiet", "--message=Seed"]);
    let ours = repo.git_folder().join("collectory");
    fs::create_dir_all(&ours).unwrap();
    fs::write(ours.join("history-index.7.0.new"), "half").unwrap();
    fs::create_dir(ours.join("scratch-index")).unwrap();
    fs::write(ours.join("scratch-index/pack-1.idx"), "half").unwrap();
    let found = |flags: &[&str]| found(&repo, flags);
    let hint = vec!["folder: hint".to_owned(), "leftovers: wrong".to_owned()];
    assert_eq!(found(&["--repair"]), (Some(1), hint), "who knows what is served there");
    let repaired = vec!["leftovers: repaired".to_owned()];
    assert_eq!(found(&["--repair", "--path", "cms"]), (Some(0), repaired));
    assert_eq!(found(&["--path", "cms/"]), (Some(0), Vec::new()));
    doctor(&repo, &["--path", "../cms"]).assert_exit_code(2);
}

#[test]
fn damage_is_told_as_git_tells_it() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let blob = repo.git(&["rev-parse", "HEAD:collections/posts.yaml"]);
    let loose = repo.object_file(&blob);
    fs::set_permissions(&loose, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(&loose).unwrap();
    let finished = doctor(&repo, &[]).assert_exit_code(1);
    assert!(
        finished.stdout.contains("wrong: fsck") && finished.stdout.contains(&blob),
        "{}",
        finished.stdout
    );
}

#[test]
fn packs_whose_objects_are_in_another_one_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    repo.git(&["gc", "--quiet"]);
    let mut packs =
        fs::read_dir(repo.git_folder().join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.find(|path| path.extension().is_some_and(|it| it == "pack")).unwrap();
    let name = pack.file_stem().unwrap().to_str().unwrap();
    let ours = repo.git_folder().join("collectory");
    fs::create_dir_all(&ours).unwrap();
    // In the service's own format: the pack, and the one that it was merged into.
    fs::write(ours.join("spare-packs"), format!("{name} pack-{}\n", "7".repeat(40))).unwrap();
    assert_eq!(found(&repo, &[]), (Some(0), vec!["packs: hint".to_owned()]));
    fs::write(ours.join("spare-packs"), format!("pack-{} {name}\n", "7".repeat(40))).unwrap();
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()));
}

#[test]
fn an_index_that_can_not_be_read_is_told_with_the_commands_that_mend_it() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    repo.git(&["update-index", "--split-index"]);
    doctor(&repo, &[]).assert_exit_code(0);
    let files = fs::read_dir(repo.git_folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_shared = |path: &Path| path.file_stem().is_some_and(|name| name == "sharedindex");
    files.filter(|path| is_shared(path)).for_each(|shared| fs::remove_file(shared).unwrap());
    let finished = doctor(&repo, &[]).assert_exit_code(1);
    assert!(finished.stdout.starts_with("wrong: git-index: "), "{}", finished.stdout);
    let index = repo.git_folder().join("index");
    let mended = format!("`rm '{}'` and `git reset`", index.display());
    assert!(finished.stdout.contains(&mended), "{}", finished.stdout);
    fs::remove_file(&index).unwrap();
    repo.git(&["reset", "--quiet"]);
    doctor(&repo, &[]).assert_exit_code(0);
    let mut flipped = fs::read(&index).unwrap();
    flipped[100] ^= 1;
    fs::write(&index, flipped).unwrap();
    let finished = doctor(&repo, &[]).assert_exit_code(1);
    assert!(finished.stdout.contains(&mended), "{}", finished.stdout);
}

#[test]
fn an_index_that_is_gone_is_told_where_a_service_has_run() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let ours = repo.git_folder().join("collectory");
    fs::create_dir_all(&ours).unwrap();
    fs::remove_file(repo.git_folder().join("index")).unwrap();
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()), "as after `git clone --no-checkout`");
    fs::write(ours.join("work-tree"), "").unwrap();
    assert_eq!(found(&repo, &[]), (Some(1), vec!["git-index: wrong".to_owned()]));
    repo.git(&["reset", "--quiet"]);
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()));
}

#[test]
fn what_stands_in_the_place_of_a_file_of_the_service_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let ours = repo.git_folder().join("collectory");
    fs::create_dir_all(ours.join("remote")).unwrap();
    assert_eq!(found(&repo, &[]), (Some(0), Vec::new()));
    let is_told = || {
        let (code, findings) = found(&repo, &[]);
        code == Some(1) && findings.contains(&"state: wrong".to_owned())
    };
    for odd in ["lock", "work-tree", "mark"].map(|name| ours.join(name)) {
        fs::create_dir(&odd).unwrap();
        assert!(is_told(), "{odd:?}");
        fs::remove_dir(&odd).unwrap();
        symlink("elsewhere", &odd).unwrap();
        assert!(is_told(), "{odd:?}");
        fs::remove_file(&odd).unwrap();
    }
}

#[test]
fn what_git_calls_damage_once_and_not_again_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
    let [git, runs] = ["git", "runs"].map(|name| folder.path().join(name));
    // Behaves like `git fsck` beside a service that writes at the same time: it fails a few times, or each time for
    // another reason.
    for (failures, what, code) in [(2, "blob", 0), (3, "blob", 1), (3, "blob $(wc -l < runs)", 0)] {
        let text = format!(
            "#!/bin/sh\nPATH='{path}'\ncase \" $* \" in *' fsck '*) echo again >> '{0}'; cd '{1}'; \
             if [ $(wc -l < '{0}') -le {failures} ]; then echo \"missing {what}\" >&2; exit 2; fi;; esac\n\
             exec git \"$@\"\n",
            runs.display(),
            folder.path().display()
        );
        fs::write(&git, text).unwrap();
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
        let mut doctor = collectory_command(folder.path());
        doctor.arg("doctor").arg("--repo").arg(repo.path());
        doctor.env("PATH", format!("{}:{path}", folder.path().display()));
        let findings = run_to_end(&mut doctor).assert_exit_code(code).stdout;
        assert_eq!(findings.contains("wrong: fsck: git fsck says: missing blob"), code == 1, "{findings}");
        fs::remove_file(&runs).unwrap();
    }
}

#[test]
fn a_policy_that_others_may_change_or_that_has_a_fault_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let repo = repo(folder.path());
    let policy = folder.path().join("policy.yaml");
    let look = |text: &str, mode: u32| {
        fs::write(&policy, text).unwrap();
        fs::set_permissions(&policy, fs::Permissions::from_mode(mode)).unwrap();
        found(&repo, &["--policy", &policy.to_string_lossy()])
    };
    assert_eq!(look("tokens: []\n", 0o640), (Some(0), Vec::new()));
    assert_eq!(look("tokens: []\n", 0o644), (Some(0), vec!["policy: hint".to_owned()]));
    assert_eq!(look("tokens: []\n", 0o660), (Some(1), vec!["policy: wrong".to_owned()]));
    assert_eq!(look("tokens: 7\n", 0o600), (Some(1), vec!["policy: wrong".to_owned()]));
    let nobody = found(&repo, &["--address", "http://127.0.0.1:1/"]);
    assert_eq!(nobody, (Some(1), vec!["service: wrong".to_owned()]));
}

/// The id of an unprivileged user.
const SOMEBODY: u32 = 65_534;

/// Runs the program as a user whom file modes restrict: the user who runs the tests, unless that is root.
struct Somebody {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Somebody {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let built = PathBuf::from(env!("CARGO_BIN_EXE_collectory"));
        let mut program = built.clone();
        if rustix::process::geteuid().is_root() {
            // Another user may have no access to the folder in which the program was built.
            program = folder.path().join("collectory");
            fs::copy(built, &program).unwrap();
        }
        Self { folder, program }
    }

    /// Gives everything in the folder to that user.
    fn take_over(&self) {
        if rustix::process::geteuid().is_root() {
            give(self.folder.path());
        }
    }

    fn doctor(&self, repo: &Repo) -> ProgramOutput {
        let mut command = Command::new(&self.program);
        for (name, value) in collectory_command(self.folder.path()).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if rustix::process::geteuid().is_root() {
            command.uid(SOMEBODY).gid(SOMEBODY);
        }
        run_to_end(command.current_dir("/").arg("doctor").arg("--repo").arg(repo.path()))
    }
}

fn give(path: &Path) {
    chown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// Creates a repository to which the program has written.
fn written_repo(folder: &Path) -> Repo {
    let repo = repo(folder);
    let source = folder.join("new.json");
    fs::write(&source, r#"{"collections": {"new": {"type": "media"}}}"#).unwrap();
    run_to_end(collectory_command(folder).arg("import").arg(&source).arg("--repo").arg(repo.path()))
        .assert_exit_code(0);
    repo
}

#[test]
fn all_that_a_write_needs_is_looked_at() {
    let somebody = Somebody::new();
    let repo = written_repo(somebody.folder.path());
    somebody.take_over();
    assert_eq!(somebody.doctor(&repo).assert_exit_code(0).stdout, "all is well\n");
    let git = repo.git_folder();
    for place in [
        repo.path().join("collections"),
        git.clone(),
        git.join("refs/heads"),
        git.join("objects/pack"),
        git.join("logs/HEAD"),
        git.join("logs/refs/heads/main"),
        git.join("collectory"),
        git.join("collectory/lock"),
        git.join("collectory/work-tree"),
    ] {
        let was = fs::metadata(&place).unwrap().permissions();
        let closed = fs::Permissions::from_mode(was.mode() & !0o222);
        fs::set_permissions(&place, closed).unwrap();
        let finished = somebody.doctor(&repo);
        fs::set_permissions(&place, was).unwrap();
        let finished = finished.assert_exit_code(1).stdout;
        let wanted = format!("wrong: permissions: {} can't be written by this user", place.display());
        assert_eq!(finished.matches("wrong: ").count(), 1, "{finished}");
        assert!(finished.starts_with(&wanted) && finished.contains("chmod u+w"), "{finished}");
    }
    // The folder of the collections exists, so a write creates nothing here.
    let was = fs::metadata(repo.path()).unwrap().permissions();
    fs::set_permissions(repo.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let finished = somebody.doctor(&repo);
    fs::set_permissions(repo.path(), was).unwrap();
    assert_eq!(finished.assert_exit_code(0).stdout, "all is well\n");
}

#[test]
fn what_the_service_s_user_may_not_write_is_told_to_root_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let somebody = Somebody::new();
    let repo = written_repo(somebody.folder.path());
    somebody.take_over();
    let log = repo.git_folder().join("logs/HEAD");
    chown(&log, Some(0), Some(0)).unwrap();
    let findings = somebody.doctor(&repo).assert_exit_code(1).stdout;
    assert!(findings.contains("it belongs to user 0, with the mode 644"), "{findings}");
    let mut doctor = collectory_command(somebody.folder.path());
    doctor.env("SUDO_UID", SOMEBODY.to_string()).arg("doctor").arg("--repo").arg(repo.path());
    let findings = run_to_end(&mut doctor).assert_exit_code(0).stdout;
    let wanted = format!(
        "hint: permissions: {} can't be written by the user that the repository belongs to",
        log.display()
    );
    assert!(findings.starts_with(&wanted), "{findings}");
}
