//! The files: hand-written ones keep their style, new ones read the same everywhere.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{CheckedAnswer, TestServer, document, media, request_fixture};

#[tokio::test]
async fn comments_order_quotes_and_blank_lines_survive_an_update() {
    let server = TestServer::start("commented").await;
    server.patch("posts", json!({"name": "All posts", "recursive": true})).await.is(200);
    let expected = "\
# Shown first in the sidebar. Ask Mara before renaming.
type: document
name: All posts

directory: 'content/posts'   # moved in March
recursive: true
x-colour: \"red\"
";
    assert_eq!(server.repo().read("collections/posts.yaml"), expected);
    assert_eq!(server.repo().read_at_head("collections/posts.yaml"), expected);
}

#[tokio::test]
async fn quoted_values_stay_quoted_and_removed_ones_leave_no_hole() {
    let server = TestServer::start("commented").await;
    server.patch("posts", json!({"directory": "blog/posts", "x-colour": "blue"})).await.is(200);
    let file = server.repo().read("collections/posts.yaml");
    assert!(file.contains("directory: 'blog/posts'   # moved in March\n"), "{file}");
    assert!(file.contains("x-colour: \"blue\"\n"), "{file}");
    server.patch("posts", json!({"recursive": null})).await.is(200);
    let shorter = server.repo().read("collections/posts.yaml");
    assert_eq!(shorter, file.replace("recursive: false\n", ""));
}

#[tokio::test]
async fn the_order_of_a_map_is_that_of_its_file_before_and_after_a_restart() {
    let mut server = TestServer::start("empty").await;
    let status = |name: &str| json!({"directory": name, "name": name});
    let first = json!({"x-m": {"b": 1}, "unpublishedStatuses": {"z": status("z")}});
    server.create(&document("posts", first)).await.is(201);
    // A value that keeps its place in the file comes before one that is added.
    let second =
        json!({"x-m": {"a": 0, "b": 1}, "unpublishedStatuses": {"a": status("a"), "z": status("z")}});
    let answered = server.patch("posts", second).await.is(200);
    let before = server.read("posts").await.is(200);
    server.restart().await;
    let after = server.read("posts").await.is(200);
    let text = |answer: &CheckedAnswer| String::from_utf8(answer.bytes().to_vec()).unwrap();
    assert!(text(&after).contains(r#""x-m":{"b":1,"a":0}"#), "{}", text(&after));
    assert_eq!(before.header("etag"), after.header("etag"));
    assert_eq!([text(&answered), text(&before)], [text(&after), text(&after)], "one entity tag, one body");
}

#[tokio::test]
async fn the_ending_yml_is_read_and_kept() {
    let server = TestServer::start("commented").await;
    let read = server.read("media").await.is(200).attributes();
    assert_eq!(read, json!({"type": "media", "directory": "media", "accept": ["image/png", ".pdf"]}));
    server.update("media", &media("media", json!({"directory": "media/all"}))).await.is(200);
    assert!(!server.repo().has("collections/media.yaml"));
    let expected = "\
---
# The ending .yml is read too, and kept.
directory: media/all
type: media
accept: [image/png, .pdf]  # no films
";
    assert_eq!(server.repo().read("collections/media.yml"), expected);
    server.create(&document("media", json!({}))).await.is(409);
    server.delete("media").await.is(204);
    assert!(!server.repo().has("collections/media.yml"));
}

#[tokio::test]
async fn both_endings_for_one_key_are_a_problem_and_yaml_is_served() {
    let server = TestServer::start("small").await;
    server.repo().write("collections/posts.yml", "type: document\nname: The other\n");
    server.commit_by_hand("Add another posts").await;
    let problem = server.wait_for_problem("collections/posts.yml").await;
    assert_eq!(problem["attributes"]["collection"], "posts");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts");
}

#[tokio::test]
async fn new_files_are_canonical() {
    let server = TestServer::start("empty").await;
    let attributes = json!({
        "x-z": 1, "recursive": true, "directory": "content/posts", "name": "Posts", "format": "markdown",
        "unpublishedStatuses": {"draft": {"name": "Draft", "directory": "drafts"}},
    });
    server.create(&document("posts", attributes)).await.is(201);
    let file = server.repo().read("collections/posts.yaml");
    let names: Vec<_> = file
        .lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(':').next().unwrap())
        .collect();
    assert_eq!(names, ["type", "name", "directory", "recursive", "format", "unpublishedStatuses", "x-z"]);
    assert!(
        file.starts_with("type: document\nname: Posts\ndirectory: content/posts\nrecursive: true\n"),
        "{file}"
    );
    assert!(file.ends_with('\n') && !file.contains('\t') && !file.contains('\r'), "{file}");
}

#[tokio::test]
async fn an_independent_reader_finds_what_was_stored() {
    let server = TestServer::start("empty").await;
    for name in ["document.json", "media.json"] {
        let body = request_fixture(name);
        server.create(&body).await.is(201);
        let file = server.repo().read(&format!("collections/{}.yaml", body["data"]["id"].as_str().unwrap()));
        let read: Value = serde_yaml::from_str(&file).unwrap();
        assert_eq!(read, body["data"]["attributes"], "{file}");
    }
}

#[tokio::test]
async fn texts_that_look_like_something_else_are_quoted() {
    let server = TestServer::start("empty").await;
    let texts: &[&str] = &[
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "Yes",
        "NO",
        "null",
        "~",
        "",
        "true",
        "False",
        "1",
        "-1",
        "1.0",
        "1e3",
        "0x10",
        "0o17",
        "017",
        "1_000",
        "12:30",
        "1:2:3",
        "2026-01-02",
        "2026-01-02T03:04:05Z",
        ".inf",
        ".NaN",
        "=",
        "<<",
        " edge",
        "edge ",
        "- a",
        "a: b",
        "a #b",
        "@a",
        "`a",
        "%a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "'",
        "\"",
        "{a",
        "[a",
        "---",
        "...",
        "?",
        "a\nb",
        "a\tb",
        "\u{85}",
        "\u{2028}",
        "\u{feff}a",
    ];
    server.create(&document("texts", json!({"x-texts": texts}))).await.is(201);
    let file = server.repo().read("collections/texts.yaml");
    let read: Value = serde_yaml::from_str(&file).unwrap();
    assert_eq!(read["x-texts"], json!(texts), "{file}");
    if let Some(read) = python_reads(&file) {
        assert_eq!(read["x-texts"], json!(texts), "YAML 1.1 reads something else:\n{file}");
    }
}

/// Parses a text with `PyYAML`, a reader of YAML 1.1; `None` where it is not installed.
fn python_reads(text: &str) -> Option<Value> {
    let script = "import sys, json, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))";
    let output = Command::new("python3").args(["-c", script, text]).env("PYTHONUTF8", "1").output().ok()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let absent = said.contains("ModuleNotFoundError") || said.contains("not found");
        assert!(absent, "PyYAML can't read it: {said}\n{text}");
        return None;
    }
    serde_json::from_slice(&output.stdout).ok()
}

/// Invalid files that look like YAML, and what the message must name.
const REFUSED: &[(&str, &str)] = &[
    ("type: document\nname: a\nname: b\n", "name"),
    ("type: document\nname: &a Posts\nx-b: *a\n", ""),
    ("type: document\nname: !!str 1\n", ""),
    ("type: document\n---\ntype: media\n", ""),
    ("type: document\nname: 2024\n", "2024"),
    ("type: document\nrecursive: \"yes\"\n", "yes"),
    ("type: document\nnmae: Posts\n", "nmae"),
    ("name: Posts\n", "type"),
    ("type: folder\n", "folder"),
    ("type: document\ndirectory: ../x\n", ".."),
    ("- type: document\n", ""),
    ("type: document\nname: [unclosed\n", ""),
    ("", ""),
    ("# only a comment\n", ""),
    ("type: document\n\tname: tab\n", ""),
];

#[tokio::test]
async fn yaml_is_read_strictly() {
    let server = TestServer::start("empty").await;
    for (index, (text, _)) in REFUSED.iter().enumerate() {
        server.repo().write(&format!("collections/f{index:02}.yaml"), text);
    }
    server.repo().write("collections/large.yaml", &format!("type: document\n# {}\n", "x".repeat(64 * 1024)));
    let deep = format!("type: document\nx-a: {}1{}\n", "[".repeat(2000), "]".repeat(2000));
    server.repo().write("collections/deep.yaml", &deep);
    std::fs::write(server.repo().path().join("collections/latin.yaml"), b"type: document\nname: \xe4\n")
        .unwrap();
    let head = server.commit_by_hand("Add broken files").await;
    let problems = server.get("/problems").await.is(200).data();
    let is_first = |problem: &&Value| !problem["id"].as_str().unwrap().contains('#');
    let problems: Vec<&Value> = problems.as_array().unwrap().iter().filter(is_first).collect();
    assert_eq!(problems.len(), REFUSED.len() + 3, "{problems:#?}");
    for (index, (text, word)) in REFUSED.iter().enumerate() {
        let path = format!("collections/f{index:02}.yaml");
        let problem = problems.iter().find(|problem| problem["id"] == path).unwrap();
        let message = problem["attributes"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{text:?}: {message}");
        assert!(problem["attributes"]["line"].as_u64().unwrap() >= 1, "{problem}");
        assert!(problem["attributes"]["column"].as_u64().unwrap() >= 1, "{problem}");
        assert_eq!(problem["attributes"]["serving"], "nothing");
        assert_eq!(problem["attributes"]["revision"], head);
    }
    assert_eq!(server.list().await.is(200).ids(), [""; 0]);
}

#[tokio::test]
async fn shorthands_are_understood_in_files_too() {
    let server = TestServer::start("empty").await;
    server.repo().write("collections/posts.yaml", "type: document\ndraftDirectory: drafts\n");
    server.commit_by_hand("Add posts").await;
    let expected = json!({"type": "document", "unpublishedStatuses": {"draft": {"directory": "drafts", "name": "Draft"}}});
    assert_eq!(server.read("posts").await.is(200).attributes(), expected);
}

#[tokio::test]
async fn windows_line_ends_stay() {
    let server = TestServer::start("empty").await;
    server
        .repo()
        .write("collections/posts.yaml", "type: document\r\nname: Posts # note\r\nrecursive: true\r\n");
    server.commit_by_hand("Add posts").await;
    server.patch("posts", json!({"name": "All"})).await.is(200);
    let file = server.repo().read("collections/posts.yaml");
    assert_eq!(file, "type: document\r\nname: All # note\r\nrecursive: true\r\n");
}
