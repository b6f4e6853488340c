//! `collectory export`, and tables of the history.

use serde_json::json;

use crate::support::{RawRequest, Repo, TestServer, run};

const NASTY: &str = "type: document\nname: \"=1+1\"\ndirectory: a/b\nunpublishedStatuses:\n  draft:\n    directory: d\nx-a: [1, 1.5, null, \"yes\", {\"ü\": \"a\\nb\"}]\nx-b: 18446744073709551615\n";

fn nasty() -> (tempfile::TempDir, Repo) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.write("collections/nasty.yaml", NASTY);
    repo.commit("A nasty one");
    (folder, repo)
}

#[test]
fn every_form_that_keeps_everything_can_be_imported_and_changes_nothing() {
    let (_folder, repo) = nasty();
    for form in ["json", "yaml", "laika"] {
        let export =
            run(repo.path(), &["export", "--format", form, "--repo", "."]).assert_exit_code(0).stdout;
        // Laika requires a name for every status.
        let export = export.replace(",\n          \"name\": \"draft\"", "");
        std::fs::write(repo.path().join("../export"), &export).unwrap();
        let import =
            run(repo.path(), &["import", "../export", "--repo", ".", "--existing", "replace", "--prune"])
                .assert_exit_code(0);
        let lines: Vec<&str> = import.stdout.lines().collect();
        assert_eq!(
            lines,
            ["unchanged images", "unchanged nasty", "unchanged pages", "unchanged posts"],
            "{export}"
        );
    }
    assert_eq!(repo.commit_count(), 2);
}

#[test]
fn what_is_exported_can_be_imported_into_an_empty_repository() {
    let (folder, repo) = nasty();
    for form in ["json", "yaml", "laika"] {
        let export =
            run(repo.path(), &["export", "--format", form, "--repo", "."]).assert_exit_code(0).stdout;
        std::fs::write(folder.path().join("export"), &export).unwrap();
        let new = folder.path().join(form);
        let new = new.to_str().unwrap();
        let notes = run(repo.path(), &["import", "../export", "--repo", new]).assert_exit_code(0).stderr;
        let is_told = notes.contains("nasty: unpublishedStatuses.draft: a status needs a `name`");
        assert_eq!(is_told, form != "laika", "{notes}");
        let again = run(repo.path(), &["export", "--format", form, "--repo", new]).assert_exit_code(0).stdout;
        assert_eq!(again, export);
    }
}

#[test]
fn a_status_without_a_name_gets_one_for_laika_and_that_is_told() {
    let (_folder, repo) = nasty();
    let export = run(repo.path(), &["export", "--format", "laika", "--repo", "."]).assert_exit_code(0);
    let settings: serde_json::Value = serde_json::from_str(&export.stdout).unwrap();
    let statuses = &settings["collections"]["nasty"]["unpublishedStatuses"];
    assert_eq!(*statuses, json!({"draft": {"directory": "d", "name": "draft"}}));
    let warning = "nasty: the status `draft` has no name, and gets its key for one";
    assert!(export.stderr.contains(warning), "{}", export.stderr);
    assert_eq!(
        run(repo.path(), &["export", "--format", "yaml", "--repo", "."]).assert_exit_code(0).stderr,
        ""
    );
}

#[test]
fn a_broken_file_in_whose_place_nothing_is_shown_is_told() {
    let (_folder, repo) = nasty();
    repo.write("collections/posts.yaml", "type: [\n");
    repo.write("collections/broken.yaml", "type: [\n");
    repo.commit("Broken");
    repo.write("collections/saved.yaml", "typ: media\n");
    let list: &[&str] = &["list"];
    for form in ["json", "laika", "decap", "yaml", "csv"].map(|form| ["export", "--format", form]) {
        for command in [&form[..], list] {
            let now = run(repo.path(), &[command, &["--repo", "."]].concat()).assert_exit_code(0).stderr;
            let then = run(repo.path(), &[command, &["--as-of", "HEAD", "--repo", "."]].concat())
                .assert_exit_code(0)
                .stderr;
            for (version, is_saved) in [(now, true), (then, false)] {
                assert!(version.contains("warning: left out: collections/broken.yaml:1:7: "), "{version}");
                let saved = "warning: left out: collections/saved.yaml:1:1: ";
                assert_eq!(version.contains(saved), is_saved, "{version}");
                assert!(!version.contains("posts.yaml"), "its last good version is there: {version}");
            }
        }
    }
    let one = run(repo.path(), &["get", "posts", "--repo", "."]).assert_exit_code(0);
    assert_eq!(one.stderr, "", "nothing else was asked for");
}

#[tokio::test]
async fn the_json_form_is_the_list_of_the_api() {
    let server = TestServer::start("small").await;
    let list = server.list().await.is(200).json();
    let export = run(server.repo().path(), &["export", "--repo", "."]).assert_exit_code(0).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&export).unwrap(), list);
}

#[test]
fn a_table_has_no_formulas_and_the_past_can_be_exported() {
    let (_folder, repo) = nasty();
    let table = run(repo.path(), &["export", "--format", "csv", "--repo", "."]).assert_exit_code(0).stdout;
    assert!(table.contains("\nnasty,document,'=1+1,a/b,"), "{table}");
    let before = run(repo.path(), &["export", "--format", "laika", "--as-of", "HEAD~1", "--repo", "."])
        .assert_exit_code(0)
        .stdout;
    let settings: serde_json::Value = serde_json::from_str(&before).unwrap();
    assert_eq!(settings["collections"].as_object().unwrap().len(), 3);
    assert_eq!(settings["collections"]["posts"]["key"], "posts");
}

#[test]
fn decap_gets_back_what_came_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = "media_folder: static/img\npublic_folder: /img\npublish_mode: editorial_workflow\ncollections:\n  - {name: 日记本, label: D, folder: d, slug: '{{slug}}'}\n  - {name: posts, folder: p, extension: md, media_folder: /static/p}\n";
    std::fs::write(folder.path().join("config.yml"), config).unwrap();
    run(folder.path(), &["import", "config.yml"]).assert_exit_code(0);
    let repo = Repo::at(folder.path().join("settings"));
    let export = run(repo.path(), &["export", "--format", "decap", "--repo", "."]).assert_exit_code(0).stdout;
    assert_eq!(
        export,
        "publish_mode: editorial_workflow\nmedia_folder: static/img\npublic_folder: /img\ncollections:\n  - name: 日记本\n    label: D\n    folder: d\n    slug: \"{{slug}}\"\n  - name: posts\n    folder: p\n    extension: md\n    media_folder: /static/p\n"
    );
    std::fs::write(folder.path().join("config.yml"), export).unwrap();
    let again = ["import", "config.yml", "--prune", "--existing", "replace"];
    let again = run(folder.path(), &again).assert_exit_code(0);
    assert!(again.stdout.lines().all(|line| line.starts_with("unchanged ")), "{}", again.stdout);
}

#[tokio::test]
async fn what_decap_has_no_place_for_is_told_and_the_others_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let config = "publish_mode: editorial_workflow\ncollections:\n  - {name: a, folder: a}\n  - {name: b, folder: b}\n";
    std::fs::write(folder.path().join("config.yml"), config).unwrap();
    run(folder.path(), &["import", "config.yml"]).assert_exit_code(0);
    let repo = Repo::at(folder.path().join("settings"));
    repo.configure_user();
    let a = repo.read("collections/a.yaml");
    let statuses = a.find("unpublishedStatuses:").expect("the import has made them");
    let own = "x-foo: 1\nx-decap: {name: evil, folder: evil, fields: [1], slug: s}\n";
    repo.write("collections/a.yaml", &format!("{}{own}", &a[..statuses]));
    repo.commit("Of our own");
    let export = run(repo.path(), &["export", "--format", "decap", "--repo", "."]).assert_exit_code(0);
    assert!(!export.stdout.contains("evil") && !export.stdout.contains("fields"), "{}", export.stdout);
    assert!(export.stdout.contains("publish_mode") && export.stdout.contains("slug: s"), "{}", export.stdout);
    let warning = "an import of it would update a: unpublishedStatuses, x-decap, x-foo";
    assert!(export.stderr.contains(warning), "{}", export.stderr);
    assert!(!export.stderr.contains("update b"), "{}", export.stderr);
}

#[tokio::test]
async fn an_auditors_sheet_has_a_row_for_each_changed_attribute() {
    let server = TestServer::start("small").await;
    let change = json!({"name": "=HYPERLINK(1)", "recursive": false});
    server.patch("posts", change).await.is(200);
    let table = |path: &str| {
        let answer = RawRequest::new("GET", path).header("Accept", "text/csv").send(server.address());
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
        String::from_utf8(answer.body).unwrap()
    };
    let text = table("/events");
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    assert_eq!(names.join(","), "time,actor,e-mail,action,key,attribute,from,to,reason,revision");
    let rows: Vec<csv::StringRecord> = rows.records().collect::<Result<_, _>>().unwrap();
    let head = server.repo().head();
    let newest: Vec<Vec<&str>> =
        rows.iter().filter(|row| row[9] == head).map(|row| (3..8).map(|at| &row[at]).collect()).collect();
    assert_eq!(
        newest,
        [
            ["updated", "posts", "name", "Posts", "'=HYPERLINK(1)"],
            ["updated", "posts", "recursive", "true", "false"]
        ]
    );
    assert!(rows.len() > 8, "all of them, not a page: {text}");
    assert_eq!(table("/events?page[size]=1&filter[collection]=posts").lines().count(), 3);
    let own = table("/collections/posts/events");
    assert!(own.lines().skip(1).all(|line| line.contains(",posts,")), "{own}");
    let log =
        run(server.repo().path(), &["log", "--format", "csv", "--repo", "."]).assert_exit_code(0).stdout;
    assert_eq!(log, text);
}
