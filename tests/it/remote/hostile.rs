//! Repositories that an attacker has prepared: nothing that the served one names is run, and no other remote is
//! contacted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Hub, create, wait_for_problem_about};
use crate::support::{Repo, TestServer, collectory_command, copy_folder, eventually, run_to_end};

/// Every hook that git knows (githooks(5)).
const HOOKS: [&str; 24] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
];

/// Attributes that pass the content of every file through external programs.
const ATTRIBUTES: &str = "* filter=evil merge=evil diff=evil ident working-tree-encoding=UTF-16\n";

/// A trap: a program that leaves a mark when it runs, and a remote to which nothing may be pushed.
struct Trap {
    folder: PathBuf,
    decoy: Repo,
}

impl Trap {
    fn new(hub: &Hub) -> Self {
        let folder = hub.folder.path().join("trap");
        fs::create_dir_all(folder.join("hooks")).unwrap();
        let decoy = hub.repo.bare_clone(folder.join("decoy.git"));
        let trap = Self { folder, decoy };
        trap.program(&trap.folder.join("evil"));
        HOOKS.iter().for_each(|hook| trap.program(&trap.folder.join("hooks").join(hook)));
        trap
    }

    fn program(&self, path: &Path) {
        let script = format!("#!/bin/sh\necho \"$0 $*\" >> {}\nexit 1\n", self.mark().display());
        fs::write(path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("mark")
    }

    /// Returns a configuration that names the program wherever git would run one, and the decoy wherever git would
    /// contact a remote.
    fn config(&self, remote: &str, with_hooks: bool) -> String {
        let (evil, decoy) = (self.folder.join("evil").display().to_string(), self.decoy.path().display());
        let (mut hooks, mut included) = (String::new(), String::new());
        if with_hooks {
            let path = self.folder.join("hooks");
            hooks = format!("hooksPath = {}\nalternateRefsCommand = {evil}\n", path.display());
            let file = self.folder.join("included").display().to_string();
            included = format!("[include]\npath = {file}\n[includeIf \"gitdir:/\"]\npath = {file}\n");
        }
        format!(
            "\n[core]\n{hooks}fsmonitor = {evil}\nsshCommand = {evil}\naskPass = {evil}\ngitProxy = {evil}\n\
             editor = {evil}\npager = {evil}\nattributesFile = {evil}\n\
             [credential]\nhelper = {evil}\n[diff]\nexternal = {evil}\n[gpg]\nprogram = {evil}\n\
             [log]\nshowSignature = true\n\
             [filter \"evil\"]\nclean = {evil}\nsmudge = {evil}\nprocess = {evil}\nrequired = true\n\
             [merge \"evil\"]\ndriver = {evil}\n[diff \"evil\"]\ncommand = {evil}\ntextconv = {evil}\n\
             [http]\nproxy = http://127.0.0.1:9\nsslVerify = false\nextraHeader = X-Evil: 1\n\
             [protocol \"ext\"]\nallow = always\n\
             [url \"{decoy}\"]\ninsteadOf = {remote}\npushInsteadOf = {remote}\n\
             [url \"ext::{evil} \"]\ninsteadOf = /\n\
             [remote \"origin\"]\nurl = {decoy}\nuploadpack = {evil}\nreceivepack = {evil}\nvcs = ext\n\
             [remote \"{remote}\"]\nurl = {decoy}\nuploadpack = {evil}\nreceivepack = {evil}\nproxy = http://127.0.0.1:9\n\
             [branch \"main\"]\nremote = origin\n[remote]\npushDefault = origin\n\
             [uploadpack]\npackObjectsHook = {evil}\n[gc]\nrecentObjectsHook = {evil}\n\
             {included}"
        )
    }

    /// Sets the trap in all parts of a git folder.
    fn prepare(&self, git: &Path, remote: &str) {
        fs::write(self.folder.join("included"), self.config(remote, true).split("[include]").next().unwrap())
            .unwrap();
        let mut config = fs::read_to_string(git.join("config")).unwrap();
        config.push_str(&self.config(remote, true));
        fs::write(git.join("config"), config).unwrap();
        copy_folder(&self.folder.join("hooks"), &git.join("hooks"));
        fs::create_dir_all(git.join("info")).unwrap();
        fs::write(git.join("info/attributes"), ATTRIBUTES).unwrap();
        // An alternate object database, whose repository has the same trap.
        fs::write(git.join("objects/info/alternates"), format!("{}/objects\n", self.decoy.path().display()))
            .unwrap();
        // The files that git reads in a folder that it takes for a repository.
        let own = git.join("collectory/remote");
        copy_folder(&self.folder.join("hooks"), &own.join("hooks"));
        fs::write(own.join("commondir"), git.display().to_string()).unwrap();
        fs::write(own.join("config"), self.config(remote, true)).unwrap();
    }

    fn assert_nothing_ran(&self, decoy_head: &str) {
        let ran = fs::read_to_string(self.mark()).unwrap_or_default();
        assert!(ran.is_empty(), "{ran}");
        assert_eq!(self.decoy.git(&["rev-parse", "main"]), decoy_head, "nothing was pushed elsewhere");
    }
}

/// Makes an instance do everything that it does with a shared remote.
async fn takes_part(server: &mut TestServer, hub: &Hub) {
    let head = create(server, "new").await;
    eventually("it is pushed", async || (hub.head().as_ref() == Some(&head)).then_some(())).await;
    let head = hub.push_collection("posts", "Foreign");
    server.wait_for_revision(&head).await;
    hub.make_unreachable();
    let mine = server.patch("pages", json!({"name": "Mine"})).await.status();
    server.stop();
    hub.make_reachable();
    hub.push_collection("posts", "Theirs");
    server.start_again().await;
    server.wait_for_attribute("posts", "name", "Theirs").await;
    if mine == 200 {
        server.wait_for_attribute("pages", "name", "Mine").await;
        eventually("the merge is pushed", async || (server.repo().tip("main") == hub.head()).then_some(()))
            .await;
    }
    let before = hub.head().unwrap();
    let gone = hub.push_collection("posts", "Gone");
    server.wait_for_revision(&gone).await;
    hub.move_branch(&before);
    server.wait_for_revision(&before).await;
    wait_for_problem_about(server, &gone).await;
    server.request("POST", "/remote/restore").send().await.is(200);
    server.wait_for_attribute("posts", "name", "Gone").await;
}

async fn nothing_runs(ack: &str, work_tree: bool) {
    let hub = Hub::with("small");
    hub.push_change(|person| {
        person.write(".gitattributes", "*.txt text\n");
        person.write("notes.txt", "notes\n");
        person.write(".gitmodules", "[submodule \"x\"]\npath = x\nurl = /nowhere\n");
    });
    let trap = Trap::new(&hub);
    let decoy_head = trap.decoy.git(&["rev-parse", "main"]);
    let mut setup = hub.polling(50).flag(&["--remote-ack", ack]);
    if work_tree {
        setup = setup.flag(&["--work-tree"]);
    }
    let mut server = setup.start().await;
    server.wait_for_revision(&hub.head().unwrap()).await;
    server.stop();
    let git = server.repo().git_folder();
    let (config, theirs) =
        (fs::read(git.join("config")).unwrap(), fs::read(hub.repo.path().join("config")).unwrap());
    trap.prepare(&git, &hub.url());
    fs::create_dir_all(trap.decoy.path().join("hooks")).unwrap();
    copy_folder(&trap.folder.join("hooks"), &trap.decoy.path().join("hooks"));
    let mut decoy = fs::read_to_string(trap.decoy.path().join("config")).unwrap();
    decoy.push_str(&trap.config(&hub.url(), true));
    let plain = fs::read(trap.decoy.path().join("config")).unwrap();
    fs::write(trap.decoy.path().join("config"), decoy).unwrap();
    // A remote that is a folder rightly runs its own hooks when it is pushed to. It gets all of the trap but those.
    let mut hubs = fs::read_to_string(hub.repo.path().join("config")).unwrap();
    hubs.push_str(&trap.config(&hub.url(), false));
    fs::write(hub.repo.path().join("config"), hubs).unwrap();
    server.start_again().await;
    takes_part(&mut server, &hub).await;
    server.stop();
    let folder = server.folder().to_path_buf();
    for words in [&["doctor"][..], &["backup", "copy.bundle"], &["check"], &["log"], &["verify"], &["export"]]
    {
        let done =
            run_to_end(collectory_command(&folder).args(words).arg("--repo").arg(server.repo().path()));
        assert!(matches!(done.status.code(), Some(0 | 1)), "{words:?}: {done:#?}");
    }
    // Git itself would run all of this, so it is removed before the final checks.
    fs::write(git.join("config"), config).unwrap();
    fs::write(hub.repo.path().join("config"), theirs).unwrap();
    fs::write(trap.decoy.path().join("config"), plain).unwrap();
    fs::remove_dir_all(trap.decoy.path().join("hooks")).unwrap();
    fs::remove_dir_all(git.join("hooks")).unwrap();
    fs::remove_file(git.join("info/attributes")).unwrap();
    fs::remove_file(git.join("objects/info/alternates")).unwrap();
    trap.assert_nothing_ran(&decoy_head);
}

#[tokio::test]
async fn nothing_runs_that_a_bare_repository_names() {
    nothing_runs("pushed", false).await;
}

#[tokio::test]
async fn nothing_runs_that_a_repository_with_a_work_tree_names() {
    nothing_runs("pushed", true).await;
}

#[tokio::test]
async fn nothing_runs_where_what_is_here_is_merged() {
    nothing_runs("local", true).await;
}
