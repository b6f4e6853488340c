//! The JSON Schema of a collection file: the same wherever it is requested.

use std::fs;

use crate::support::{RawRequest, Repo, TestServer, collectory_command, run_to_end};

#[tokio::test]
async fn the_command_and_the_service_give_the_same_schema() {
    let server = TestServer::start("small").await;
    let answer = RawRequest::new("GET", "/collection.schema.json").send(server.address());
    assert_eq!((answer.status(), answer.header("content-type")), (200, Some("application/schema+json")));
    let printed = run_to_end(collectory_command(server.folder()).arg("schema")).assert_exit_code(0).stdout;
    assert_eq!(String::from_utf8(answer.body).unwrap().trim_end(), printed.trim_end());
}

#[test]
fn init_tells_editors_of_the_schema_and_leaves_the_repository_clean() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run_to_end(collectory_command(folder.path()).arg("schema")).assert_exit_code(0).stdout;
    run_to_end(collectory_command(folder.path()).args(["init", "mine", "--path", "cms/collections"]))
        .assert_exit_code(0);
    let repo = Repo::at(folder.path().join("mine"));
    let settings: serde_json::Value = serde_json::from_str(&repo.read(".vscode/settings.json")).unwrap();
    assert_eq!(
        settings["yaml.schemas"][".vscode/collection.schema.json"],
        serde_json::json!(["cms/collections/*.yaml", "cms/collections/*.yml"])
    );
    let written = fs::read_to_string(folder.path().join("mine/.vscode/collection.schema.json")).unwrap();
    assert_eq!(written.trim_end(), printed.trim_end());
    assert_eq!((repo.status(), repo.commit_count()), (String::new(), 1));
}
