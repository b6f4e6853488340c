//! Repositories of every kind, and those that are refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::domain::Actor;
use crate::store::git::tests::support::*;
use crate::store::git::{Access, GitJournal, Options};
use crate::store::{Journal as _, StoreError};
use crate::telemetry::error_chain;

#[track_caller]
fn refused(options: Options, why: &str) {
    match GitJournal::open(options) {
        Err(error @ (StoreError::Unsuitable { .. } | StoreError::CheckedOutElsewhere { .. })) => {
            assert!(error.to_string().contains(why), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("should be refused: {why}"),
    }
}

/// Expects that opening fails because of a name in the options.
#[track_caller]
fn misnamed(options: Options, why: &str) {
    match GitJournal::open(options) {
        Err(error @ StoreError::Misnamed(_)) => assert!(error.to_string().contains(why), "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("should be refused: {why}"),
    }
}

#[test]
fn who_follows_one_who_was_killed_waits_for_what_that_one_was_just_starting() {
    let repo = Repo::new();
    drop(repo.open());
    let lock = fs::File::open(repo.path().join(".git/collectory/lock")).unwrap();
    lock.try_lock().unwrap();
    // The child process holds the lock until it exits, which is soon.
    let mut left = Command::new("git").arg("version").stdin(lock).stdout(Stdio::null()).spawn().unwrap();
    drop(repo.open());
    left.wait().unwrap();
}

#[test]
fn only_one_may_serve_and_others_may_read() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    assert!(matches!(GitJournal::open(repo.options()), Err(StoreError::Served { .. })));
    let mut reader = repo.open_to_read();
    let head = reader.head().unwrap();
    assert_eq!(files_at(&mut reader, head)["a.yaml"], "a1\n");
    assert!(try_append(&mut reader, &[set("a.yaml", "a2\n")]).is_err());
    drop(journal);
    drop(repo.open());
}

#[test]
fn a_new_repository_is_one_that_git_knows() {
    let repo = Repo::new();
    assert_eq!(repo.git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    assert_eq!(repo.git(&["status", "--porcelain", "--branch"]), "## No commits yet on main\n");
    assert!(!GitJournal::init(repo.path()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter.txt"), "x").unwrap();
    let error = GitJournal::init(folder.path()).unwrap_err();
    assert!(error.to_string().contains("it is not a git repository"), "{error}");
    fs::create_dir(repo.path().join("inner")).unwrap();
    fs::write(repo.path().join("inner/x"), "x").unwrap();
    refused(Options::new(repo.path().join("inner")), "name that and, with --path, the folder");
}

#[test]
fn a_nested_folder_and_other_things_in_the_repository_are_fine() {
    let repo = Repo::new();
    fs::create_dir_all(repo.path().join("src/deep")).unwrap();
    fs::write(repo.path().join("src/deep/main.rs"), "fn main() {}\n").unwrap();
    fs::write(repo.path().join(".cms.yaml"), "x\n").unwrap();
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "-m", "Others"]);
    let mut journal =
        GitJournal::open(Options { folder: ".cms/collections".to_owned(), ..repo.options() }).unwrap();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n")]);
    assert_eq!(
        repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]),
        ".cms.yaml\n.cms/collections/a.yaml\n.cms/collections/b.yaml\nsrc/deep/main.rs\n"
    );
    append(&mut journal, &[remove("a.yaml"), remove("b.yaml")]);
    assert_eq!(repo.git(&["ls-tree", "-r", "--name-only", "HEAD"]), ".cms.yaml\nsrc/deep/main.rs\n");
    append(&mut journal, &[set("c.yaml", "c1\n")]);
    assert_eq!(repo.status(), "");
    repo.check();
}

#[test]
fn a_branch_may_be_chosen_nested_and_packed() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    repo.git(&["branch", "team/settings"]);
    repo.git(&["pack-refs", "--all"]);
    let mut journal =
        GitJournal::open(Options { branch: Some("team/settings".to_owned()), ..repo.options() }).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.git(&["show", "team/settings:collections/a.yaml"]), "a2\n");
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\n", ""));
    repo.check();
}

#[test]
fn the_first_branch_of_a_repository_may_have_any_name_that_is_free() {
    let repo = Repo::new();
    let chosen = |name: &str| Options { branch: Some(name.to_owned()), ..repo.options() };
    let mut below = GitJournal::open(chosen("main/below")).unwrap();
    repo.commit(&[("a.yaml", "a1\n")]);
    let error = try_append(&mut below, &[set("z.yaml", "z\n")]).unwrap_err();
    assert!(matches!(error, StoreError::Unsuitable { .. } | StoreError::Path { .. }), "{error}");
    repo.check();
    let repo = Repo::new();
    let chosen = Options { branch: Some("new/one".to_owned()), ..repo.options() };
    append(&mut GitJournal::open(chosen).unwrap(), &[set("z.yaml", "z\n")]);
    assert_eq!(repo.git(&["log", "--format=%s", "new/one"]), "Change z.yaml\n");
    repo.check();
}

#[test]
fn a_branch_that_is_not_there_is_refused_where_others_are() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    repo.git(&["branch", "team/settings"]);
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["branch", "loose"]);
    let there = "it has no branch `mian` but `loose`, `main`, `team/settings`; name one";
    for access in [Access::Serve, Access::Read] {
        refused(Options { branch: Some("mian".to_owned()), access, ..repo.options() }, there);
    }
    repo.git(&["checkout", "-q", "--orphan", "other"]);
    refused(repo.options(), "it has no branch `other`, which HEAD names, but `loose`");
    drop(GitJournal::open(Options { access: Access::Survey, ..repo.options() }).unwrap());
    repo.git(&["branch", "-D", "-q", "loose"]);
    (0..20).for_each(|at| drop(repo.git(&["branch", &format!("b{at:02}"), "main"])));
    refused(repo.options(), "`b09` and 12 more; name one");
}

#[test]
fn reflogs_are_kept_as_git_keeps_them() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n")]);
    let expected = "collectory: Change b.yaml\ncollectory: Change a.yaml\n";
    assert_eq!(repo.git(&["reflog", "--format=%gs", "main"]), expected);
    assert_eq!(repo.git(&["reflog", "--format=%gs", "HEAD"]), expected);
    let bare = Repo::bare();
    append(&mut bare.open(), &[set("a.yaml", "a1\n")]);
    assert!(!bare.path().join("logs").exists());
    bare.git(&["config", "core.logAllRefUpdates", "true"]);
    append(&mut bare.open(), &[set("a.yaml", "a2\n")]);
    assert_eq!(bare.git(&["reflog", "--format=%gs", "main"]), "collectory: Change a.yaml\n");
}

#[test]
fn a_linked_work_tree_is_served_where_it_is() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    repo.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = repo.path().parent().unwrap().join("linked");
    let mut journal = GitJournal::open(Options::new(&linked)).unwrap();
    assert_eq!(journal.branch(), "side");
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(fs::read_to_string(linked.join("collections/a.yaml")).unwrap(), "a2\n");
    assert_eq!(git_in(&linked, &["status", "--porcelain"]), "");
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\n", ""));
    assert!(matches!(GitJournal::open(repo.options()), Err(StoreError::Served { .. })));
    drop(journal);
    refused(Options { branch: Some("side".to_owned()), ..repo.options() }, "is checked out at");
    let main = Options { branch: Some("main".to_owned()), ..Options::new(&linked) };
    let mut read = GitJournal::open(Options { access: Access::Read, ..main.clone() }).unwrap();
    let head = read.head().unwrap();
    assert_eq!(files_at(&mut read, head)["a.yaml"], "a1\n", "whoever only reads reverts nothing");
    refused(main, "is checked out at");
    // As `git worktree add --relative-paths` writes it.
    fs::write(repo.path().join(".git/worktrees/linked/gitdir"), "../../../../linked/.git\n").unwrap();
    refused(Options { branch: Some("side".to_owned()), ..repo.options() }, "is checked out at");
}

#[test]
fn what_can_t_be_served_is_refused_with_a_sentence() {
    let refused_after = |args: &[&str], why: &str| {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a1\n")]);
        repo.git(args);
        refused(repo.options(), why);
    };
    refused_after(&["checkout", "-q", "--detach"], "HEAD is detached");
    refused_after(&["sparse-checkout", "set", "other"], "sparse");
    for (format, why) in [("--object-format=sha256", "SHA-256"), ("--ref-format=reftable", "reftable")] {
        let folder = tempfile::tempdir().unwrap();
        git_in(folder.path(), &["init", "-q", format, "."]);
        refused(Options::new(folder.path()), why);
    }
    let repo = Repo::new();
    for folder in ["/etc", "../x", "a//b", ".git/x"] {
        misnamed(Options { folder: folder.to_owned(), ..repo.options() }, "is no folder inside");
    }
    for branch in ["a..b", "no branch", "refs/heads/", "x.lock"] {
        misnamed(Options { branch: Some(branch.to_owned()), ..repo.options() }, "is no name for a branch");
    }
    symlink("/tmp", repo.path().join("collections")).unwrap();
    refused(repo.options(), "is a symbolic link");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "-m", "Link"]);
    fs::remove_file(repo.path().join("collections")).unwrap();
    refused(repo.options(), "is a symbolic link in commit");
}

#[test]
fn a_lost_branch_is_no_empty_list() {
    let lose = |how: &dyn Fn(&std::path::Path), why: &str| {
        let repo = Repo::bare();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n")]);
        let head = journal.head().unwrap().unwrap();
        journal.note_served(head);
        drop(journal);
        repo.git(&["pack-refs", "--all"]);
        how(repo.path());
        for access in [Access::Serve, Access::Read] {
            let error = GitJournal::open(Options { access, ..repo.options() }).err().expect("it is refused");
            assert!(error_chain(&error).contains(why), "{}", error_chain(&error));
        }
        (repo, head)
    };
    let cut = |len: usize| {
        move |path: &std::path::Path| {
            let refs = fs::read(path.join("packed-refs")).unwrap();
            fs::write(path.join("packed-refs"), &refs[..refs.len().saturating_sub(len)]).unwrap();
        }
    };
    lose(&cut(1), "packed-refs: line 2 is damaged");
    lose(&cut(12), "packed-refs: line 2 is damaged");
    lose(&|path| fs::write(path.join("packed-refs"), [0; 100]).unwrap(), "packed-refs: line 1 is damaged");
    lose(&cut(usize::MAX), "which was served last, is gone");
    let (repo, head) = lose(&|path| fs::remove_file(path.join("packed-refs")).unwrap(), "git update-ref");
    let other = Options { branch: Some("other".into()), ..repo.options() };
    refused(other, "refs/heads/main, which was served last, is gone");
    repo.git(&["update-ref", "refs/heads/main", &head.to_string()]);
    assert_eq!(repo.open().head().unwrap(), Some(head));
    repo.git(&["update-ref", "-d", "refs/heads/main"]);
    fs::remove_file(repo.path().join("collectory/served")).unwrap();
    assert_eq!(repo.open().head().unwrap(), None, "whoever means it begins anew");
}

#[test]
fn a_survey_looks_at_whatever_is_checked_out() {
    let repo = Repo::new();
    let first = repo.commit(&[("a.yaml", "a1\n")]);
    repo.commit(&[("a.yaml", "a2\n")]);
    repo.git(&["checkout", "-q", "HEAD~1"]);
    repo.save("a.yaml", "a3\n");
    let mut journal = GitJournal::open(Options { access: Access::Survey, ..repo.options() }).unwrap();
    assert_eq!(journal.head().unwrap(), Some(first));
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a3\n")]);
    repo.git(&["worktree", "add", "-q", "--detach", "../linked", "main"]);
    let linked = Options::new(repo.path().parent().unwrap().join("linked"));
    let mut journal = GitJournal::open(Options { access: Access::Survey, ..linked }).unwrap();
    let head = journal.head().unwrap();
    assert_eq!(files_at(&mut journal, head)["a.yaml"], "a2\n");
}

#[test]
fn nothing_that_the_repository_names_is_run() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    let mark = repo.path().join("ran");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in ["pre-commit", "post-commit", "reference-transaction", "post-index-change", "fsmonitor"] {
        let path = repo.path().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &script).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    repo.git(&["config", "filter.x.clean", script.lines().last().unwrap()]);
    repo.git(&["config", "filter.x.smudge", script.lines().last().unwrap()]);
    repo.git(&["config", "core.fsmonitor", ".git/hooks/fsmonitor"]);
    fs::write(repo.path().join(".gitattributes"), "* filter=x\n").unwrap();
    drop(fs::remove_file(&mark));
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.save("a.yaml", "a3\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a3\n")]);
    assert!(!mark.exists());
}

#[test]
fn a_person_is_who_the_repository_says() {
    let repo = Repo::new();
    repo.git(&["config", "user.name", "Ole"]);
    repo.git(&["config", "user.email", "ole@example.org"]);
    let mut journal = repo.open();
    assert_eq!(journal.hand_edit_author(), Actor::new("Ole", "ole@example.org"));
    fs::write(repo.path().join(".git/mara"), "[user]\nname = Mara\nemail = mara@example.org\n").unwrap();
    for (condition, name) in
        [("onbranch:other", "Ole"), ("onbranch:main", "Mara"), ("gitdir:**/.git", "Mara")]
    {
        repo.git(&["config", &format!("includeIf.{condition}.path"), "mara"]);
        assert_eq!(journal.hand_edit_author().name(), name, "{condition}");
        repo.git(&["config", "--remove-section", &format!("includeIf.{condition}")]);
    }
}

#[test]
fn a_configured_filter_is_heeded_where_the_attributes_can_t_be_read() {
    let repo = Repo::new();
    repo.git(&["config", "filter.crypt.clean", "cat"]);
    let mut journal = repo.open();
    assert!(!journal.is_converted("a.yaml", b"a"));
    // An extension that libgit2 does not know.
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.noop-v1", "true"]);
    assert!(journal.is_converted("a.yaml", b"a"));
}

/// Replaces `.git` by a copy of itself.
fn replace_git_dir(repo: &Repo) {
    let (git_dir, copy) = (repo.path().join(".git"), repo.path().join("copy"));
    let copied = Command::new("cp").arg("-a").args([&git_dir, &copy]).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(&git_dir).unwrap();
    fs::rename(copy, git_dir).unwrap();
}

#[test]
fn a_repository_that_was_replaced_is_still_served_by_one_only() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    replace_git_dir(&repo);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert!(matches!(GitJournal::open(repo.options()), Err(StoreError::Served { .. })));
    assert_eq!(repo.status(), "");
    repo.check();
}

#[test]
fn who_served_a_repository_before_it_was_replaced_writes_nothing_beside_who_serves_it_now() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    replace_git_dir(&repo);
    let next = repo.open();
    let refused = try_append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert!(matches!(refused, Err(StoreError::Served { .. })), "{refused:?}");
    drop(next);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.check();
}
