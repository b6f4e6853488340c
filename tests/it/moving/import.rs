//! `collectory import`, into a repository that no service is serving.

use std::fs;
use std::process::Stdio;

use tempfile::TempDir;

use crate::support::{Repo, TestServer, collectory_command, run, run_to_end};

const DECAP: &str = "\
backend: {name: github, token: hunter2}
media_folder: static/img
public_folder: /img
collections:
  - {name: posts, label: Posts, folder: content/posts, slug: '{{slug}}', fields: []}
  - {name: home, files: [{name: index, file: index.md, fields: []}]}
  - {name: pages, label: Pages, folder: content/pages}
";

/// A folder with a configuration in it.
fn with_file(name: &str, content: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

#[test]
fn a_configuration_becomes_one_commit_and_the_same_again_none() {
    let folder = with_file("config.yml", DECAP);
    let first = run(folder.path(), &["import", "config.yml", "-m", "Moving in"]).assert_exit_code(0);
    assert_eq!(
        first.stdout,
        "skip home: a collection of single files has no folder\ncreate media\ncreate pages\ncreate posts\n"
    );
    let repo = Repo::at(folder.path().join("settings"));
    assert_eq!(repo.subjects(), ["Change 3 collections: media, pages, posts"]);
    assert_eq!(repo.trailer("HEAD", "Collectory-Origin"), ["command"]);
    assert_eq!(repo.trailer("HEAD", "Collectory-Key"), ["media", "pages", "posts"]);
    assert!(repo.field("HEAD", "%B").contains("Moving in"));
    assert_eq!(
        repo.read("collections/posts.yaml"),
        "type: document\nname: Posts\ndirectory: content/posts\nrecursive: false\nx-decap:\n  slug: \"{{slug}}\"\n"
    );
    assert_eq!(
        repo.read("collections/media.yaml"),
        "type: media\ndirectory: static/img\nrecursive: true\nurl: /img/{filename}\n"
    );
    assert!(!repo.git(&["grep", "-c", "type", "HEAD"]).is_empty());
    assert!(
        !repo.try_git(&["grep", "-iE", "hunter2|backend", "HEAD"]).status.success(),
        "a secret came along"
    );
    let again = run(folder.path(), &["import", "config.yml"]).assert_exit_code(0);
    assert_eq!(
        again.stdout,
        "skip home: a collection of single files has no folder\nunchanged media\nunchanged pages\nunchanged posts\n"
    );
    assert_eq!((repo.commit_count(), repo.status()), (1, String::new()));
    run(folder.path(), &["check"]).assert_exit_code(0);
    repo.fsck();
}

#[test]
fn what_is_there_already_is_kept_merged_or_replaced_as_one_says() {
    let folder = with_file("config.yml", DECAP);
    let repo = Repo::init(folder.path().join("settings"));
    repo.write("collections/pages.yaml", "# mine\ntype: document\nname: My pages\nx-mine: 1\n");
    repo.write("collections/old.yaml", "type: document\n");
    repo.commit("by hand");
    let kept = run(folder.path(), &["import", "config.yml"]).assert_exit_code(1);
    assert_eq!(kept.stdout, "");
    assert_eq!(
        kept.stderr.lines().next().unwrap(),
        "config.yml:7:5: pages: it exists already with another name, directory, recursive, x-mine; choose what to do with --existing merge, replace or skip"
    );
    assert_eq!(repo.commit_count(), 1);
    let plan = |arguments: &[&str]| {
        let all = [&["import", "config.yml", "--dry-run"][..], arguments].concat();
        run(folder.path(), &all)
            .assert_exit_code(0)
            .stdout
            .lines()
            .filter(|line| line.contains(" pages") || line.ends_with(" old"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(plan(&["--existing", "skip"]), ["skip pages: it exists already"]);
    assert_eq!(plan(&["--existing", "merge"]), ["update pages: name, directory, recursive"]);
    assert_eq!(
        plan(&["--existing", "replace", "--prune"]),
        ["delete old", "update pages: name, directory, recursive, x-mine"]
    );
    assert_eq!(repo.commit_count(), 1, "a dry run writes nothing");
    run(folder.path(), &["import", "config.yml", "--existing", "merge"]).assert_exit_code(0);
    assert_eq!(
        repo.read("collections/pages.yaml"),
        "# mine\ntype: document\nname: Pages\ndirectory: content/pages\nrecursive: false\nx-mine: 1\n"
    );
    run(folder.path(), &["import", "config.yml", "--existing", "replace", "--prune"]).assert_exit_code(0);
    assert!(!repo.has("collections/old.yaml") && !repo.read("collections/pages.yaml").contains("x-mine"));
    assert_eq!(repo.commit_count(), 3);
}

#[test]
fn faults_are_told_where_they_stand_and_nothing_is_written() {
    let folder = with_file(
        "config.yml",
        "collections:\n  - {name: a, folder: ''}\n  - {name: b, folder: b}\n  - {folder: c}\n",
    );
    let faults = run(folder.path(), &["import", "config.yml"]).assert_exit_code(1);
    assert_eq!(
        faults.stderr,
        "config.yml:2:23: a: `folder` is empty; write where the collection lies\n\
         config.yml:4:5: collection 3: it has no `name`\n\
         collectory: 2 faults; nothing was written\n"
    );
    assert_eq!(faults.stdout, "");
    assert!(!folder.path().join("settings").exists(), "no repository was made");
    let rest = run(folder.path(), &["import", "config.yml", "--keep-going"]).assert_exit_code(1);
    assert_eq!(rest.stdout, "create b\n");
    let pruned = run(folder.path(), &["import", "config.yml", "--keep-going", "--prune"]).assert_exit_code(1);
    assert_eq!(pruned.stdout, "unchanged b\n");
}

#[test]
fn what_is_no_file_of_settings_is_told_in_a_sentence() {
    let folder = with_file("empty.yml", "");
    fs::write(folder.path().join("binary"), [0x89, b'P', b'N', b'G', 0]).unwrap();
    let huge = format!("collections: []\n{}", "#".repeat(1024 * 1024));
    fs::write(folder.path().join("huge.yml"), huge).unwrap();
    for (file, message) in [
        ("empty.yml", "empty.yml:1:1: the file is empty"),
        ("binary", "binary:1:1: the byte 0x89 is not UTF-8"),
        ("huge.yml", "huge.yml:1:1: a configuration has at most 1048576 bytes"),
        (".", ". is a folder; name the file in it"),
        ("nowhere.yml", "cannot read nowhere.yml: No such file"),
    ] {
        let finished = run(folder.path(), &["import", file]).assert_exit_code(1);
        assert!(finished.stderr.contains(message), "{file}: {}", finished.stderr);
        assert_eq!(finished.stdout, "");
    }
    assert!(!folder.path().join("settings").exists(), "no repository was made");
}

#[test]
fn wrong_usage_exits_with_2_and_makes_nothing() {
    let folder = with_file("config.yml", DECAP);
    for arguments in [
        &["import"][..],
        &["import", "config.yml", "--from", "wordpress"],
        &["import", "config.yml", "--existing", "perhaps"],
        &["import", "config.yml", "--media-key", "con"],
        &["import", "config.yml", "--from", "decap", "--schemas", "."],
        &["import", "config.yml", "--branch", "no branch"],
        &["import", "config.yml", "--to", "nowhere"],
    ] {
        assert_eq!(run(folder.path(), arguments).assert_exit_code(2).stdout, "", "{arguments:?}");
    }
    assert!(!folder.path().join("settings").exists());
}

#[test]
fn standard_input_is_a_file_too() {
    let folder = with_file("config.yml", DECAP);
    let file = fs::File::open(folder.path().join("config.yml")).unwrap();
    let finished = run_to_end(
        collectory_command(folder.path()).args(["import", "-", "--json", "--dry-run"]).stdin(file),
    )
    .assert_exit_code(0);
    assert_eq!(
        finished.stdout.lines().next().unwrap(),
        r#"{"action":"skip","key":"home","reason":"a collection of single files has no folder"}"#
    );
    assert!(finished.stdout.contains(r#"{"action":"create","key":"posts"}"#));
    let closed = run_to_end(collectory_command(folder.path()).args(["import", "-"]).stdin(Stdio::null()))
        .assert_exit_code(1);
    assert_eq!(closed.stderr, "-:1:1: the file is empty\n");
}

#[test]
fn laikas_settings_come_with_their_schemas() {
    let settings = r#"{"collections": {"posts": {"type": "document", "key": "posts", "sorting": "date"}}}"#;
    let folder = with_file("settings.json", settings);
    let schemas = folder.path().join("schemas");
    fs::create_dir(&schemas).unwrap();
    fs::write(schemas.join("posts.json"), r#"{"type": "object"}"#).unwrap();
    run(folder.path(), &["import", "settings.json", "--schemas", "schemas"]).assert_exit_code(0);
    let repo = Repo::at(folder.path().join("settings"));
    assert_eq!(
        repo.read("collections/posts.yaml"),
        "type: document\nx-laika:\n  sorting: date\nx-schema:\n  type: object\n"
    );
    assert_eq!(repo.subjects(), ["Create posts"]);
    fs::write(schemas.join("posts.json"), "{\"type\": \"object\"").unwrap();
    let broken = run(folder.path(), &["import", "settings.json", "--schemas", "schemas"]).assert_exit_code(1);
    assert!(broken.stderr.starts_with("schemas/posts.json:"), "{}", broken.stderr);
}

#[tokio::test]
async fn a_repository_that_a_service_serves_is_left_to_it() {
    let server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let repository = server.repo().path().to_str().unwrap().to_owned();
    let arguments = ["import", "config.yml", "--existing", "replace", "--repo", &repository];
    let refused = run(server.folder(), &arguments).assert_exit_code(1);
    assert!(refused.stderr.contains("--to http://"), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
}

#[tokio::test]
async fn through_a_service_an_import_is_one_batch() {
    let server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let url = format!("http://{}", server.address());
    let import = |arguments: &[&str]| {
        let all = [&["import", "config.yml", "--to", &url][..], arguments].concat();
        run(server.folder(), &all)
    };
    import(&[]).assert_exit_code(1);
    assert_eq!(server.repo().commit_count(), 1, "what is there is not touched unasked");
    let planned = import(&["--existing", "replace", "--prune", "--dry-run"]).assert_exit_code(0).stdout;
    let done = import(&["--existing", "replace", "--prune", "-m", "Umzug"]).assert_exit_code(0);
    assert_eq!(done.stdout, planned);
    assert!(done.stdout.contains("delete images\n") && done.stdout.contains("create media\n"), "{planned}");
    assert_eq!(server.repo().commit_count(), 2);
    assert_eq!(server.list().await.is(200).ids(), ["media", "pages", "posts"]);
    assert!(server.repo().field("HEAD", "%B").contains("Umzug"));
    let again = import(&[]).assert_exit_code(0);
    assert_eq!(again.stdout.lines().filter(|line| line.starts_with("unchanged ")).count(), 3);
    assert_eq!(server.repo().commit_count(), 2);
}

#[tokio::test]
async fn a_file_that_cant_be_read_is_skipped_here_and_through_a_service() {
    let server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let repo = Repo::seeded(server.folder().join("copy"), "small");
    let broken = "type: document\nname: [unclosed\n";
    for repo in [server.repo(), &repo] {
        repo.write("collections/media.yaml", broken);
        repo.commit("Half done");
    }
    server.wait_for_problem("collections/media.yaml").await;
    let url = format!("http://{}", server.address());
    let places = [["--to", &url], ["--repo", repo.path().to_str().unwrap()]];
    for place in places {
        let import = |existing| {
            let arguments = ["import", "config.yml", "--existing", existing];
            run(server.folder(), &[&arguments[..], &place].concat())
        };
        let refused = import("replace").assert_exit_code(1);
        assert!(
            refused
                .stderr
                .starts_with("config.yml:2:15: media: its file can't be read: collections/media.yaml:"),
            "{}",
            refused.stderr
        );
        let skipped = import("skip").assert_exit_code(0).stdout;
        assert!(skipped.contains("skip media: its file can't be read: collections/media.yaml:"), "{skipped}");
        assert!(skipped.contains("skip posts: it exists already"), "{skipped}");
    }
    assert!([server.repo(), &repo].iter().all(|repo| repo.read("collections/media.yaml") == broken));
}

#[tokio::test]
async fn a_page_of_the_list_prunes_nothing() {
    let server = TestServer::start("small").await;
    let url = format!("http://{}", server.address());
    for query in ["page[size]=1", "page[offset]=1&page[limit]=1", "filter[type]=media"] {
        let list = server.client().get(&format!("/collections?{query}")).await.is(200);
        fs::write(server.folder().join("list.json"), list.bytes()).unwrap();
        let arguments = ["import", "list.json", "--to", &url, "--prune", "--keep-going"];
        let refused = run(server.folder(), &arguments).assert_exit_code(1);
        assert_eq!(refused.stdout, "");
        assert!(refused.stderr.contains("without page[...] and filter[...]"), "{}", refused.stderr);
        assert!(refused.stderr.ends_with("collectory: nothing was written\n"), "{}", refused.stderr);
        let kept = run(server.folder(), &["import", "list.json", "--to", &url]).assert_exit_code(0);
        assert!(kept.stdout.starts_with("unchanged "), "{}", kept.stdout);
    }
    assert_eq!(server.repo().commit_count(), 1);
}

#[tokio::test]
async fn what_a_service_refuses_is_said_to_be_written_nowhere() {
    let server = TestServer::setup("small").flag(&["--operations-max", "1"]).start().await;
    fs::write(server.folder().join("config.yml"), DECAP).unwrap();
    let url = format!("http://{}", server.address());
    let refused = run(server.folder(), &["import", "config.yml", "--to", &url, "--existing", "replace"])
        .assert_exit_code(1);
    assert!(refused.stderr.contains("nothing was written: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("at most 1 operations"), "{}", refused.stderr);
    assert_eq!(server.repo().commit_count(), 1);
}

#[tokio::test]
async fn a_service_that_refuses_or_is_gone_is_told_in_a_sentence() {
    let mut server = TestServer::start("small").await;
    fs::write(server.folder().join("config.yml"), DECAP.replace("pages", "Pages")).unwrap();
    let url = format!("http://{}", server.address());
    let clash = run(server.folder(), &["import", "config.yml", "--to", &url, "--existing", "merge"])
        .assert_exit_code(1);
    assert!(clash.stderr.contains("differs in letter case only"), "{}", clash.stderr);
    server.stop();
    let gone = run(server.folder(), &["import", "config.yml", "--to", &url]).assert_exit_code(1);
    assert!(gone.stderr.contains("cannot reach http://"), "{}", gone.stderr);
}
