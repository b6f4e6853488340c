//! `list`, `get`, `log`, `show`, `diff`, `blame`, `verify`, `undo` and `restore`.

use std::io::BufRead as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{first_parents, with_history};
use crate::support::{PERSON, ProgramOutput, Repo, TestServer, collectory_command, run_to_end};

fn run(repo: &Repo, arguments: &[&str]) -> ProgramOutput {
    let path = repo.path().to_str().unwrap();
    let folder = repo.path().parent().unwrap_or(Path::new("/"));
    run_to_end(collectory_command(folder).args(arguments).args(["--repo", path]))
}

#[tokio::test]
async fn the_log_tells_what_the_api_tells_with_and_without_a_service() {
    let mut server = with_history().await;
    let events = server.get("/events").await.is(200).data();
    let beside = run(server.repo(), &["log", "--json"]).assert_exit_code(0);
    assert_eq!(json!(beside.json_lines()), events);
    server.stop();
    let alone = run(server.repo(), &["log", "--json"]).assert_exit_code(0);
    assert_eq!(alone.stdout, beside.stdout);
    assert_eq!(alone.stderr, "", "there is nothing to tell of a short reading");
    let text = run(server.repo(), &["log", "posts", "-n", "2"]).assert_exit_code(0).stdout;
    assert!(text.contains("updated posts") && text.contains("Because I can."), "{text}");
    assert!(!text.contains('\u{1b}'), "colour is for terminals: {text}");
    assert_eq!(
        run(server.repo(), &["log", "--origin", "api", "--json"]).assert_exit_code(0).json_lines().len(),
        2
    );
    run(server.repo(), &["log", "never"]).assert_exit_code(1);
    let never = run(server.repo(), &["diff", "HEAD~1", "HEAD", "never"]).assert_exit_code(1);
    assert!(never.stderr.contains("'never' not found"), "{}", never.stderr);
    run(server.repo(), &["log", "--action", "made"]).assert_exit_code(2);
}

#[tokio::test]
async fn one_commit_a_difference_and_blame_are_shown() {
    let server = with_history().await;
    let revisions = first_parents(&server);
    let show = run(server.repo(), &["show", &revisions[2]]).assert_exit_code(0).stdout;
    assert!(show.contains("Spring clean-up") && show.contains("\"Posts\" -> \"All posts\""), "{show}");
    let by_hand = run(server.repo(), &["show", "HEAD~1"]).assert_exit_code(0).stdout;
    assert!(by_hand.contains("Rename by hand") && by_hand.contains("Because I can."), "{by_hand}");
    let diff = run(server.repo(), &["diff", &revisions[3], "main", "posts"]).assert_exit_code(0).stdout;
    assert!(diff.contains("updated posts") && diff.contains("~ recursive: true -> false"), "{diff}");
    assert_eq!(run(server.repo(), &["diff", &revisions[3], "main", "pages"]).assert_exit_code(0).stdout, "");
    let patch = run(server.repo(), &["diff", &revisions[3], "main", "--text"]).assert_exit_code(0).stdout;
    assert!(patch.contains("+++ b/collections/posts.yaml"), "{patch}");
    let blame = run(server.repo(), &["blame", "posts", "--json"]).assert_exit_code(0).json_lines();
    assert_eq!(json!(blame), server.get("/collections/posts/blame").await.is(200).data());
}

#[tokio::test]
async fn a_reader_that_has_had_enough_is_no_failure() {
    let mut server = with_history().await;
    server.stop();
    for n in 0..40 {
        server
            .repo()
            .write("collections/pages.yaml", &format!("type: document\nname: {}\n", "n".repeat(900 + n)));
        server.repo().commit("More than a pipe holds");
    }
    let path = server.repo().path().to_str().unwrap();
    for arguments in [&["log"][..], &["log", "--json"]] {
        let mut child = collectory_command(server.folder())
            .args(arguments)
            .args(["--repo", path])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("updated"), "{line}");
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap()), (Some(0), String::new()));
    }
}

#[tokio::test]
async fn a_commit_of_a_merged_side_is_told_of_the_merge() {
    let mut server = TestServer::start("small").await;
    server.stop();
    let repo = server.repo();
    repo.git(&["checkout", "--quiet", "-b", "side"]);
    repo.write("collections/side.yaml", "type: media\n");
    let side = repo.commit("On the side");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "Merge", "side"]);
    assert!(run(repo, &["show", "main"]).assert_exit_code(0).stdout.contains("created side"));
    assert!(run(repo, &["show", &side]).assert_exit_code(1).stderr.contains("by a merge"));
}

#[tokio::test]
async fn verification_finds_trailers_that_lie() {
    let server = with_history().await;
    let sound = run(server.repo(), &["verify"]).assert_exit_code(0);
    assert_eq!(sound.stdout.lines().count(), 4, "{sound:#?}");
    server.repo().write("collections/pages.yaml", "type: document\nname: Forged\n");
    let head = server.commit_by_hand("Update posts: name\n\nCollectory-Action: collection.updated\nCollectory-Key: posts\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e").await;
    let forged = run(server.repo(), &["verify", "--json"]).assert_exit_code(1);
    let last = forged.json_lines().pop().unwrap();
    assert_eq!((last["revision"].as_str(), last["maker"].as_str()), (Some(head.as_str()), Some("person")));
    assert!(last["disagreements"].as_array().unwrap().len() >= 2, "{last}");
    run(server.repo(), &["verify", &format!("{head}..")]).assert_exit_code(0);
    run(server.repo(), &["verify", &format!("..{}", &head[..9])]).assert_exit_code(1);
}

#[tokio::test]
async fn a_message_drives_no_terminal() {
    let server = TestServer::start("small").await;
    server.repo().write("collections/pages.yaml", "type: document\nname: X\n");
    server.commit_by_hand("Subject\n\nRed \u{1b}[31m text").await;
    let text = run(server.repo(), &["log"]).assert_exit_code(0).stdout;
    assert!(text.contains("Red") && !text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn the_state_of_a_day_and_of_now_is_listed_beside_a_running_service() {
    let server = with_history().await;
    let list = run(server.repo(), &["list"]).assert_exit_code(0).stdout;
    assert!(list.contains("posts document content/posts By hand"), "{list}");
    server.repo().write_by_rename("collections/new.yaml", "type: media\n");
    assert!(run(server.repo(), &["list"]).assert_exit_code(0).stdout.contains("new media (not committed)"));
    server.repo().remove("collections/new.yaml");
    let table = run(server.repo(), &["list", "--csv", "--at", "HEAD"]).assert_exit_code(0).stdout;
    assert!(table.starts_with("id,type,name,directory"), "{table}");
    let before = run(server.repo(), &["get", "posts", "--at", "HEAD~3", "--json"]).assert_exit_code(0).stdout;
    let before: Value = serde_json::from_str(&before).unwrap();
    assert_eq!(before["attributes"]["name"], "Posts");
    assert!(
        run(server.repo(), &["get", "posts"])
            .assert_exit_code(0)
            .stdout
            .starts_with("type: document\nname: By hand\n")
    );
    assert!(
        run(server.repo(), &["get", "nope"])
            .assert_exit_code(1)
            .stderr
            .contains("Collection 'nope' not found.")
    );
}

#[tokio::test]
async fn beside_a_service_the_branch_that_it_serves_is_read_whatever_is_checked_out() {
    let server = with_history().await;
    server.repo().git(&["switch", "--quiet", "--create", "side", "HEAD~3"]);
    let events = server.get("/events").await.is(200).data();
    let log = run(server.repo(), &["log", "--json"]).assert_exit_code(0).json_lines();
    assert_eq!(json!(log), events);
    for arguments in [&["list"][..], &["get", "posts"], &["blame", "posts"], &["export"]] {
        let shown = run(server.repo(), arguments).assert_exit_code(0).stdout;
        assert!(shown.contains("By hand"), "{arguments:?}: {shown}");
    }
    let named = run(server.repo(), &["list", "--branch", "side"]).assert_exit_code(0).stdout;
    assert!(named.contains("posts") && !named.contains("By hand"), "{named}");
}

#[tokio::test]
async fn what_became_of_a_collection_is_told_as_the_api_tells_it() {
    let server = with_history().await;
    server.delete("posts").await.is(204);
    let detail = server.read("posts").await.is(404).detail();
    assert!(detail.starts_with("Collection 'posts' not found. It was deleted by anonymous at "), "{detail}");
    for arguments in [&["blame", "posts"][..], &["blame", "posts", "--json"], &["get", "posts", "--json"]] {
        let finished = run(server.repo(), arguments).assert_exit_code(1);
        assert_eq!((finished.stdout.as_str(), finished.stderr), ("", format!("collectory: {detail}\n")));
    }
    let then = run(server.repo(), &["get", "posts", "--at", "HEAD"]).assert_exit_code(1);
    assert_eq!(then.stderr, "collectory: Collection 'posts' not found.\n");
}

#[tokio::test]
async fn an_edit_beside_what_is_blamed_is_told() {
    let server = with_history().await;
    let blame = |arguments: &[&str]| run(server.repo(), &[&["blame"], arguments].concat());
    let before = blame(&["posts"]).assert_exit_code(0);
    assert_eq!(before.stderr, "");
    let of_json = blame(&["posts", "--json"]).assert_exit_code(0).json_lines();
    assert!(of_json.iter().all(|line| line.get("meta").is_none()));
    server.repo().write_by_rename("collections/posts.yaml", "type: document\nname: Not committed\n");
    let after = blame(&["posts"]).assert_exit_code(0);
    assert_eq!(after.stdout, before.stdout);
    assert!(after.stderr.contains("posts was edited and not committed since"), "{}", after.stderr);
    for (mut line, before) in
        blame(&["posts", "--json"]).assert_exit_code(0).json_lines().into_iter().zip(of_json)
    {
        assert_eq!(line.as_object_mut().unwrap().remove("meta"), Some(json!({"uncommitted": true})));
        assert_eq!(line, before);
    }
    server.repo().write_by_rename("collections/new.yaml", "type: media\n");
    let new = blame(&["new"]).assert_exit_code(1).stderr;
    assert!(new.contains("Collection 'new' has no history yet: its file is not committed."), "{new}");
    server.repo().git(&["checkout", "--quiet", "collections/posts.yaml"]);
    server.repo().remove("collections/new.yaml");
}

#[tokio::test]
async fn a_change_is_taken_back_in_a_repository_that_nobody_serves() {
    let mut server = with_history().await;
    let list = server.get("/collections/posts/events").await.is(200).json();
    let id = list["data"][0]["id"].as_str().unwrap().to_owned();
    let refused = run(server.repo(), &["undo", &id]).assert_exit_code(1);
    assert!(refused.stderr.contains("serves") && refused.stderr.contains("--to"), "{}", refused.stderr);
    let long = run(server.repo(), &["undo", &id, "-m", &"y".repeat(1025)]).assert_exit_code(2);
    assert!(long.stderr.contains("at most 1024 bytes"), "{}", long.stderr);
    server.stop();
    let repo = server.repo();
    run(repo, &["undo", &id, "-m", "By mistake"]).assert_exit_code(0);
    assert_eq!(repo.field("HEAD", "%an <%ae> %cn"), format!("{} <{}> Collectory", PERSON.0, PERSON.1));
    assert_eq!(repo.trailer("HEAD", "Collectory-Origin"), ["command"]);
    assert_eq!(repo.trailer("HEAD", "Collectory-Undoes"), [id]);
    assert!(repo.field("HEAD", "%B").contains("By mistake"));
    run(repo, &["restore", "posts", "HEAD~4"]).assert_exit_code(0);
    assert!(repo.read("collections/posts.yaml").contains("name: Posts"), "the work tree follows");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    let log = run(repo, &["log", "-n", "1", "--json"]).assert_exit_code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&log).unwrap()["attributes"]["origin"], "command");
    run(repo, &["verify"]).assert_exit_code(0);
}

#[tokio::test]
async fn a_change_is_taken_back_through_a_service() {
    taken_back_through(&with_history().await).await;
}

#[tokio::test]
async fn a_service_that_wants_entity_tags_gets_one_with_what_is_taken_back() {
    let mut server = with_history().await;
    server.stop();
    let server = TestServer::setup("small").flag(&["--require-if-match"]).repository(server.repo().path());
    taken_back_through(&server.start().await).await;
}

async fn taken_back_through(server: &TestServer) {
    let list = server.get("/collections/posts/events").await.is(200).json();
    let (id, url) =
        (list["data"][0]["id"].as_str().unwrap().to_owned(), format!("http://{}/", server.address()));
    let run = |arguments: Vec<String>| {
        tokio::task::spawn_blocking(move || {
            run_to_end(collectory_command(std::path::Path::new(".")).args(arguments))
        })
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    run(words(&["undo", &id, "--to", &url, "-m", "Größe"])).await.unwrap().assert_exit_code(0);
    assert_eq!(server.repo().trailer("HEAD", "Collectory-Undoes"), [id.as_str()]);
    let again = run(words(&["undo", &id, "--to", &url])).await.unwrap().assert_exit_code(1);
    assert!(again.stderr.contains("answers 409"), "{}", again.stderr);
    run(words(&["restore", "posts", "HEAD~4", "--to", &url])).await.unwrap().assert_exit_code(0);
    assert_eq!(server.get("/collections/posts").await.is(200).attributes()["name"], "Posts");
}

#[test]
fn the_repository_around_the_present_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    let inside = repo.path().join("collections");
    for arguments in [&["log"][..], &["list"], &["verify"], &["show", "HEAD"]] {
        run_to_end(collectory_command(&inside).args(arguments)).assert_exit_code(0);
    }
    let nowhere = run_to_end(collectory_command(folder.path()).args(["log"])).assert_exit_code(1);
    assert!(nowhere.stderr.contains("--repo"), "{}", nowhere.stderr);
}

#[test]
fn a_clone_without_all_of_the_history_says_so_and_accuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    run_to_end(collectory_command(folder.path()).args(["init", "made"])).assert_exit_code(0);
    let made = folder.path().join("made");
    for number in 0..2 {
        repo.write("collections/posts.yaml", &format!("type: document\nname: {number}x\n"));
        repo.commit("Again");
    }
    for source in [repo.path(), &made] {
        let url = format!("file://{}", source.display());
        let shallow = folder.path().join("shallow");
        repo.git(&["clone", "--quiet", "--depth", "1", &url, &shallow.to_string_lossy()]);
        for command in ["log", "verify"] {
            let verdicts =
                run_to_end(collectory_command(&shallow).args([command, "--repo", "."])).assert_exit_code(0);
            assert!(verdicts.stderr.contains("git fetch --unshallow"), "{command}: {}", verdicts.stderr);
        }
        std::fs::remove_dir_all(&shallow).unwrap();
    }
}

#[tokio::test]
async fn a_head_that_was_written_down_proves_that_nothing_was_rewritten() {
    let server = with_history().await;
    let head = server.repo().head();
    run(server.repo(), &["verify", "--head-was", &head]).assert_exit_code(0);
    server.repo().git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let rewritten = run(server.repo(), &["verify", "--head-was", &head]).assert_exit_code(1);
    assert!(rewritten.stderr.contains("the history was rewritten"), "{}", rewritten.stderr);
    server.repo().git(&["reset", "--quiet", "--hard", &head]);
    let message = server.repo().field("HEAD", "%B");
    server.repo().git(&[
        "-c",
        "user.name=Collectory",
        "-c",
        "user.email=collectory@localhost",
        "commit",
        "--quiet",
        "--allow-empty",
        "--message",
        &message,
    ]);
    let twice = run(server.repo(), &["verify"]).assert_exit_code(1).stdout;
    assert!(twice.contains("already"), "{twice}");
}
