//! Repositories that an attacker has prepared, or that belong to another user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use crate::support::{ProgramOutput, Repo, TestServer, collectory_command, document, run_to_end};

/// A repository, and a file beside it that must not be touched.
struct Prepared {
    _folder: tempfile::TempDir,
    repo: Repo,
    victim: PathBuf,
}

const THEIRS: &str = "# settings of somebody else\n";

impl Prepared {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::seeded(folder.path().join("settings"), "small");
        let victim = folder.path().join("victim");
        fs::write(&victim, THEIRS).unwrap();
        fs::create_dir_all(repo.path().join(".git/collectory")).unwrap();
        Self { _folder: folder, repo, victim }
    }

    fn at(&self, part: &str) -> PathBuf {
        self.repo.path().join(".git").join(part)
    }

    /// Clears a path below `.git` and returns it.
    fn clear(&self, part: &str) -> PathBuf {
        let path = self.at(part);
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_dir() => fs::rename(&path, path.with_extension("aside")).unwrap(),
            Ok(_) => fs::remove_file(&path).unwrap(),
            Err(_) => fs::create_dir_all(path.parent().unwrap()).unwrap(),
        }
        path
    }

    fn refused(&self) -> ProgramOutput {
        TestServer::setup("").repository(self.repo.path()).expect_start_failure()
    }

    /// Starts a service, which must serve what it can, and stops it. Returns the status of a write.
    async fn served(&self) -> u16 {
        let mut server = TestServer::setup("").repository(self.repo.path()).start_without_waiting();
        let answer = server.patch("posts", json!({"name": "Written"})).await.status();
        server.stop();
        // The harness's final checks would fail on what was prepared, so a fresh repository replaces it.
        let folder = self.repo.path();
        fs::rename(folder, folder.with_extension("prepared")).unwrap();
        drop(Repo::seeded(folder, "small"));
        drop(server);
        answer
    }
}

#[tokio::test]
async fn a_link_in_the_place_of_a_file_that_the_service_writes_is_no_way_out() {
    for part in ["collectory/lock", "collectory/mark", "collectory/behind", "logs/HEAD"] {
        let prepared = Prepared::new();
        symlink(&prepared.victim, prepared.clear(part)).unwrap();
        let refused = prepared.refused().assert_exit_code(1);
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        assert_eq!(fs::read_to_string(&prepared.victim).unwrap(), THEIRS, "{part}");
    }
    for part in
        ["collectory/work-tree", "collectory/served", "collectory/history-index", "logs/refs/heads/main"]
    {
        let prepared = Prepared::new();
        symlink(&prepared.victim, prepared.clear(part)).unwrap();
        let answer = prepared.served().await;
        assert!(matches!(answer, 200 | 503), "{part}: {answer}");
        assert_eq!(fs::read_to_string(&prepared.victim).unwrap(), THEIRS, "{part}");
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_of_the_repository_is_refused() {
    for part in ["objects", "objects/pack", "refs", "refs/heads", "logs", "collectory"] {
        let prepared = Prepared::new();
        let elsewhere = prepared.victim.with_file_name("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let path = prepared.clear(part);
        let aside = path.with_extension("aside");
        if aside.exists() {
            fs::rename(aside, elsewhere.join("it")).unwrap();
        } else {
            fs::create_dir(elsewhere.join("it")).unwrap();
        }
        symlink(elsewhere.join("it"), &path).unwrap();
        let before = listed(&elsewhere);
        let refused = prepared.refused().assert_exit_code(1);
        assert!(refused.stderr.contains("symbolic link"), "{part}: {}", refused.stderr);
        assert_eq!(listed(&elsewhere), before, "{part}");
    }
}

/// Files that git runs or follows wherever it finds them.
const TRAPS: [(&str, &str); 4] = [
    ("hooks/reference-transaction", "#!/bin/sh\n: > VICTIM\n"),
    ("hooks/pre-push", "#!/bin/sh\n: > VICTIM\n"),
    ("commondir", "trap\n"),
    ("config.worktree", "[core]\n\tgitProxy = VICTIM\n"),
];

#[tokio::test]
async fn nothing_that_stands_where_git_speaks_to_the_remote_is_run_or_followed() {
    let prepared = Prepared::new();
    let folder = prepared.victim.with_file_name("folder");
    fs::create_dir(&folder).unwrap();
    let hub = prepared.repo.bare_clone(folder.join("hub.git"));
    let own = prepared.at("collectory/remote");
    fs::create_dir_all(own.join("hooks")).unwrap();
    fs::create_dir_all(own.join("trap/refs")).unwrap();
    fs::create_dir_all(own.join("trap/objects")).unwrap();
    for (name, text) in TRAPS {
        let path = own.join(name);
        fs::write(&path, text.replace("VICTIM", &prepared.victim.to_string_lossy())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let helper = folder.join("helper");
    fs::write(&helper, format!("#!/bin/sh\n: > '{}'\n", prepared.victim.display())).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let url = hub.path().to_string_lossy().into_owned();
    let helper = helper.to_string_lossy().into_owned();
    let config = format!(
        "[core]\n\tbare = true\n[protocol]\n\tallow = always\n[url \"ext::{helper} \"]\n\tinsteadOf = {url}\n"
    );
    fs::write(own.join("trap/config"), &config).unwrap();
    fs::write(own.join("trap/HEAD"), "ref: refs/heads/none\n").unwrap();
    for name in ["HEAD", "config", "base.new", "begun", "merge-output", "refs"] {
        symlink(&prepared.victim, own.join(name)).unwrap();
    }
    let setup = TestServer::setup("").repository(prepared.repo.path()).flag(&["--remote", &url]);
    let server = setup.clone().start().await;
    server.patch("posts", json!({"name": "Shared"})).await.is(200);
    drop(server);
    assert_eq!(fs::read_to_string(&prepared.victim).unwrap(), THEIRS);
    assert!(hub.git(&["log", "-1", "--format=%s", "main"]).contains("Update posts"));

    fs::remove_dir_all(&own).unwrap();
    symlink(&folder, &own).unwrap();
    setup.expect_start_failure().assert_exit_code(1);
    assert!(!folder.join("hooks").exists());
    fs::remove_file(own).unwrap();
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listed(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_of_git_s_stops_nobody() {
    for part in ["HEAD", "config", "refs/heads/main", "commondir", "shallow", "collectory/lock"] {
        let prepared = Prepared::new();
        make_pipe(&prepared.clear(part));
        let refused = prepared.refused().assert_exit_code(1);
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    for part in
        ["packed-refs", "objects/info/alternates", "collectory/work-tree", "collectory/served", "logs/HEAD"]
    {
        let prepared = Prepared::new();
        make_pipe(&prepared.clear(part));
        let answer = prepared.served().await;
        assert!(matches!(answer, 200 | 503), "{part}: {answer}");
    }
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_index_is_503_until_it_is_gone() {
    let server = TestServer::setup("small").start().await;
    let index = server.repo().git_folder().join("index");
    let aside = index.with_extension("aside");
    fs::rename(&index, &aside).unwrap();
    make_pipe(&index);
    server.patch("posts", json!({"name": "Never"})).await.is(503);
    server.read("posts").await.is(200);
    fs::rename(aside, index).unwrap();
    server.patch("posts", json!({"name": "Now"})).await.is(200);
}

#[test]
fn branches_that_lead_in_a_circle_end_no_start() {
    let prepared = Prepared::new();
    let heads = prepared.at("refs/heads");
    symlink(".", heads.join("a")).unwrap();
    symlink(".", heads.join("b")).unwrap();
    prepared.repo.git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    prepared.refused().assert_exit_code(1);
}

fn chown(path: &Path, user: u32) {
    for path in listed(path).iter().map(PathBuf::as_path).chain([path]) {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    }
}

#[tokio::test]
async fn a_repository_of_another_user_is_refused_unless_it_is_said_to_be_safe() {
    // Only root can give a folder to another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65_534;
    let prepared = Prepared::new();
    let repo = prepared.repo.path();
    chown(repo, NOBODY);
    let said = TestServer::setup("").repository(repo).expect_start_failure().assert_exit_code(1).stderr;
    assert!(said.contains("belongs to another user (65534)") && said.contains("safe.directory"), "{said}");
    let log = |config: &Path| {
        let mut command = collectory_command(repo.parent().unwrap());
        command.args(["log", "--repo"]).arg(repo).env("GIT_CONFIG_GLOBAL", config);
        run_to_end(&mut command)
    };
    log(Path::new("/dev/null")).assert_exit_code(1);
    let config = prepared.victim.with_file_name("gitconfig");
    fs::write(&config, format!("[safe]\n\tdirectory = {}\n", repo.display())).unwrap();
    log(&config).assert_exit_code(0);
    // A repository's own `safe.directory` does not count.
    fs::write(repo.join(".git/config"), "[core]\n\tbare = false\n[safe]\n\tdirectory = *\n").unwrap();
    chown(repo, NOBODY);
    log(Path::new("/dev/null")).assert_exit_code(1);

    let setup = TestServer::setup("").repository(repo);
    let global = config.to_string_lossy().into_owned();
    let mut server = setup.clone().environment("GIT_CONFIG_GLOBAL", &global).start().await;
    server.patch("posts", json!({"name": "Safe"})).await.is(200);
    server.stop();
    // The harness's final checks run git, so root must own the repository again.
    chown(repo, 0);
    drop(server);
    chown(repo, NOBODY);
    let mut server = setup.flag(&["--any-owner"]).start().await;
    server.patch("posts", json!({"name": "Any"})).await.is(200);
    server.stop();
    chown(repo, 0);
}

#[tokio::test]
async fn what_is_made_in_a_shared_repository_has_the_rights_that_it_asks_for() {
    for (shared, file, folder) in [("group", 0o660, 0o770), ("0640", 0o640, 0o750), ("umask", 0o600, 0o700)] {
        let prepared = Prepared::new();
        prepared.repo.git(&["config", "core.sharedRepository", shared]);
        fs::remove_dir(prepared.at("collectory")).unwrap();
        let server = TestServer::setup("").repository(prepared.repo.path()).umask("077").start().await;
        server.create(&document("new", json!({"name": "New"}))).await.is(201);
        server.patch("posts", json!({"name": "All"})).await.is(200);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(prepared.at("collectory")), folder, "{shared}");
        assert_eq!(mode(prepared.at("collectory/served")), file, "{shared}");
        assert_eq!(mode(prepared.at("refs/heads/main")), file, "{shared}");
        assert_eq!(mode(prepared.repo.path().join("collections/new.yaml")), file, "{shared}");
        let packs = listed(&prepared.at("objects/pack"));
        let pack = packs.iter().find(|path| path.extension().is_some_and(|it| it == "pack")).unwrap();
        assert_eq!(fs::metadata(pack).unwrap().mode() & 0o777, file & 0o444, "{shared}");
    }
}
