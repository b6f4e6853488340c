//! `log`, `show`, `diff`, `blame` and `verify`.

use std::io::BufRead as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{first_parents, told};
use crate::support::{Finished, Repo, TestServer, program, run_to_end};

fn run(repo: &Repo, arguments: &[&str]) -> Finished {
    let path = repo.path().to_str().unwrap();
    let folder = repo.path().parent().unwrap_or(Path::new("/"));
    run_to_end(program(folder).args(arguments).args(["--repo", path]))
}

fn lines(finished: &Finished) -> Vec<Value> {
    finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_log_tells_what_the_api_tells_with_and_without_a_service() {
    let mut server = told().await;
    let events = server.get("/events").await.is(200).data();
    let beside = run(server.repo(), &["log", "--json"]).exits(0);
    assert_eq!(json!(lines(&beside)), events);
    server.stop();
    let alone = run(server.repo(), &["log", "--json"]).exits(0);
    assert_eq!(alone.stdout, beside.stdout);
    assert_eq!(alone.stderr, "", "there is nothing to tell of a short reading");
    let text = run(server.repo(), &["log", "posts", "-n", "2"]).exits(0).stdout;
    assert!(text.contains("updated posts") && text.contains("Because I can."), "{text}");
    assert!(!text.contains('\u{1b}'), "colour is for terminals: {text}");
    assert_eq!(lines(&run(server.repo(), &["log", "--origin", "api", "--json"]).exits(0)).len(), 2);
    run(server.repo(), &["log", "never"]).exits(1);
    run(server.repo(), &["log", "--action", "made"]).exits(2);
}

#[tokio::test]
async fn one_commit_a_difference_and_blame_are_shown() {
    let server = told().await;
    let revisions = first_parents(&server);
    let show = run(server.repo(), &["show", &revisions[2]]).exits(0).stdout;
    assert!(show.contains("Spring clean-up") && show.contains("\"Posts\" -> \"All posts\""), "{show}");
    let by_hand = run(server.repo(), &["show", "HEAD~1"]).exits(0).stdout;
    assert!(by_hand.contains("Rename by hand") && by_hand.contains("Because I can."), "{by_hand}");
    let diff = run(server.repo(), &["diff", &revisions[3], "main", "posts"]).exits(0).stdout;
    assert!(diff.contains("updated posts") && diff.contains("~ recursive: true -> false"), "{diff}");
    assert_eq!(run(server.repo(), &["diff", &revisions[3], "main", "pages"]).exits(0).stdout, "");
    let patch = run(server.repo(), &["diff", &revisions[3], "main", "--text"]).exits(0).stdout;
    assert!(patch.contains("+++ b/collections/posts.yaml"), "{patch}");
    let blame = lines(&run(server.repo(), &["blame", "posts", "--json"]).exits(0));
    assert_eq!(json!(blame), server.get("/collections/posts/blame").await.is(200).data());
}

#[tokio::test]
async fn a_reader_that_has_had_enough_is_no_failure() {
    let mut server = told().await;
    server.stop();
    for n in 0..40 {
        server
            .repo()
            .write("collections/pages.yaml", &format!("type: document\nname: {}\n", "n".repeat(900 + n)));
        server.repo().commit("More than a pipe holds");
    }
    let path = server.repo().path().to_str().unwrap();
    for arguments in [&["log"][..], &["log", "--json"]] {
        let mut child = program(server.folder())
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
    let mut server = TestServer::on("small").await;
    server.stop();
    let repo = server.repo();
    repo.git(&["checkout", "--quiet", "-b", "side"]);
    repo.write("collections/side.yaml", "type: media\n");
    let side = repo.commit("On the side");
    repo.git(&["checkout", "--quiet", "main"]);
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "Merge", "side"]);
    assert!(run(repo, &["show", "main"]).exits(0).stdout.contains("created side"));
    assert!(run(repo, &["show", &side]).exits(1).stderr.contains("by a merge"));
}

#[tokio::test]
async fn verification_finds_trailers_that_lie() {
    let server = told().await;
    let sound = run(server.repo(), &["verify"]).exits(0);
    assert_eq!(sound.stdout.lines().count(), 4, "{sound:#?}");
    server.repo().write("collections/pages.yaml", "type: document\nname: Forged\n");
    let head = server.repo().commit("Update posts: name\n\nCollectory-Action: collection.updated\nCollectory-Key: posts\nCollectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e");
    server.serves(&head).await;
    let forged = run(server.repo(), &["verify", "--json"]).exits(1);
    let last = lines(&forged).pop().unwrap();
    assert_eq!((last["revision"].as_str(), last["maker"].as_str()), (Some(head.as_str()), Some("person")));
    assert!(last["disagreements"].as_array().unwrap().len() >= 2, "{last}");
    run(server.repo(), &["verify", &format!("{head}..")]).exits(0);
    run(server.repo(), &["verify", &format!("..{}", &head[..9])]).exits(1);
}

#[tokio::test]
async fn a_message_drives_no_terminal() {
    let server = TestServer::on("small").await;
    server.repo().write("collections/pages.yaml", "type: document\nname: X\n");
    let head = server.repo().commit("Subject\n\nRed \u{1b}[31m text");
    server.serves(&head).await;
    let text = run(server.repo(), &["log"]).exits(0).stdout;
    assert!(text.contains("Red") && !text.contains('\u{1b}'), "{text}");
}
