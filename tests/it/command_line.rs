//! The program on the command line: help, exit codes, environment variables, logs, and the other commands.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{
    Auth, Process, Repo, Signal, TestServer, collectory_command, document, eventually, run, run_to_end,
};

#[test]
fn help_and_version_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), &["--help"]).assert_exit_code(0);
    for command in ["serve", "init", "check", "token"] {
        assert!(help.stdout.contains(command), "{}", help.stdout);
        let own = run(folder.path(), &[command, "--help"]).assert_exit_code(0);
        assert!(own.stdout.contains("Usage: collectory "), "{}", own.stdout);
    }
    assert!(run(folder.path(), &["--version"]).assert_exit_code(0).stdout.starts_with("collectory "));
    let serve = run(folder.path(), &["serve", "--help"]).assert_exit_code(0).stdout;
    for flag in [
        "--auth",
        "--repo",
        "--branch",
        "--path",
        "--listen",
        "--base-path",
        "--uncommitted",
        "--log-format",
        "--shutdown-grace-ms",
    ] {
        assert!(serve.contains(flag), "{flag} in:\n{serve}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &[][..],
        &["nonsense"],
        &["serve", "--auth", "none", "--nonsense"],
        &["serve", "--auth", "none", "--listen", "nowhere"],
        &["serve", "--auth", "none", "--uncommitted", "perhaps"],
        &["serve", "--auth", "none", "--body-bytes-max", "many"],
        &["serve", "--auth", "none", "--branch", "HEAD"],
        &["serve", "--auth", "none", "--branch=-x"],
        &["log", "--branch", "main~1"],
        &["serve", "--auth", "none", "--path", "../x"],
        &["serve", "--auth", "none", "--path", "/x"],
        &["serve", "--auth", "none", "--path", ".."],
        &["serve", "--auth", "none", "--path", "a/../../b"],
        &["serve", "--auth", "none", "--path", ".git/collections"],
        &["serve", "--auth", "none", "--branch", "no branch"],
        &["check", "--path", ".git"],
        &["init", "--path", "a//b", "made"],
        &["log", "--branch", "a..b"],
        &["token"],
    ] {
        let finished = run(folder.path(), arguments).assert_exit_code(2);
        assert!(!finished.stderr.is_empty(), "{arguments:?}");
        assert_eq!(finished.stdout, "", "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn whoever_has_read_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    let hash = format!("sha256:{}", "9f".repeat(32));
    let policy = format!("tokens:\n- {{name: Mara, hash: {hash}, may: [read], keys: ['*']}}\n");
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    for arguments in [
        &["export", "--repo", "."][..],
        &["completions", "bash"],
        &["schema"],
        &["list", "--repo", "."],
        &["doctor", "--repo", "."],
        &["token", "list", "--policy", "../policy.yaml"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = collectory_command(repo.path()).args(arguments).stdout(writer).output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn a_variable_that_is_none_of_ours_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = collectory_command(folder.path());
    let finished = run_to_end(serve.arg("serve").env("COLLECTORY_LISTN", "127.0.0.1:0")).assert_exit_code(2);
    assert!(finished.stderr.contains("there is no variable COLLECTORY_LISTN"), "{}", finished.stderr);
}

#[test]
fn an_address_that_is_taken_is_said_and_makes_no_repository() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = run(folder.path(), &["serve", "--auth", "none", "--listen", &address]).assert_exit_code(1);
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    assert!(!folder.path().join("settings").exists());
}

#[test]
fn a_start_without_auth_names_the_three_choices() {
    let folder = tempfile::tempdir().unwrap();
    let finished = run(folder.path(), &["serve"]).assert_exit_code(2);
    for choice in ["none", "allow-all", "FILE"] {
        assert!(finished.stderr.contains(choice), "{choice} in: {}", finished.stderr);
    }
    assert!(!folder.path().join("settings").exists());
}

#[tokio::test]
async fn every_flag_has_a_variable() {
    let setup = TestServer::setup("small")
        .environment("COLLECTORY_BASE_PATH", "/from/environment")
        .environment("COLLECTORY_BODY_BYTES_MAX", "100000")
        .environment("COLLECTORY_COMMITTER_NAME", "Environment")
        .environment("COLLECTORY_LOG_FORMAT", "json");
    let server = setup.start_without_waiting();
    let client = server.client();
    eventually("the service is ready", async || {
        let answer = client.request("GET", "/from/environment/readyz").attempt().await?;
        (answer.status() == 200).then_some(())
    })
    .await;
    client.get("/from/environment/collections").await.is(200);
    let large = document("a-key", json!({"name": "x".repeat(200_000)}));
    client.request("POST", "/from/environment/collections").document(&large).send().await.is(413);
    client.request("DELETE", "/from/environment/collections/posts").send().await.is(204);
    assert_eq!(server.repo().field("HEAD", "%cn"), "Environment");
    for line in server.log().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[tokio::test]
async fn a_flag_wins_over_its_variable() {
    let setup = TestServer::setup("small").environment("COLLECTORY_BODY_BYTES_MAX", "100000");
    let server = setup.flag(&["--body-bytes-max", "1000000"]).start().await;
    let mut padded = document("new", json!({}));
    padded["meta"] = json!("x".repeat(200_000));
    server.create(&padded).await.is(201);
}

#[tokio::test]
async fn json_logs_are_json_and_hold_no_secrets() {
    let setup =
        TestServer::setup("small").auth(Auth::Policy("tokens: []\n".into())).flag(&["--log-format", "json"]);
    let mut server = setup.start().await;
    server.with_token("very-secret-token").list().await.is(401);
    let log = server.stop();
    assert!(!log.contains("very-secret-token"), "{log}");
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(!lines.is_empty());
    assert!(lines.iter().all(|line| line["level"].is_string()), "{log}");
}

#[tokio::test]
async fn both_signals_stop_the_service_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = TestServer::start("small").await;
        server.patch("posts", json!({"name": "Stopped"})).await.is(200);
        server.signal(signal);
        server.wait_for_exit(0);
    }
}

#[tokio::test]
async fn a_signal_that_comes_twice_at_once_is_one() {
    let mut server = TestServer::start("small").await;
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let body = json!({"data": {"type": "document-collection", "id": "posts", "attributes": {"name": "x"}}});
    let body = body.to_string();
    let head = format!(
        "PATCH /collections/posts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.api+json\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The service asks for the body, so the request is in progress.
    stream.read_exact(&mut [0; 1]).unwrap();
    // `timeout` also sends the signal twice without a pause.
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    server.wait_for_log("shutting down").await;
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    server.wait_for_exit(0);
}

#[test]
fn a_hook_is_installed_only_where_git_looks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.bare_clone(folder.path().join("bare"));
    let refused = run(folder.path(), &["init", "bare", "--hook"]).assert_exit_code(1);
    assert!(refused.stderr.contains("has no work tree"), "{}", refused.stderr);
    repo.git(&["config", "core.hooksPath", ".hooks"]);
    let refused = run(folder.path(), &["init", "r", "--hook"]).assert_exit_code(1);
    assert!(refused.stderr.contains("collectory check --staged ."), "{}", refused.stderr);
    assert!(refused.stderr.contains(".hooks (core.hooksPath)"), "{}", refused.stderr);
    assert!(!repo.has(".git/hooks/pre-commit"));
}

#[test]
fn names_and_addresses_that_git_would_alter_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--auth", "none", "--repo", "r", "--listen", "127.0.0.1:0"];
    for flag in [["--committer-email", "a<b"], ["--committer-name", "<"], ["--committer-name", "anonymous"]] {
        run(folder.path(), &[&serve[..], &flag[..]].concat()).assert_exit_code(2);
    }
    for (name, email, said) in [
        ("N", "not an email <", "can't be an e-mail address in git"),
        ("Mara: # \"O'Neil\"\n  - name: Evil", "mara@example.org", "can't be the name of an author in git"),
    ] {
        let token = ["token", name, "--policy", "p.yaml", "--email", email];
        let refused = run(folder.path(), &token).assert_exit_code(1);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    assert!(!folder.path().join("p.yaml").exists());
}

#[test]
fn init_makes_a_repository_with_a_commented_example() {
    let folder = tempfile::tempdir().unwrap();
    let finished = run(folder.path(), &["init", "mine"]).assert_exit_code(0);
    let repo = Repo::at(folder.path().join("mine"));
    repo.fsck();
    assert_eq!(repo.status(), "");
    assert_eq!(repo.commit_count(), 1);
    let files = repo.git(&["ls-tree", "-r", "--name-only", "HEAD", "collections/"]);
    let example = files.lines().next().unwrap_or_else(|| panic!("{finished:?}"));
    assert!(repo.read(example).contains("# "), "{}", repo.read(example));
    run(folder.path(), &["check", "mine"]).assert_exit_code(0);
    run(folder.path(), &["init", "mine"]).assert_exit_code(1);
    assert_eq!(repo.commit_count(), 1);
}

#[tokio::test]
async fn what_init_made_can_be_served() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["init", "mine"]).assert_exit_code(0);
    let server = TestServer::setup("").repository(&folder.path().join("mine")).start().await;
    assert!(!server.list().await.is(200).ids().is_empty());
    assert_eq!(server.get("/problems").await.is(200).ids(), [""; 0]);
}

#[test]
fn check_reports_each_problem_as_compilers_do() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "broken");
    let finished = run(folder.path(), &["check", "r"]).assert_exit_code(1);
    let lines: Vec<_> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", finished.stdout);
    for (line, path) in lines.iter().zip(["collections/broken.yaml", "collections/typo.yaml"]) {
        let (place, message) = line.split_once(": ").unwrap();
        let parts: Vec<_> = place.rsplitn(3, ':').collect();
        assert!(parts[2].ends_with(path), "{line}");
        assert!(parts[0].parse::<usize>().unwrap() >= 1 && parts[1].parse::<usize>().unwrap() >= 1, "{line}");
        assert!(!message.is_empty());
    }
    assert!(lines[1].contains("nmae") || lines[1].contains("name"), "{}", lines[1]);
    let bare = repo.bare_clone(folder.path().join("bare"));
    let of_the_branch =
        run_to_end(collectory_command(folder.path()).arg("check").arg(bare.path())).assert_exit_code(1);
    assert_eq!(of_the_branch.stdout.lines().count(), 2, "{}", of_the_branch.stdout);
}

#[test]
fn check_reads_the_work_tree_and_says_nothing_when_all_is_well() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    assert_eq!(run(repo.path(), &["check", "."]).assert_exit_code(0).stdout, "");
    repo.write("collections/new.yaml", "type: nonsense\n");
    let finished = run(folder.path(), &["check", "r"]).assert_exit_code(1);
    assert!(finished.stdout.contains("collections/new.yaml:1:"), "{}", finished.stdout);
    run(folder.path(), &["check", "nowhere"]).assert_exit_code(1);
    let unknown = run(folder.path(), &["check", "--rev", "no-branch", "r"]).assert_exit_code(1);
    assert!(unknown.stderr.contains("there is no commit `no-branch` in r"), "{}", unknown.stderr);
}

#[test]
fn check_reads_just_the_files_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.write("collections/bad.yaml", "type: document\nname:Posts\nnmae: x\n");
    repo.write("collections/worse.yaml", "type: nonsense\n");
    let problems = run(folder.path(), &["check", "r/collections/bad.yaml"]).assert_exit_code(1).stdout;
    let places: Vec<_> = problems.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["collections/bad.yaml:2:5", "collections/bad.yaml:3:1"], "{problems}");
    run(&repo.path().join("collections"), &["check", "posts.yaml"]).assert_exit_code(0);
    let other =
        run(repo.path(), &["check", "collections/posts.yaml", "collections/worse.yaml"]).assert_exit_code(1);
    assert_eq!(other.stdout.lines().count(), 1, "{}", other.stdout);
    std::fs::write(folder.path().join("posts.yaml"), "type: document\n").unwrap();
    let outside = run(folder.path(), &["check", "--repo", "r", "posts.yaml"]).assert_exit_code(1);
    assert!(outside.stderr.contains("posts.yaml is not in"), "{}", outside.stderr);
    run(folder.path(), &["check", "r", "r/collections"]).assert_exit_code(2);
}

#[test]
fn check_names_a_file_as_git_does_however_the_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    for (path, file) in [(".", "bad.yaml"), ("collections/", "collections/bad.yaml")] {
        repo.write(file, "type: document\nname:Posts\n");
        for arguments in [&["check", "--path", path][..], &["check", "--path", path, file]] {
            let problems = run(repo.path(), arguments).assert_exit_code(1).stdout;
            assert!(problems.starts_with(&format!("{file}:2:5: ")), "{problems}");
        }
    }
    repo.write("other.YAML", "type: document\n");
    let hinted = run(repo.path(), &["check", "--path", ".", "other.YAML"]).stderr;
    assert!(hinted.contains("hint: other.YAML is not read"), "{hinted}");
}

#[test]
fn check_finds_the_repository_from_within() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "broken");
    for inside in [repo.path().to_owned(), repo.path().join("collections")] {
        for arguments in [&["check"][..], &["check", "."]] {
            let found = run(&inside, arguments).assert_exit_code(1);
            assert_eq!(found.stdout.lines().count(), 2, "{}", found.stdout);
        }
    }
    let nowhere = run(folder.path(), &["check"]).assert_exit_code(1);
    assert!(nowhere.stderr.contains("--repo"), "{}", nowhere.stderr);
}

#[test]
fn check_tells_of_a_folder_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    let bare = repo.bare_clone(folder.path().join("bare"));
    let of_bare = ["check", "--path", "nope", bare.path().to_str().unwrap()];
    for arguments in
        [&["check", "--path", "nope", "r"][..], &["check", "--path", "nope", "--rev", "HEAD", "r"], &of_bare]
    {
        let missing = run(folder.path(), arguments).assert_exit_code(1);
        assert!(missing.stderr.contains("there is no folder `nope`"), "{}", missing.stderr);
    }
    repo.git(&["init", "--quiet", "../new"]);
    run(folder.path(), &["check", "new"]).assert_exit_code(0);
}

#[test]
fn check_tells_programs_each_problem_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    repo.write("collections/posts.yaml", "type: document\nname: @x\n");
    let problems = run(folder.path(), &["check", "--json", "r"]).assert_exit_code(1).json_lines();
    let expected = json!({
        "path": "collections/posts.yaml", "line": 2, "column": 7, "collection": "posts", "kind": "file",
        "message": "a text that begins with `@` needs quotes: \"@x\"", "serving": "last-good",
    });
    assert_eq!(problems, [expected]);
}

#[test]
fn a_format_means_the_same_wherever_something_is_printed_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    repo.write("collections/posts.yaml", "type: document\nname: @x\n");
    std::fs::write(folder.path().join("new.json"), r#"{"data": []}"#).unwrap();
    let plan = ["import", "new.json", "--prune", "--dry-run"];
    for command in [&["check"][..], &["doctor"], &plan, &["export"], &["list"], &["log"]] {
        let code = i32::from(command == ["check"]);
        let printed = |flags: &[&str]| {
            let printed = run(folder.path(), &[command, flags].concat()).assert_exit_code(code).stdout;
            // `doctor` measures anew how long a flush takes.
            printed.split_inclusive('\n').filter(|line| !line.contains("a flush takes")).collect::<String>()
        };
        let json = printed(&["--json"]);
        assert!(json.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{command:?}: {json}");
        assert_eq!(printed(&["--format", "json"]), json, "{command:?}");
    }
    for command in [&["check"][..], &["doctor"], &plan, &["show", "HEAD"], &["verify"]] {
        let refused = run(folder.path(), &[command, &["--format", "csv"]].concat()).assert_exit_code(2);
        let message = "collectory: only list, get, log and export know --format csv\n";
        assert_eq!((refused.stdout.as_str(), refused.stderr.as_str()), ("", message), "{command:?}");
    }
}

#[test]
fn check_hints_at_files_that_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    let names = ["NEWS.YAML", "news.yaml.txt", "sub/inner.yaml"];
    std::fs::create_dir(repo.path().join("collections/sub")).unwrap();
    for name in names {
        repo.write(&format!("collections/{name}"), "type: document\n");
    }
    let checked = run(folder.path(), &["check", "r"]).assert_exit_code(0);
    assert_eq!(checked.stdout, "");
    for name in names {
        let hint = format!("hint: collections/{name} is not read; ");
        assert!(checked.stderr.contains(&hint), "{}", checked.stderr);
    }
    let named = run(folder.path(), &["check", "r/collections/NEWS.YAML"]).assert_exit_code(0);
    assert!(named.stderr.contains("hint: collections/NEWS.YAML is not read; "), "{}", named.stderr);
}

#[test]
fn check_needs_no_branch() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("r"), "small");
    run(folder.path(), &["init", "r", "--hook"]).assert_exit_code(0);
    repo.git(&["checkout", "--quiet", "--detach"]);
    for arguments in [&["check", "r"][..], &["check", "r", "--staged"], &["check", "r", "--rev", "HEAD"]] {
        assert_eq!(run(folder.path(), arguments).assert_exit_code(0).stdout, "", "{arguments:?}");
    }
    repo.write("collections/new.yaml", "type: nonsense\n");
    assert!(run(folder.path(), &["check", "r"]).assert_exit_code(1).stdout.contains("new.yaml:1:"));
    run(folder.path(), &["check", "r", "--staged"]).assert_exit_code(0);
    repo.git(&["add", "--all"]);
    run(folder.path(), &["check", "r", "--staged"]).assert_exit_code(1);
    let mistyped = run(folder.path(), &["check", "r", "--branch", "mian"]).assert_exit_code(1);
    assert!(mistyped.stderr.contains("no branch `mian` but `main`"), "{}", mistyped.stderr);
    run(folder.path(), &["serve", "--auth", "none", "--repo", "r", "--listen", "127.0.0.1:0"])
        .assert_exit_code(1);
}

#[test]
fn a_token_is_printed_once_and_only_its_hash_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let one =
        run(folder.path(), &["token", "Mara", "--policy", "policy.yaml", "--email", "mara@example.org"])
            .assert_exit_code(0);
    let two =
        run(folder.path(), &["token", "Ben", "--policy", "policy.yaml", "--may", "read"]).assert_exit_code(0);
    assert_ne!(one.stdout, two.stdout);
    let text = std::fs::read_to_string(folder.path().join("policy.yaml")).unwrap();
    let policy: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(policy["tokens"].as_array().map(Vec::len), Some(2));
    assert_eq!(policy["tokens"][0]["name"], "Mara");
    assert_eq!(policy["tokens"][0]["email"], "mara@example.org");
    assert_eq!(policy["tokens"][1]["may"], json!(["read"]));
    for finished in [one, two] {
        assert_eq!(finished.stdout.lines().count(), 1);
        let secret = finished.stdout.trim();
        assert!(secret.len() >= 32 && !text.contains(secret));
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &folder.path().join("policy.yaml").metadata().unwrap().permissions(),
    );
    assert_eq!(mode & 0o002, 0, "others can't write it");
}

#[test]
fn a_token_is_added_however_the_list_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    let hash = format!("sha256:{}", "0".repeat(64));
    for old in [
        format!("tokens: [{{name: A, hash: \"{hash}\", may: [read]}}] # all\n"),
        format!("tokens: [ # all\n  {{name: A, hash: \"{hash}\", may: [read]}}, # one\n]\n"),
        "# all\n".to_owned(),
    ] {
        std::fs::write(&path, &old).unwrap();
        let added = run(folder.path(), &["token", "Mara", "--policy", "policy.yaml"]).assert_exit_code(0);
        assert_eq!(added.stdout.lines().count(), 1);
        let text = std::fs::read_to_string(&path).unwrap();
        let policy: Value = serde_yaml::from_str(&text).unwrap();
        let tokens = policy["tokens"].as_array().unwrap();
        assert_eq!(tokens.last().unwrap()["name"], "Mara");
        assert!(text.contains("# all"), "{text}");
    }
}

#[test]
fn the_repository_is_settings_unless_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("settings")).unwrap();
    std::fs::write(folder.path().join("settings/letter.txt"), "Dear").unwrap();
    let refused =
        run(folder.path(), &["serve", "--auth", "none", "--listen", "127.0.0.1:0"]).assert_exit_code(1);
    assert!(refused.stderr.contains("settings"), "{}", refused.stderr);
    let elsewhere =
        run_to_end(collectory_command(folder.path()).env("COLLECTORY_REPO", "settings/letter.txt").args([
            "serve",
            "--auth",
            "none",
            "--listen",
            "127.0.0.1:0",
        ]));
    assert!(elsewhere.assert_exit_code(1).stderr.contains("letter.txt"));
}

#[test]
fn a_service_listens_on_a_socket_for_its_owner_and_group() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut command = collectory_command(folder.path());
    command.args(["serve", "--auth", "none", "--listen"]).arg(format!("unix:{}", path.display()));
    let service = Process::spawn(&mut command);
    assert_eq!(service.ready, format!("listening on unix:{}\n", path.display()));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /collections HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    service.stop();
    assert!(!path.exists(), "nothing is left");
    let service = Process::spawn(&mut command);
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    service.stop();
    assert!(path.exists(), "the socket of another service stays");
}

#[test]
fn an_open_service_that_everybody_reaches_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = collectory_command(folder.path());
    command.args(["serve", "--auth", "allow-all", "--listen", ":0"]);
    let log = Process::spawn(&mut command).stop();
    assert!(log.contains("everybody who reaches this address may do everything"), "{log}");
}
