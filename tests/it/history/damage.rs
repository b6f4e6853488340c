//! A history with damaged, lost or too large objects: what needs them reports that, and everything else works.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{RawRequest, Repo, TestServer, collectory_command, restore_document, run_to_end};

const WHO: &str = "Mara <mara@example.org> 1700000000 +0000";

/// A truncated object, restored when this is dropped, because the repository is checked then.
struct Cut {
    file: PathBuf,
    whole: Vec<u8>,
}

impl Drop for Cut {
    fn drop(&mut self) {
        drop(fs::write(&self.file, &self.whole));
    }
}

/// Truncates an object to its first half, as a power cut may.
#[must_use]
fn cut(repo: &Repo, name: &str) -> Cut {
    let file = repo.object_file(name);
    let whole = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    Cut { file, whole }
}

/// Writes a commit byte for byte and points the branch at it.
fn put_commit(server: &TestServer, text: &str) -> String {
    let file = server.folder().join("commit");
    fs::write(&file, text).unwrap();
    let id = server.repo().git(&["hash-object", "-t", "commit", "-w", "--literally", file.to_str().unwrap()]);
    server.repo().git(&["update-ref", "refs/heads/main", &id]);
    id
}

/// Returns the answer of `/diff` as text.
fn text_difference(server: &TestServer, from: &str, to: &str) -> String {
    let path = format!("/diff?filter[from]={from}&filter[to]={to}");
    let text = RawRequest::new("GET", &path).header("Accept", "text/x-diff").send(server.address());
    assert_eq!(text.status(), 200);
    String::from_utf8(text.body).unwrap()
}

async fn events(server: &TestServer) -> Vec<Value> {
    server.get("/events?page[size]=100").await.is(200).data().as_array().unwrap().clone()
}

fn of<'a>(events: &'a [Value], revision: &str, key: &str) -> &'a Value {
    let is_it = |event: &&Value| {
        event["attributes"]["revision"] == revision && event["attributes"]["collection"] == key
    };
    &events.iter().find(is_it).unwrap()["attributes"]
}

#[tokio::test]
async fn a_cut_content_of_the_past_is_a_problem_of_its_event_and_everything_else_goes_on() {
    let server = TestServer::start("small").await;
    let seed = server.repo().head();
    server.repo().write("collections/posts.yaml", "type: document\nname: Lost\n");
    let lost = server.repo().commit("Lost");
    server.repo().write("collections/posts.yaml", "type: document\nname: After\n");
    let after = server.repo().commit("After");
    server.wait_for_revision(&after).await;
    let _cut = cut(server.repo(), &format!("{lost}:collections/posts.yaml"));
    let events = events(&server).await;
    let problem = of(&events, &lost, "posts")["problem"].to_string();
    assert!(problem.contains("corrupt"), "{problem}");
    assert!(of(&events, &after, "posts")["changes"].is_array());
    let past = server.get(&format!("/collections/posts?asOf={lost}")).await.is(200);
    assert_eq!(past.attributes()["name"], "Posts", "the last good version then");
    assert_eq!(server.get(&format!("/collections?asOf={lost}")).await.is(200).ids().len(), 3);
    server.get(&format!("/diff?filter[from]={seed}&filter[to]={after}")).await.is(200);
    let text = text_difference(&server, &seed, &lost);
    assert!(
        text.contains("Binary files a/collections/posts.yaml and b/collections/posts.yaml differ"),
        "{text}"
    );
    for path in ["/sync-token", "/collections/posts/events", "/collections/posts/blame"] {
        server.get(path).await.is(200);
    }
    server.patch("posts", json!({"name": "Written"})).await.is(200);
}

#[tokio::test]
async fn a_content_that_is_cut_harms_what_was_served_of_its_collection_only() {
    let mut server = TestServer::start("small").await;
    let seed = server.repo().head();
    server.patch("posts", json!({"name": "After"})).await.is(200);
    let update = server.newest_event("posts").await;
    server.patch("pages", json!({"name": "Others"})).await.is(200);
    server.stop();
    let _cut = cut(server.repo(), &format!("{seed}:collections/posts.yaml"));
    server.start_again().await;
    assert_eq!(server.get(&format!("/collections?asOf={seed}")).await.is(200).ids(), ["images", "pages"]);
    let listed = run_to_end(
        collectory_command(server.folder()).args(["list", "--at", &seed, "--repo"]).arg(server.repo().path()),
    );
    assert_eq!(listed.assert_exit_code(0).stdout.lines().count(), 2);
    let page = |path: &str| {
        let page = RawRequest::new("GET", path).header("Accept", "text/html").send(server.address());
        assert_eq!(page.status(), 200, "{path}");
        String::from_utf8(page.body).unwrap()
    };
    assert!(page(&format!("/ui/problems?asOf={seed}")).contains("collections/posts.yaml"));
    let detail = server.get(&format!("/collections/posts?asOf={seed}")).await.is(503).detail();
    assert!(detail.contains("lacks its content"), "{detail}");
    for (from, to) in [(seed.as_str(), "HEAD"), ("HEAD", &seed)] {
        let answer = server.get(&format!("/diff?filter[from]={from}&filter[to]={to}")).await.is(200);
        assert_eq!(answer.ids(), ["pages", "posts"]);
        assert_eq!(answer.data()[0]["attributes"]["changes"][0]["attribute"], "name");
        let lost = &answer.data()[1]["attributes"];
        assert_eq!((&lost["action"], lost.get("changes")), (&json!("updated"), None));
        assert_eq!(lost["problem"]["path"], "collections/posts.yaml");
        assert!(lost["problem"]["message"].to_string().contains("corrupt"), "{lost}");
    }
    assert!(page(&format!("/ui/compare?from={seed}&to=HEAD")).contains("corrupt"));
    let same = server.get(&format!("/diff?filter[from]={seed}&filter[to]={seed}")).await.is(200);
    assert_eq!(same.ids().len(), 0, "it is the same file");
    // Undo would have to restore the lost file; treating that file as absent would delete the present one.
    server.undo(&update).await.is(503);
    let restore = restore_document(&seed);
    server.request("POST", "/collections/posts/restore").document(&restore).send().await.is(503);
    server.get(&format!("/collections/pages?asOf={seed}")).await.is(200);
    server.get(&format!("/diff?filter[from]={seed}&filter[to]=HEAD&filter[collection]=pages")).await.is(200);
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "After");
}

#[tokio::test]
async fn a_cut_object_ends_no_command_and_no_start() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let _cut = cut(server.repo(), "HEAD:collections/posts.yaml");
    let path = server.repo().path().to_str().unwrap().to_owned();
    let run = |arguments: &[&str]| run_to_end(collectory_command(server.folder()).args(arguments));
    let checked = run(&["check", &path]).assert_exit_code(1);
    assert!(checked.stdout.contains("collections/posts.yaml:1:1: "), "{}", checked.stdout);
    assert!(checked.stdout.contains("corrupt"), "{}", checked.stdout);
    run(&["log", "--repo", &path]).assert_exit_code(0);
    let lost = server.repo().git(&["rev-parse", "HEAD:collections/posts.yaml"]);
    let verified = run(&["verify", "--repo", &path]).assert_exit_code(1);
    assert!(verified.stdout.contains(&format!("{lost}: object corrupt or missing")), "{}", verified.stdout);
    server.start_again().await;
    server.wait_for_problem("collections/posts.yaml").await;
    server.read("pages").await.is(200);
    server.patch("pages", json!({"name": "Written"})).await.is(200);
}

#[tokio::test]
async fn a_new_head_whose_content_is_cut_is_a_problem_of_its_collection_and_stops_no_writer() {
    let server = TestServer::setup("small").bare().start().await;
    let seed = server.repo().tip("main").unwrap();
    let text = "type: document\nname: Lost\n";
    server.repo().fast_import(&format!(
        "commit refs/heads/made\ncommitter {WHO}\ndata 1\nx\nfrom {seed}\n\
         M 100644 inline collections/posts.yaml\ndata {}\n{text}\n",
        text.len()
    ));
    let _cut = cut(server.repo(), "made:collections/posts.yaml");
    server.repo().git(&["update-ref", "refs/heads/main", "made"]);
    let problem = server.wait_for_problem("collections/posts.yaml").await;
    assert!(problem.to_string().contains("corrupt"), "{problem}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts", "the last good one");
    server.patch("pages", json!({"name": "Written"})).await.is(200);
}

#[tokio::test]
async fn a_commit_with_two_trees_has_what_git_says_and_is_told_to_be_damaged() {
    let server = TestServer::setup("small").bare().start().await;
    let seed = server.repo().tip("main").unwrap();
    let tree_with = |name: &str| {
        server.repo().fast_import(&format!(
            "commit refs/heads/{name}\ncommitter {WHO}\ndata 1\nx\nfrom {seed}\n\
             M 100644 inline collections/posts.yaml\ndata {}\ntype: document\nname: {name}\n\n",
            "type: document\nname: \n".len() + name.len()
        ));
        server.repo().git(&["rev-parse", &format!("{name}^{{tree}}")])
    };
    let (reviewed, evil) = (tree_with("Reviewed"), tree_with("Evil"));
    let lost = "1".repeat(40);
    let mut made = Vec::new();
    for second in [&evil, &lost] {
        let head = server.repo().tip("main").unwrap();
        let id = put_commit(
            &server,
            &format!("tree {reviewed}\nparent {head}\nauthor {WHO}\ntree {second}\ncommitter {WHO}\n\nTwo\n"),
        );
        server.wait_for_revision(&id).await;
        assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Reviewed");
        let past = server.get(&format!("/collections/posts?asOf={id}")).await.is(200);
        assert_eq!(past.attributes()["name"], "Reviewed");
        server.get("/sync-token").await.is(200);
        let all = events(&server).await;
        assert!(!Value::from(all.clone()).to_string().contains("Evil"));
        if second == &evil {
            assert!(of(&all, &id, "posts")["problem"].to_string().contains("missingCommitter"));
        }
        made.push(id);
    }
    let path = server.repo().path().to_str().unwrap().to_owned();
    let verified =
        run_to_end(collectory_command(server.folder()).args(["verify", "--repo", &path])).assert_exit_code(1);
    assert!(verified.stdout.contains("missingCommitter"), "{}", verified.stdout);
    // The repository must be sound when it is checked at the end.
    server.repo().git(&["update-ref", "refs/heads/main", &seed]);
    server.wait_for_revision(&seed).await;
    made.iter().for_each(|id| fs::remove_file(server.repo().object_file(id)).unwrap());
}

/// Runs `collectory verify` on a repository that no service is serving.
fn verified(server: &TestServer, code: i32) -> String {
    let path = server.repo().path().to_str().unwrap().to_owned();
    run_to_end(collectory_command(server.folder()).args(["verify", "--repo", &path]))
        .assert_exit_code(code)
        .stdout
}

#[tokio::test]
async fn verify_says_which_commit_is_too_large_to_be_checked_and_goes_on() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let seed = server.repo().tip("main").unwrap();
    let tree = server.repo().git(&["rev-parse", "main^{tree}"]);
    let commit = |parent: &str, headers: &str, message: &str| {
        put_commit(
            &server,
            &format!("tree {tree}\nparent {parent}\nauthor {WHO}\ncommitter {WHO}\n{headers}\n{message}\n"),
        )
    };
    let long = |subject: &str| format!("{subject}\n\n{}", "x".repeat(65 << 20));
    let unsigned = commit(&seed, "", &long("Large"));
    let signed = commit(&unsigned, "gpgsig -----BEGIN SSH SIGNATURE-----\n", &long("Larger"));
    let next = commit(&signed, "", "Next");
    let verdicts = verified(&server, 0);
    let expected = [
        format!("{} person unsigned ok Large", &unsigned[..10]),
        format!("{} person signed, not checked ok Larger", &signed[..10]),
        format!("{} person unsigned ok Next", &next[..10]),
    ];
    let lines: Vec<_> = verdicts.lines().filter(|line| !line.starts_with(' ')).skip(1).collect();
    assert_eq!(lines, expected);
    assert!(verdicts.contains("is not checked; `git verify-commit` does"), "{verdicts}");
}

#[tokio::test]
async fn verify_says_of_each_commit_what_fsck_says_of_what_it_brings() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let repo = server.repo();
    let seed = repo.tip("main").unwrap();
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    let commit = |parent: &str, people: &str| {
        put_commit(&server, &format!("tree {tree}\nparent {parent}\n{people}\n\nOdd\n"))
    };
    let mut parent = seed.clone();
    let mut made = Vec::new();
    for (fault, author) in [
        ("badTimezone", "E <e@x> 1700000000 +99999"),
        ("badDate", "E <e@x> -5 +0000"),
        ("badDateOverflow", "E <e@x> 99999999999999999999 +0000"),
        ("zeroPaddedDate", "E <e@x> 01700000000 +0000"),
        ("missingEmail", "E 1700000000 +0000"),
        ("missingNameBeforeEmail", "<e@x> 1700000000 +0000"),
        ("missingSpaceBeforeEmail", "E<e@x> 1700000000 +0000"),
        ("badEmail", "E <e<x> 1700000000 +0000"),
        ("nulInHeader", "E\0 <e@x> 1700000000 +0000"),
    ] {
        parent = commit(&parent, &format!("author {author}\ncommitter {WHO}"));
        made.push((fault, parent.clone()));
    }
    let sound = commit(&parent, &format!("author {WHO}\ncommitter {WHO}"));
    let verdicts = verified(&server, 1);
    for (fault, id) in &made {
        let lines = verdicts.lines().skip_while(|line| !line.starts_with(&id[..10]));
        let said = lines.skip(1).take_while(|line| line.starts_with("  ! ")).collect::<String>();
        assert!(said.contains(&format!("error in commit {id}: {fault}")), "{fault}: {verdicts}");
    }
    assert_eq!(verdicts.matches(" ok ").count(), 2, "{verdicts}");
    let path = repo.path().to_str().unwrap().to_owned();
    let ranged = |range: &str| {
        let mut command = collectory_command(server.folder());
        run_to_end(command.args(["verify", "--json", range, "--repo", &path]))
    };
    ranged(&format!("{parent}..")).assert_exit_code(0);
    ranged(&seed).assert_exit_code(0);
    let first = ranged(&format!("{seed}..{}", made[0].1)).assert_exit_code(1).stdout;
    let first: Value = serde_json::from_str(&first).unwrap();
    assert!(first["disagreements"][0].to_string().contains("badTimezone"), "{first}");
    // Without git this damage can't be detected, and the command says so.
    let mut command = collectory_command(server.folder());
    let blind = run_to_end(command.env("PATH", "").args(["verify", &format!("{parent}.."), "--repo", &path]));
    assert!(blind.assert_exit_code(0).stderr.contains("`git fsck` was not run"));
    // The repository must be sound when it is checked at the end.
    repo.git(&["update-ref", "refs/heads/main", &seed]);
    let ids = made.iter().map(|(_, id)| id).chain([&sound]);
    ids.for_each(|id| fs::remove_file(repo.object_file(id)).unwrap());
}

#[tokio::test]
async fn verify_tells_of_a_tree_whose_entries_are_not_in_order() {
    let mut server = TestServer::setup("small").bare().start().await;
    server.stop();
    let repo = server.repo();
    let seed = repo.tip("main").unwrap();
    let put_tree = |entries: &[(&str, &str, &str)]| {
        let bytes = |id: &str| -> Vec<u8> {
            (0..20).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect()
        };
        let entry = |(mode, name, id): &(&str, &str, &str)| {
            [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &bytes(id)].concat()
        };
        let file = server.folder().join("tree");
        fs::write(&file, entries.iter().flat_map(entry).collect::<Vec<_>>()).unwrap();
        repo.git(&["hash-object", "-t", "tree", "-w", "--literally", file.to_str().unwrap()])
    };
    let blob = repo.git(&["rev-parse", "main:collections/posts.yaml"]);
    let folder = put_tree(&[("100644", "posts.yaml", &blob), ("100644", "news.yaml", &blob)]);
    let root = put_tree(&[("40000", "collections", &folder)]);
    let commit = |parent: &str| {
        let text = format!("tree {root}\nparent {parent}\nauthor {WHO}\ncommitter {WHO}\n\nUnsorted\n");
        put_commit(&server, &text)
    };
    let unsorted = commit(&seed);
    let same = commit(&unsorted);
    let verdicts = verified(&server, 1);
    assert_eq!(verdicts.matches("treeNotSorted").count(), 1, "{verdicts}");
    assert!(verdicts.contains(&format!("error in tree {folder}: treeNotSorted")), "{verdicts}");
    assert!(
        verdicts.lines().any(|line| line.starts_with(&same[..10]) && line.contains(" ok ")),
        "{verdicts}"
    );
    // The repository must be sound when it is checked at the end.
    repo.git(&["update-ref", "refs/heads/main", &seed]);
    [&unsorted, &same, &root, &folder].iter().for_each(|id| fs::remove_file(repo.object_file(id)).unwrap());
}

#[tokio::test]
async fn a_committed_file_that_is_too_large_is_the_problem_that_a_saved_one_is() {
    let server = TestServer::setup("small").bare().start().await;
    let seed = server.repo().tip("main").unwrap();
    let long = format!("type: document\n#{}\n", "x".repeat(8 << 20));
    server.repo().fast_import(&format!(
        "commit refs/heads/main\ncommitter {WHO}\ndata 1\nx\nfrom {seed}\n\
         M 100644 inline collections/posts.yaml\ndata {}\n{long}\n",
        long.len()
    ));
    let said = server.wait_for_problem("collections/posts.yaml").await["attributes"].to_string();
    assert!(said.contains("more than the 65536 bytes"), "{said}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts", "the last good one");
    let events = events(&server).await;
    let head = server.repo().tip("main").unwrap();
    assert!(of(&events, &head, "posts")["problem"].to_string().contains("more than the 65536 bytes"));
    let text = text_difference(&server, &seed, &head);
    assert!(text.len() < 2000 && text.contains("Binary files"), "{text}");
}

#[tokio::test]
async fn a_revision_that_no_file_could_be_called_is_400() {
    let server = TestServer::start("small").await;
    for name in ["f".repeat(41), "f".repeat(300), "x".repeat(300), "x".repeat(5000)] {
        server.get(&format!("/collections?asOf={name}")).await.is(400);
        server.get(&format!("/diff?filter[from]={name}&filter[to]=main")).await.is(400);
    }
}
