//! Writes that are acknowledged once they are committed here, and pushed afterwards.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use serde_json::json;

use super::{Hub, State, create, folded, link, rewound, state, wait_for_remote_state};
use crate::operating::samples;
use crate::support::{
    CheckedAnswer, EventStream, Repo, Setup, Signal, StreamMessage, TestServer, document, eventually, media,
};

impl Hub {
    /// An instance that acknowledges a write before the remote has it.
    fn local(&self) -> Setup {
        self.polling(200).flag(&["--remote-ack", "local"])
    }
}

/// Waits until everything is pushed; returns the head.
async fn is_pushed(hub: &Hub, server: &TestServer) -> String {
    eventually("everything is pushed", async || {
        let is_there = link(server).await["ahead"] == 0 && Some(server.repo().head()) == hub.head();
        is_there.then(|| server.repo().head())
    })
    .await
}

/// Returns the events of a collection, newest first, as their origin and the new name.
async fn names(server: &TestServer, key: &str) -> Vec<String> {
    let events = server.get(&format!("/events?filter[collection]={key}")).await.is(200).json();
    let described = |event: &serde_json::Value| {
        let attributes = &event["attributes"];
        let changes = attributes["changes"].as_array().unwrap();
        let name =
            changes.iter().find(|change| change["attribute"] == "name").map(|change| change["to"].clone());
        format!("{} {}", attributes["origin"].as_str().unwrap(), name.unwrap_or_default()).replace('"', "")
    };
    events["data"].as_array().unwrap().iter().map(described).collect()
}

#[tokio::test]
async fn a_write_is_answered_while_the_remote_is_away_and_pushed_when_it_is_back() {
    let hub = Hub::with("small");
    let server = hub.local().start().await;
    let head = hub.head();
    hub.make_unreachable();
    let first = server.patch("posts", json!({"name": "Mine"})).await.is(200);
    let second = server.patch("pages", json!({"name": "Mine"})).await.is(200);
    assert_eq!(
        (first.header("collectory-ahead"), second.header("collectory-ahead")),
        ("1".into(), "2".into())
    );
    let state = wait_for_remote_state(&server, "down").await;
    assert_eq!((&state["ack"], &state["ahead"]), (&json!("local"), &json!(2)));
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Mine");
    hub.make_reachable();
    assert_eq!(hub.head(), head);
    let pushed = is_pushed(&hub, &server).await;
    assert_eq!(pushed, second.header("collectory-revision"), "the commits keep their ids");
    assert_eq!(server.read("posts").await.is(200).header("collectory-ahead"), "0");
}

#[tokio::test]
async fn what_waits_is_told_after_a_restart_in_the_other_mode_too() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    hub.make_unreachable();
    server.rename("posts", "Mine").await;
    server.rename("pages", "Mine").await;
    server.stop();
    server.set_flag("--remote-ack", "pushed");
    server.start_again().await;
    let state = wait_for_remote_state(&server, "down").await;
    assert_eq!((&state["ack"], &state["ahead"]), (&json!("pushed"), &json!(2)));
    hub.make_reachable();
    is_pushed(&hub, &server).await;
}

#[tokio::test]
async fn what_was_not_pushed_when_the_service_was_killed_is_pushed_by_the_next() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    hub.make_unreachable();
    let mine = server.rename("posts", "Mine").await;
    server.kill();
    hub.make_reachable();
    server.start_again().await;
    assert_eq!(is_pushed(&hub, &server).await, mine);
}

#[tokio::test]
async fn a_push_under_way_when_the_service_stops_is_waited_for() {
    let hub = Hub::with("small");
    let gate = hub.folder.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut server = hub.local().start().await;
    hub.hook("pre-receive", &format!("read -r line < {}", gate.display()));
    let mine = server.rename("posts", "Mine").await;
    // Opening blocks until the hook opens the other end.
    let mut gate = fs::OpenOptions::new().write(true).open(gate).unwrap();
    server.signal(Signal::TERM);
    server.wait_for_log("shutting down").await;
    gate.write_all(b"go\n").unwrap();
    server.wait_for_exit(0);
    assert_eq!(hub.head(), Some(mine));
}

#[tokio::test]
async fn a_push_that_does_not_end_in_time_ends_with_the_service_and_is_made_by_the_next() {
    let hub = Hub::with("small");
    let mark = hub.folder.path().join("pid");
    let mut server = hub.local().flag(&["--shutdown-grace-ms", "1000"]).start().await;
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", mark.display());
    hub.hook("pre-receive", &script);
    let mine = server.rename("posts", "Mine").await;
    let pid = eventually("the push has come to the hook", async || fs::read_to_string(&mark).ok()).await;
    server.stop();
    eventually("the hook has ended", async || {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    })
    .await;
    hub.no_hook("pre-receive");
    server.start_again().await;
    assert_eq!(is_pushed(&hub, &server).await, mine);
}

#[tokio::test]
async fn what_others_pushed_meanwhile_is_merged_by_attribute() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    let mine = server.rename("posts", "Mine").await;
    server.stop();
    // The other instance must notice the outage before the remote is back.
    wait_for_remote_state(&other, "down").await;
    hub.make_reachable();
    wait_for_remote_state(&other, "up").await;
    let theirs = other.patch("posts", json!({"x-theirs": 1})).await.is(200).header("collectory-revision");
    server.start_again().await;
    let head = is_pushed(&hub, &server).await;
    assert_eq!(hub.parents(), format!("{theirs} {mine}"));
    other.wait_for_revision(&head).await;
    for server in [&server, &other] {
        let served = server.read("posts").await.is(200).attributes();
        assert_eq!((&served["name"], &served["x-theirs"]), (&json!("Mine"), &json!(1)));
        assert_eq!(names(server, "posts").await[..2], ["api Mine", "api null"], "the merge decided nothing");
        assert_eq!(server.get("/problems").await.is(200).data(), json!([]));
    }
}

#[tokio::test]
async fn of_what_both_changed_the_remotes_stays_until_it_is_written_again() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).flag(&["--admin-listen", "127.0.0.1:0"]).start().await;
    hub.make_unreachable();
    server.patch("posts", json!({"name": "Mine", "x-mine": 1})).await.is(200);
    let mine = server.rename("pages", "Mine").await;
    server.stop();
    hub.make_reachable();
    let theirs = hub.push_collection("posts", "Theirs");
    server.start_again().await;
    let head = is_pushed(&hub, &server).await;
    assert_eq!(hub.parents(), format!("{theirs} {mine}"));
    let message = hub.repo.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.contains("Collectory-Conflict: posts name"), "{message}");
    let served = server.read("posts").await.is(200).attributes();
    assert_eq!((&served["name"], &served["x-mine"]), (&json!("Theirs"), &json!(1)));
    assert_eq!(server.read("pages").await.is(200).attributes()["name"], "Mine");
    other.wait_for_revision(&head).await;
    for server in [&server, &other] {
        let event_names = names(server, "posts").await;
        assert_eq!(event_names[..3], ["merge Theirs", "api Mine", "git Theirs"], "{event_names:?}");
        assert_eq!(names(server, "pages").await[0], "api Mine");
        let problem = server.wait_for_problem("conflict:posts/name").await;
        assert_eq!(problem["attributes"]["revision"], head);
        let message = problem["attributes"]["message"].as_str().unwrap();
        assert!(message.ends_with("settle this, and then the one that stays if that is right."), "{message}");
        let blame = server.get("/collections/posts/blame").await.is(200).json();
        let of = |name: &str| {
            blame["data"].as_array().unwrap().iter().find(|it| it["attributes"]["attribute"] == name).cloned()
        };
        assert!(of("x-mine").is_some(), "{blame}");
    }
    assert_eq!(samples(&other).await["collectory_problems"], 1.0);
    server.restart().await;
    server.wait_for_problem("conflict:posts/name").await;
    for name in ["Another", "Theirs"] {
        other.patch("posts", json!({"name": name})).await.is(200);
        server.wait_for_attribute("posts", "name", name).await;
    }
    for server in [&server, &other] {
        server.wait_for_no_problem().await;
    }
}

#[tokio::test]
async fn what_both_changed_stays_told_where_the_collections_stand_at_the_root() {
    let hub = Hub::with("small");
    let mut server = hub.local().flag(&["--path", "."]).start().await;
    create(&server, "posts").await;
    is_pushed(&hub, &server).await;
    hub.make_unreachable();
    server.rename("posts", "Mine").await;
    server.stop();
    hub.make_reachable();
    hub.push_change(|person| person.write("posts.yaml", "type: document\nname: Theirs\n"));
    server.start_again().await;
    is_pushed(&hub, &server).await;
    server.wait_for_problem("conflict:posts/name").await;
    hub.push_change(|person| person.write("posts.yaml", "type: [\n"));
    server.wait_for_problem("posts.yaml").await;
}

#[tokio::test]
async fn what_both_changed_is_settled_by_another_value_and_the_one_that_stays_however_they_come() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    server.patch("posts", json!({"name": "Mine"})).await.is(200);
    server.stop();
    hub.make_reachable();
    let theirs = hub.push_collection("posts", "Theirs");
    server.start_again().await;
    is_pushed(&hub, &server).await;
    for server in [&server, &other] {
        server.wait_for_problem("conflict:posts/name").await;
    }
    // A write that changes nothing leaves nothing that other instances could see.
    server.patch("posts", json!({"name": "Theirs"})).await.is(200);
    server.wait_for_problem("conflict:posts/name").await;
    let settled = hub.push_change(|person| {
        person.write("collections/posts.yaml", "type: document\nname: Another\n");
        person.commit("Another");
        person.git(&["checkout", "--quiet", &theirs, "--", "collections/posts.yaml"]);
    });
    for server in [&server, &other] {
        server.wait_for_revision(&settled).await;
        assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Theirs");
        server.wait_for_no_problem().await;
    }
    server.restart().await;
    server.wait_for_no_problem().await;
}

#[tokio::test]
async fn of_two_types_and_of_two_letter_cases_the_one_that_stays_is_written_to_settle_it() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    hub.make_unreachable();
    server.create(&document("kind", json!({}))).await.is(201);
    server.create(&document("Case", json!({}))).await.is(201);
    server.stop();
    hub.make_reachable();
    hub.push_change(|person| {
        person.write("collections/kind.yaml", "type: media\n");
        person.write("collections/case.yaml", "type: document\n");
    });
    server.start_again().await;
    is_pushed(&hub, &server).await;
    let open = ["conflict:kind/type", "conflict:collections/Case.yaml"];
    for _ in 0..2 {
        for id in open {
            server.wait_for_problem(id).await;
        }
        server.restart().await;
    }
    let renamed = media("kind", json!({"name": "Settled"}));
    server.request("PATCH", "/collections/kind").document(&renamed).send().await.is(200);
    server.patch("case", json!({"name": "Settled"})).await.is(200);
    for _ in 0..2 {
        assert_eq!(server.get("/problems").await.is(200).data(), json!([]));
        server.restart().await;
    }
}

#[tokio::test]
async fn a_collection_that_has_another_of_its_two_names_on_the_remote_is_merged_under_that_name() {
    let hub = Hub::with("small");
    hub.push_collection("moved", "Old");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    server.create(&document("both", json!({"name": "Mine", "directory": "x"}))).await.is(201);
    server.patch("moved", json!({"directory": "mine"})).await.is(200);
    server.stop();
    hub.make_reachable();
    hub.push_change(|person| {
        person.write("collections/both.yml", "type: document\nname: Theirs\nrecursive: true\n");
        person.git(&["mv", "collections/moved.yaml", "collections/moved.yml"]);
        person.write("collections/moved.yml", "type: document\nname: Theirs\n");
    });
    server.start_again().await;
    let head = is_pushed(&hub, &server).await;
    let files = hub.repo.git(&["ls-tree", "--name-only", "main", "collections/"]);
    let named: Vec<&str> =
        files.lines().filter(|it| it.contains("/both.") || it.contains("/moved.")).collect();
    assert_eq!(named, ["collections/both.yml", "collections/moved.yml"]);
    let message = hub.repo.git(&["log", "-1", "--format=%B", "main"]);
    let conflicts: Vec<&str> = message.lines().filter(|it| it.starts_with("Collectory-Conflict")).collect();
    assert_eq!(conflicts, ["Collectory-Conflict: both name"]);
    other.wait_for_revision(&head).await;
    for server in [&server, &other] {
        let both = server.read("both").await.is(200).attributes();
        assert_eq!(
            (&both["name"], &both["directory"], &both["recursive"]),
            (&json!("Theirs"), &json!("x"), &json!(true))
        );
        let moved = server.read("moved").await.is(200).attributes();
        assert_eq!((&moved["name"], &moved["directory"]), (&json!("Theirs"), &json!("mine")));
        assert_eq!(server.get("/problems").await.is(200).ids(), ["conflict:both/name"]);
    }
}

#[tokio::test]
async fn a_file_that_the_remote_broke_is_served_as_it_was_last_good_here_wherever_it_is_asked() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    server.patch("posts", json!({"name": "Ours"})).await.is(200);
    server.stop();
    hub.make_reachable();
    let broken = hub.push_collection("posts", "[broken");
    // The other instance has read the broken file before the merge.
    other.wait_for_revision(&broken).await;
    assert_ne!(other.read("posts").await.is(200).attributes()["name"], "Ours");
    server.start_again().await;
    let head = is_pushed(&hub, &server).await;
    other.wait_for_revision(&head).await;
    let fresh = hub.instance().await;
    for _ in 0..2 {
        for server in [&server, &other, &fresh] {
            let past = server.get("/collections/posts?asOf=HEAD").await.is(200).attributes();
            let now = server.read("posts").await.is(200).attributes();
            assert_eq!((&now["name"], &past["name"]), (&json!("Ours"), &json!("Ours")));
        }
        server.restart().await;
    }
    let later = hub.push_collection("other", "Other");
    other.wait_for_revision(&later).await;
    assert_eq!(other.read("posts").await.is(200).attributes()["name"], "Ours");
}

#[tokio::test]
async fn so_much_may_wait_to_be_pushed_and_no_more() {
    let hub = Hub::with("small");
    let server = hub.local().flag(&["--ahead-commits-max", "2"]).start().await;
    hub.make_unreachable();
    for name in ["1", "2"] {
        server.patch("posts", json!({"name": name})).await.is(200);
    }
    let refused = server.patch("posts", json!({"name": "3"})).await.is(503);
    let detail = refused.json()["errors"][0]["detail"].to_string();
    assert!(detail.contains("--ahead-commits-max is 2"), "{detail}");
    hub.make_reachable();
    is_pushed(&hub, &server).await;
    server.patch("posts", json!({"name": "3"})).await.is(200);
}

#[tokio::test]
async fn what_waited_to_be_pushed_still_counts_after_a_restart_without_the_remote() {
    let hub = Hub::with("small");
    let mut server = hub.local().flag(&["--ahead-commits-max", "2"]).start().await;
    hub.make_unreachable();
    for name in ["1", "2"] {
        server.patch("posts", json!({"name": name})).await.is(200);
    }
    server.restart().await;
    assert_eq!(link(&server).await["ahead"], 2);
    assert_eq!(server.read("posts").await.is(200).header("collectory-ahead"), "2");
    server.patch("posts", json!({"name": "3"})).await.is(503);
    hub.make_reachable();
    is_pushed(&hub, &server).await;
}

#[tokio::test]
async fn the_first_commits_of_two_instances_over_an_empty_remote_are_merged() {
    let hub = Hub::empty();
    let (one, other) = (hub.local().start().await, hub.local().start().await);
    create(&one, "posts").await;
    create(&other, "pages").await;
    for server in [&one, &other] {
        eventually("both have both", async || (server.list().await.is(200).ids().len() == 2).then_some(()))
            .await;
    }
}

/// Requests a new collection with an idempotency key.
async fn ask(server: &TestServer) -> CheckedAnswer {
    let body = document("new", json!({"name": "New"}));
    let asked = server.request("POST", "/collections").header("Idempotency-Key", "once").document(&body);
    asked.send().await.is(201)
}

#[tokio::test]
async fn a_request_under_a_name_is_known_when_its_commit_came_in_by_a_merge() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    let first = ask(&server).await;
    server.stop();
    hub.make_reachable();
    hub.push_collection("posts", "Theirs");
    server.start_again().await;
    let head = is_pushed(&hub, &server).await;
    other.wait_for_revision(&head).await;
    for server in [&server, &other] {
        let again = ask(server).await;
        assert_eq!(again.header("collectory-revision"), first.header("collectory-revision"));
    }
}

#[tokio::test]
async fn a_reader_of_the_stream_goes_on_over_a_merge_from_either_side() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    let other = hub.polling(100).start().await;
    hub.make_unreachable();
    let mine = server.rename("posts", "Mine").await;
    server.stop();
    hub.make_reachable();
    let theirs = hub.push_collection("posts", "Theirs");
    let more = hub.push_collection("pages", "Theirs");
    server.start_again().await;
    let merge = is_pushed(&hub, &server).await;
    other.wait_for_revision(&merge).await;
    for server in [&server, &other] {
        let heard = |from: &str, count: usize| -> Vec<String> {
            let mut stream = EventStream::open(server.address(), "", Some(from));
            let revision =
                |heard: StreamMessage| heard.data["attributes"]["revision"].as_str().unwrap().to_owned();
            (0..count).map(|_| revision(stream.next_event())).collect()
        };
        assert_eq!(heard(&mine, 3), [theirs.clone(), more.clone(), merge.clone()]);
        assert_eq!(heard(&theirs, 3), [more.clone(), mine.clone(), merge.clone()]);
        assert_eq!(heard(&more, 2), [mine.clone(), merge.clone()]);
        let since = server.get(&format!("/events?filter[since]={mine}")).await.is(200).json();
        assert_eq!(since["data"].as_array().unwrap().len(), 3, "{since}");
    }
}

/// Two instances that write separately, one of them without the remote, and are then merged.
struct Apart {
    hub: Hub,
    server: TestServer,
    other: TestServer,
    /// The heads from which a reader may resume, and the state served there.
    known: Vec<(String, State)>,
}

impl Apart {
    /// Starts both with `posts`, `pages`, `gone` and `kept`, and takes the remote away.
    async fn begun() -> Self {
        let hub = Hub::with("small");
        let (server, other) = (hub.local().start().await, hub.polling(100).start().await);
        create(&other, "gone").await;
        let before = create(&other, "kept").await;
        server.wait_for_revision(&before).await;
        let known = vec![(before, state(&other).await)];
        hub.make_unreachable();
        Self { hub, server, other, known }
    }

    /// Ends the first instance's writes: stops it and brings the remote back.
    async fn alone(&mut self) {
        self.known.push((self.server.repo().head(), state(&self.server).await));
        self.server.stop();
        wait_for_remote_state(&self.other, "down").await;
        self.hub.make_reachable();
        wait_for_remote_state(&self.other, "up").await;
    }

    /// Ends the other instance's writes and merges. Returns the merge, and the events of the merge and after it that
    /// readers receive, for the collections of which the merge has events.
    async fn together(&mut self) -> (String, Vec<String>) {
        self.known.push((self.other.repo().head(), state(&self.other).await));
        self.server.start_again().await;
        let merge = is_pushed(&self.hub, &self.server).await;
        self.other.wait_for_revision(&merge).await;
        let last = self.other.patch("posts", json!({"x-last": 1})).await.is(200);
        let last = last.header("collectory-revision");
        self.server.wait_for_revision(&last).await;
        let mut conflicts: Option<Vec<(String, String)>> = None;
        for server in [&self.server, &self.other] {
            for (from, begun) in &self.known {
                let mut stream = EventStream::open(server.address(), "", Some(from));
                let mut heard = Vec::new();
                while heard.last().is_none_or(|it: &StreamMessage| it.data["attributes"]["revision"] != *last)
                {
                    heard.push(stream.next_event());
                }
                let events = heard.iter().map(|heard| &heard.data["attributes"]);
                assert_eq!(folded(begun.clone(), events), state(server).await, "from {from}: {heard:?}");
                let of_merge = heard.iter().filter(|it| it.data["attributes"]["revision"] == *merge);
                let named = |it: &StreamMessage| {
                    let key = it.data["attributes"]["collection"].as_str().unwrap();
                    (it.data["id"].to_string(), format!("{} {key}", it.event))
                };
                let of_merge: Vec<_> = of_merge.map(named).collect();
                assert_eq!(
                    conflicts.get_or_insert_with(|| of_merge.clone()),
                    &of_merge,
                    "the same everywhere"
                );
            }
        }
        (merge, conflicts.unwrap().into_iter().map(|(_, conflicts)| conflicts).collect())
    }
}

#[tokio::test]
async fn a_stream_over_a_merge_that_decided_nothing_leads_to_what_is_served_without_an_event_of_it() {
    let mut apart = Apart::begun().await;
    apart.server.patch("posts", json!({"name": "Mine"})).await.is(200);
    apart.server.patch("pages", json!({"x-same": 1})).await.is(200);
    apart.server.create(&document("new", json!({"name": "Mine"}))).await.is(201);
    apart.alone().await;
    apart.other.patch("posts", json!({"x-theirs": 1})).await.is(200);
    apart.other.patch("pages", json!({"x-same": 1, "x-theirs": 1})).await.is(200);
    apart.other.delete("gone").await.is(204);
    let (merge, conflicts) = apart.together().await;
    assert_eq!(conflicts, [""; 0]);
    for server in [&apart.server, &apart.other] {
        let events = server.get("/events?filter[origin]=merge").await.is(200).json();
        assert_eq!(events["data"], json!([]));
        let past = server.get(&format!("/collections/posts?asOf={merge}")).await.is(200).attributes();
        assert_eq!((&past["name"], &past["x-theirs"]), (&json!("Mine"), &json!(1)));
        let blame = server.get("/collections/posts/blame").await.is(200).json().to_string();
        assert!(!blame.contains(&merge), "{blame}");
    }
}

#[tokio::test]
async fn a_stream_over_a_merge_leads_to_what_it_decided_from_whichever_side_it_is_read() {
    let mut apart = Apart::begun().await;
    apart.server.patch("posts", json!({"name": "Mine", "x-mine": 1})).await.is(200);
    apart.server.patch("pages", json!({"x-mine": 1})).await.is(200);
    apart.server.delete("gone").await.is(204);
    apart.server.patch("kept", json!({"x-mine": 1})).await.is(200);
    apart.server.create(&document("new", json!({"name": "New", "x-mine": 1}))).await.is(201);
    apart.alone().await;
    apart.other.patch("posts", json!({"name": "Theirs", "x-theirs": 1})).await.is(200);
    apart.other.patch("pages", json!({"x-theirs": 1})).await.is(200);
    apart.other.patch("gone", json!({"x-theirs": 1})).await.is(200);
    apart.other.delete("kept").await.is(204);
    apart.other.create(&document("new", json!({"name": "New", "x-theirs": 1}))).await.is(201);
    let (merge, conflicts) = apart.together().await;
    assert_eq!(conflicts, ["created gone", "created kept", "updated new", "updated posts"]);
    let message = apart.hub.repo.git(&["log", "-1", "--format=%B", &merge]);
    assert!(message.contains("Collectory-Conflict: posts name"), "{message}");
    for server in [&apart.server, &apart.other] {
        server.wait_for_problem("conflict:posts/name").await;
        let blame = server.get("/collections/posts/blame").await.is(200).json().to_string();
        assert!(blame.contains(&merge), "{blame}");
    }
    // Undoing reverts what the merge decided; the remote's other changes stay.
    let events =
        apart.server.get("/events?filter[origin]=merge&filter[collection]=posts").await.is(200).json();
    let id = events["data"][0]["id"].as_str().unwrap().to_owned();
    apart.server.undo(&id).await.is(201);
    let served = apart.server.read("posts").await.is(200).attributes();
    assert_eq!((&served["name"], &served["x-theirs"]), (&json!("Mine"), &json!(1)));
}

/// Pushes a person's change to the repository of an instance.
fn push_change_here(hub: &Hub, server: &TestServer, change: impl FnOnce(&Repo)) -> String {
    let here = Repo::at(hub.folder.path().join("here"));
    server.repo().git(&["clone", "--quiet", ".", here.path().to_str().unwrap()]);
    here.configure_user();
    change(&here);
    let commit = here.commit("Here");
    here.git(&["push", "--quiet", "origin", "HEAD"]);
    commit
}

#[tokio::test]
async fn files_that_are_no_collections_are_merged_as_git_merges_them() {
    let hub = Hub::with("small");
    let lines = |first: &str, last: &str| format!("{first}\n1\n2\n3\n4\n5\n{last}\n");
    let both = |first: &str, last: &str, word: &str| {
        let (notes, both) = (lines(first, last), format!("{word}\n"));
        move |person: &Repo| {
            person.write("notes.txt", &notes);
            person.write("both.txt", &both);
        }
    };
    let before = hub.push_change(both("a", "z", "a"));
    let mut server = hub.local().start().await;
    server.wait_for_revision(&before).await;
    server.stop();
    let mine = push_change_here(&hub, &server, both("mine", "z", "mine"));
    hub.push_change(both("a", "theirs", "theirs"));
    server.start_again().await;
    let merge = is_pushed(&hub, &server).await;
    assert_eq!(hub.repo.git(&["rev-parse", &format!("{merge}^2")]), mine);
    assert_eq!(hub.repo.git(&["show", "main:notes.txt"]), lines("mine", "theirs").trim());
    assert_eq!(hub.repo.git(&["show", "main:both.txt"]), "theirs");
    server.wait_for_problem("conflict:both.txt").await;
}

#[tokio::test]
async fn a_folder_on_one_side_where_the_other_has_a_collection_takes_nothing_away_without_a_word() {
    let hub = Hub::with("small");
    let mut server = hub.local().start().await;
    hub.make_unreachable();
    server.create(&document("shadow", json!({"name": "Mine"}))).await.is(201);
    server.stop();
    hub.make_reachable();
    hub.push_change(|person| person.write("collections/shadow.yaml/x.txt", "keep me"));
    server.start_again().await;
    is_pushed(&hub, &server).await;
    assert_eq!(hub.repo.git(&["show", "main:collections/shadow.yaml/x.txt"]), "keep me");
    server.wait_for_problem("conflict:collections/shadow.yaml").await;
    for path in ["/collections/shadow", "/collections/shadow?asOf=HEAD"] {
        assert_eq!(server.get(path).await.is(200).attributes()["name"], "Mine", "its last good version");
    }
    server.stop();
    let mine = push_change_here(&hub, &server, |here| here.write("collections/turned.yaml/x.txt", "mine"));
    hub.push_collection("turned", "Theirs");
    server.start_again().await;
    let merge = is_pushed(&hub, &server).await;
    assert_eq!(hub.repo.git(&["rev-parse", &format!("{merge}^2")]), mine);
    assert_eq!(server.read("turned").await.is(200).attributes()["name"], "Theirs");
    server.wait_for_problem("conflict:collections/turned.yaml/x.txt").await;
}

#[tokio::test]
async fn a_refusal_before_a_lost_race_and_one_after_it_are_not_taken_for_a_remote_that_refuses() {
    let hub = Hub::with("small");
    let before = hub.head().unwrap();
    let other = hub.repo.git(&["commit-tree", "-m", "Other", "-p", &before, "main^{tree}"]);
    let (repo, pushes) = (hub.url(), hub.repo.path().join("pushes"));
    let lose = format!("env -i PATH=\"$PATH\" git -C {repo} update-ref refs/heads/main {other}");
    let pushes = pushes.display();
    hub.hook(
        "pre-receive",
        &format!("echo >> {pushes}; case $(wc -l < {pushes}) in 1 | 3) exit 1;; 2) {lose};; esac"),
    );
    let server = hub.local().start().await;
    let mine = server.rename("posts", "Mine").await;
    is_pushed(&hub, &server).await;
    assert_eq!(hub.parents(), format!("{other} {mine}"));
    let log = server.log();
    assert!(!log.contains("the remote refuses what is pushed"), "{log}");
}

/// Returns the subjects of the commits on the remote, newest first.
fn subjects(hub: &Hub) -> String {
    hub.repo.git(&["log", "--format=%s", "main"])
}

/// Makes the remote accept nothing but merges.
fn takes_merges_only(hub: &Hub) {
    let is_merge = "while read -r old new ref; do git rev-parse --quiet --verify $new^2 || exit 1; done";
    hub.hook("pre-receive", is_merge);
}

#[tokio::test]
async fn accepting_a_remote_that_was_not_rewritten_takes_no_acknowledged_write_back() {
    let hub = Hub::with("small");
    let server = hub.local().start().await;
    hub.hook("pre-receive", "echo closed; exit 1");
    let mine = server.rename("posts", "Mine").await;
    wait_for_remote_state(&server, "refused").await;
    let answer = server.request("POST", "/remote/accept").send().await.is(200);
    assert_eq!(answer.json()["meta"]["revision"], mine);
    assert_eq!(answer.header("collectory-ahead"), "1");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Mine");
    server.wait_for_no_problem().await;
    hub.no_hook("pre-receive");
    assert_eq!(is_pushed(&hub, &server).await, mine, "it is pushed, with its id");
}

#[tokio::test]
async fn what_waits_to_be_pushed_stays_when_what_a_rewritten_remote_has_lost_is_restored() {
    let hub = Hub::with("small");
    let (server, gone) = rewound(&hub, &["--remote-ack", "local"]).await;
    takes_merges_only(&hub);
    let mine = server.rename("pages", "Mine").await;
    wait_for_remote_state(&server, "refused").await;
    server.request("POST", "/remote/restore").send().await.is(200);
    is_pushed(&hub, &server).await;
    let history = hub.repo.git(&["rev-list", "main"]);
    assert!(history.contains(&gone) && history.contains(&mine), "{}", subjects(&hub));
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Gone");
    assert_eq!(server.read("pages").await.is(200).attributes()["name"], "Mine");
    server.wait_for_no_problem().await;
}
