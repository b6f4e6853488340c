//! The admin listener.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{
    Auth, EventStream, Repo, Setup, TestServer, collectory_command, document, eventually, eventually_status,
    git_daemon, raw_exchange, run_to_end,
};

const POLICY: &str = "tokens:\n";

fn setup() -> Setup {
    TestServer::setup("small").flag(&["--admin-listen", "127.0.0.1:0"])
}

/// Returns the address of the admin listener, from the log.
fn admin(server: &TestServer) -> SocketAddr {
    let log = server.log();
    let line = log.lines().find(|line| line.contains("metrics are at")).expect("it is told where");
    let at = line.split("at=http://").nth(1).expect("an address").split_whitespace().next();
    at.and_then(|at| at.parse().ok()).expect("an address")
}

/// Fetches a page of the admin listener: its status, its media type and its text.
async fn page(server: &TestServer, path: &str, accept: &str) -> (u16, String, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}{path}", admin(server));
    let answer = client.get(url).header("Accept", accept).send().await.unwrap();
    let media_type = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), media_type, answer.text().await.unwrap())
}

/// Returns the samples of `/metrics`, by name and labels as they are written.
pub(crate) async fn samples(server: &TestServer) -> BTreeMap<String, f64> {
    let (status, _, text) = page(server, "/metrics", "*/*").await;
    assert_eq!(status, 200, "{text}");
    promtool(&text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// Asserts that Prometheus's `promtool` finds nothing wrong with a page.
fn promtool(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Without `promtool`, the names are still compared.
    let Ok(mut promtool) = promtool.spawn() else { return };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let all = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && all.is_empty(), "{}", String::from_utf8_lossy(&all));
}

#[tokio::test]
async fn requests_are_counted_by_route_method_and_class_of_status() {
    let server = setup().start().await;
    server.read("posts").await.is(200);
    server.read("nobody").await.is(404);
    server.get("/nowhere").await.is(404);
    let about = reqwest::get(format!("http://{}/ui/about", server.address())).await.unwrap();
    assert_eq!(about.status(), 200);
    server.patch("posts", json!({"name": "All posts"})).await.is(200);
    server.patch("posts", json!({"name": "All posts"})).await.is(200);
    let samples = samples(&server).await;
    let of = |name: &str, labels: &str| samples.get(&format!("{name}{{{labels}}}")).copied();
    let requests = |labels: &str| of("collectory_http_requests_total", labels);
    let read = r#"route="/collections/{key}",method="GET",status="2xx""#;
    assert_eq!(requests(read), Some(1.0), "{samples:#?}");
    assert_eq!(requests(r#"route="/collections/{key}",method="GET",status="4xx""#), Some(1.0));
    assert_eq!(requests(r#"route="/collections/{key}",method="PATCH",status="2xx""#), Some(2.0));
    assert_eq!(requests(r#"route="none",method="GET",status="4xx""#), Some(1.0));
    assert_eq!(requests(r#"route="/ui/",method="GET",status="2xx""#), Some(1.0));
    assert_eq!(of("collectory_http_request_duration_seconds_count", read), Some(1.0));
    let in_flight = of("collectory_http_requests_in_flight", r#"route="/collections/{key}",method="GET""#);
    assert_eq!(in_flight, Some(0.0));
    assert_eq!(of("collectory_commits_total", r#"origin="api""#), Some(1.0), "the second changed nothing");
    assert_eq!(of("collectory_commit_duration_seconds_count", r#"origin="api""#), Some(1.0));
    assert_eq!(samples["collectory_group_commits_count"], 1.0);
    assert!(of("collectory_flush_duration_seconds_count", r#"step="file""#) > Some(0.0));
    assert!(!samples.keys().any(|name| name.contains("posts") || name.contains("nowhere")));
}

#[tokio::test]
async fn every_metric_of_the_readme_is_shown() {
    let server = setup().auth(Auth::AllowAll).start().await;
    server.list().await.is(200);
    let stream = EventStream::open(server.address(), "", None);
    let (_, _, text) = page(&server, "/metrics", "*/*").await;
    let readme = include_str!("../../../README.md");
    let table = readme.split("### Metrics").nth(1).and_then(|rest| rest.split("\n### ").next()).unwrap();
    let names: Vec<&str> = table
        .split('`')
        .filter(|name| name.starts_with("collectory_") || name.starts_with("process_"))
        .filter(|name| !name.contains("remote") && !name.contains('{'))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} in {text}");
    }
    assert!(text.contains("collectory_subscribers 1\n"), "{text}");
    let build = format!("collectory_build_info{{version=\"{}\",revision=", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&build), "{text}");
    assert!(
        text.contains("collectory_authorizations_total{action=\"list\",outcome=\"allowed\"} 1\n"),
        "{text}"
    );
    drop(stream);
}

#[tokio::test]
async fn openmetrics_is_sent_to_those_who_ask_for_it() {
    let server = setup().start().await;
    let (_, media_type, text) = page(&server, "/metrics", "application/openmetrics-text;version=1.0.0").await;
    assert_eq!(media_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.ends_with("# EOF\n") && text.contains("# TYPE collectory_commits counter\n"), "{text}");
    let (_, media_type, text) = page(&server, "/metrics", "text/plain").await;
    assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!text.contains("# EOF") && text.contains("# TYPE collectory_commits_total counter\n"), "{text}");
}

#[tokio::test]
async fn what_passes_between_a_service_and_its_remote_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Repo::seeded(folder.path().join("seed"), "small").bare_clone(folder.path().join("hub.git"));
    let daemon = git_daemon(folder.path());
    let url = format!("git://127.0.0.1:{}/hub.git", daemon.1);
    let with = |flags: &[&str]| {
        let setup = TestServer::setup("").without_repository().flag(&[
            "--admin-listen",
            "127.0.0.1:0",
            "--remote",
            &url,
        ]);
        setup.flag(&["--remote-insecure"]).flag(flags)
    };
    // This instance learns nothing of the remote before it pushes.
    let (one, other) = (
        with(&["--remote-poll-ms", "0"]).deaf().start().await,
        with(&["--remote-poll-ms", "50"]).start().await,
    );
    let written = other.patch("posts", json!({"name": "First"})).await.is(200);
    assert_eq!(Some(written.header("collectory-revision")), hub.tip("main"));
    let raced = one.patch("pages", json!({"name": "Second"})).await.is(200).header("collectory-revision");
    other.wait_for_revision(&raced).await;
    let (here, there) = (samples(&one).await, samples(&other).await);
    let pushes = |samples: &BTreeMap<String, f64>, outcome: &str| {
        samples[&format!("collectory_remote_push_duration_seconds_count{{outcome=\"{outcome}\"}}")]
    };
    let of = |samples| ["ok", "lost", "refused", "unknown"].map(|outcome| pushes(samples, outcome));
    assert_eq!((of(&here), of(&there)), ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]));
    assert_eq!((here["collectory_remote_races_total"], there["collectory_remote_races_total"]), (1.0, 0.0));
    assert!(here["collectory_remote_push_duration_seconds_sum{outcome=\"ok\"}"] > 0.0);
    assert!(
        here["collectory_remote_fetch_duration_seconds_count"] >= 2.0,
        "at the start, and after the race"
    );
    assert_eq!(here["collectory_remote_propagation_seconds_count"], 1.0, "what the other one has written");
    assert_eq!((there["collectory_remote_up"], there["collectory_remote_ahead_commits"]), (1.0, 0.0));
    let stale = with(&["--max-staleness-ms", "1000", "--remote-poll-ms", "600000"]).start().await;
    eventually_status("too long ago", 503, async || stale.get("/readyz").await).await;
    assert!(samples(&stale).await["collectory_limit_reached_total{limit=\"max_staleness_ms\"}"] >= 1.0);
    let [attempt, success] =
        ["attempt", "success"].map(|what| there[&format!("collectory_remote_last_{what}_timestamp_seconds")]);
    assert!(attempt > 1e9 && success > 1e9);
    let hook = hub.path().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    one.patch("posts", json!({"name": "No"})).await.is(503);
    let here = samples(&one).await;
    assert_eq!(here["collectory_remote_up"], 0.0);
    assert!(pushes(&here, "refused") >= 1.0);
    let readme = include_str!("../../../README.md");
    let names =
        readme.split('`').filter(|name| name.starts_with("collectory_remote_") && !name.contains('{'));
    let (_, _, text) = page(&one, "/metrics", "*/*").await;
    for name in names {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} in {text}");
    }
}

#[tokio::test]
async fn hand_edits_and_commits_of_others_are_counted() {
    let server = setup().start().await;
    server.repo().write_by_rename(
        "collections/drafts.yaml",
        "type: document\nname: Pages\ndirectory: content/pages\n",
    );
    eventually("it is live", async || (server.read("drafts").await.status() == 200).then_some(())).await;
    let before = samples(&server).await;
    assert_eq!(before["collectory_hand_edits_total{kind=\"saved\"}"], 1.0);
    assert_eq!(before["collectory_uncommitted"], 1.0);
    server.repo().commit("Pages");
    let committed = async || {
        let now = samples(&server).await;
        (now["collectory_commits_total{origin=\"git\"}"] == 1.0).then_some(now)
    };
    let after = eventually("the commit is counted", committed).await;
    assert_eq!(after["collectory_uncommitted"], 0.0);
    assert_eq!(after["collectory_hand_edits_total{kind=\"committed\"}"], 1.0);
    assert!(after["collectory_revision_timestamp_seconds"] > 1e9);
}

#[tokio::test]
async fn limits_that_are_reached_are_counted() {
    let policy = Auth::Policy(POLICY.to_owned());
    let flags = ["--body-bytes-max", "65536", "--json-depth-max", "8", "--wrong-tokens-per-s-max", "1"];
    let server = setup().flag(&flags).start().await;
    let deep = (0..9).fold(json!(1), |inner, _| json!([inner]));
    server.create(&deep).await.is(400);
    server.create(&json!("x".repeat(65_537))).await.is(413);
    server.get(&format!("/collections?{}", "x".repeat(20_000))).await.is(414);
    let now = samples(&server).await;
    let times = |limit: &str| now[&format!("collectory_limit_reached_total{{limit=\"{limit}\"}}")];
    assert_eq!([times("json_depth_max"), times("body_bytes_max"), times("uri_bytes_max")], [1.0; 3]);
    assert_eq!(times("queue_len_max"), 0.0);
    // The web page counts too.
    let form = server.request("POST", "/ui/new").header("Sec-Fetch-Site", "same-origin");
    assert_eq!(form.form("x".repeat(65_537)).send().await.status, 413);
    let now = samples(&server).await;
    assert_eq!(now["collectory_limit_reached_total{limit=\"body_bytes_max\"}"], 2.0);

    let server = setup().auth(policy).flag(&flags).start().await;
    for status in [401, 429] {
        server.with_token("wrong").list().await.is(status);
    }
    let now = samples(&server).await;
    assert_eq!(now["collectory_limit_reached_total{limit=\"wrong_tokens_per_s_max\"}"], 1.0);
    assert_eq!(now["collectory_authorizations_total{action=\"list\",outcome=\"denied\"}"], 1.0);
    let page = crate::ui::get_page(&server, "/sign-in", 200).await;
    let body = crate::ui::filled(&page, &[("secret", "wrong")]);
    eventually("too many wrong tokens come at once", async || {
        let sign_in = server.request("POST", "/ui/sign-in").header("Sec-Fetch-Site", "same-origin");
        (sign_in.form(body.clone()).send().await.status == 429).then_some(())
    })
    .await;
    let now = samples(&server).await;
    assert!(now["collectory_limit_reached_total{limit=\"wrong_tokens_per_s_max\"}"] > 1.0);
}

#[tokio::test]
async fn what_is_too_much_for_a_page_a_collection_or_a_file_is_counted() {
    let server = setup().flag(&["--writer-busy-ms-max", "0"]).start().await;
    server.get("/collections?page[size]=101&page[number]=1").await.is(200);
    server.get("/collections?page[offset]=0&page[limit]=100").await.is(200);
    server.get("/events?page[size]=99999999999999999999").await.is(200);
    let many =
        |count: usize| (0..count).map(|n| (format!("x-{n}"), json!(n))).collect::<serde_json::Map<_, _>>();
    server.create(&document("full", json!(many(256)))).await.is(201);
    server.create(&document("over", json!(many(257)))).await.is(400);
    let lines: String = (0..30).map(|n| format!("a{n}: 1\n")).collect();
    server.repo().write("collections/wrong.yaml", &format!("type: document\n{lines}"));
    let lines: String = (0..257).map(|n| format!("x-{n}: 1\n")).collect();
    server.repo().write("collections/wide.yaml", &format!("type: document\n{lines}"));
    let now = eventually("the files are read", async || {
        let now = samples(&server).await;
        (now["collectory_problems"] == 21.0).then_some(now)
    })
    .await;
    let times = |limit: &str| now[&format!("collectory_limit_reached_total{{limit=\"{limit}\"}}")];
    assert_eq!(times("page_size_max"), 2.0);
    assert_eq!(times("attributes_max"), 2.0, "in a request and in a file");
    assert_eq!(times("problems_per_file_max"), 1.0);
    assert!(times("writer_busy_ms_max") >= 2.0, "without anybody who asks /readyz");
    ["wide", "wrong"].iter().for_each(|name| server.repo().remove(&format!("collections/{name}.yaml")));
}

/// Flags that are not limits: intervals, waiting times, retention, and the number of threads.
const NO_LIMITS: [&str; 8] = [
    "heartbeat_ms",
    "idempotency_retention_s",
    "policy_age_ms_max",
    "policy_quiet_ms",
    "settle_patience_ms",
    "settle_quiet_ms",
    "tick_ms",
    "worker_threads",
];

#[tokio::test]
async fn every_named_limit_is_counted() {
    let server = setup().start().await;
    let help =
        run_to_end(collectory_command(server.folder()).args(["serve", "--help"])).assert_exit_code(0).stdout;
    let section = help.split("\nLimits:\n").nth(1).expect("the limits have a heading");
    let section = section.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
    let flags = section.filter_map(|line| line.trim().strip_prefix("--")?.split(' ').next());
    let flags: Vec<String> = flags.map(|flag| flag.replace('-', "_")).collect();
    assert!(flags.len() > 20, "{help}");
    let capabilities = server.get("/capabilities").await.is(200).json();
    let named = capabilities["data"]["attributes"]["limits"].as_object().unwrap().keys().map(|name| {
        let snake =
            |c: char| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.into() };
        name.chars().map(snake).collect()
    });
    let elsewhere = ["max_staleness_ms", "problems_per_file_max"].map(str::to_owned);
    let now = samples(&server).await;
    for limit in flags.into_iter().chain(named).chain(elsewhere) {
        let is_counted = now.contains_key(&format!("collectory_limit_reached_total{{limit=\"{limit}\"}}"));
        assert_ne!(is_counted, NO_LIMITS.contains(&&*limit), "{limit}");
    }
}

#[tokio::test]
async fn what_the_server_refuses_by_itself_is_counted_and_has_a_line() {
    let server = setup().flag(&["--access-log"]).start().await;
    let many = "a: b\r\n".repeat(200);
    let long = "x".repeat(200_000);
    for (sent, status) in [
        ("nonsense\r\n\r\n".to_owned(), "400"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), "431"),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), "414"),
    ] {
        let answer = raw_exchange(server.address(), sent.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    let now = samples(&server).await;
    let refused = |method: &str| {
        let labels = format!(r#"{{route="none",method="{method}",status="4xx"}}"#);
        now[&format!("collectory_http_requests_total{labels}")]
    };
    assert_eq!(
        [refused("other"), refused("GET")],
        [3.0, 1.0],
        "only the second had a head that could be read"
    );
    let times = |limit: &str| now[&format!("collectory_limit_reached_total{{limit=\"{limit}\"}}")];
    assert_eq!([times("header_bytes_max"), times("uri_bytes_max")], [1.0; 2]);
    for (method, status) in [("-", 431), ("-", 414), ("GET", 400)] {
        server.wait_for_log(&format!("answered method={method} route=none status={status}")).await;
    }
}

#[tokio::test]
async fn operators_are_told_everything_of_readiness() {
    let server = setup().auth(Auth::Policy(POLICY.to_owned())).start().await;
    let public = server.get("/readyz").await.is(200).json();
    assert_eq!(public["meta"].get("revision"), None);
    let (status, _, full) = page(&server, "/readyz", "*/*").await;
    let full: serde_json::Value = serde_json::from_str(&full).unwrap();
    assert_eq!(status, 200);
    assert_eq!(full["meta"]["revision"], server.repo().head());
    assert_eq!(page(&server, "/livez", "*/*").await.0, 200);
    assert_eq!(page(&server, "/collections", "*/*").await.0, 404);
}

#[tokio::test]
async fn a_reader_that_hangs_up_is_missed_long_before_the_heartbeat() {
    let server = setup().flag(&["--heartbeat-ms", "3600000"]).start().await;
    for path in ["/events", "/collections"] {
        drop(EventStream::open_path(server.address(), path, ""));
        eventually("nobody follows any more", async || {
            let (_, _, text) = page(&server, "/metrics", "*/*").await;
            text.contains("collectory_subscribers 0\n").then_some(())
        })
        .await;
    }
}

#[test]
fn an_admin_listener_that_is_taken_is_told_in_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = TestServer::setup("small")
        .flag(&["--admin-listen", &address])
        .expect_start_failure()
        .assert_exit_code(1);
    let sentence = format!(
        "the admin listener can't be opened (--admin-listen): cannot listen on {address}, another process does already"
    );
    assert!(refused.stderr.contains(&sentence), "{}", refused.stderr);
}

#[tokio::test]
async fn without_the_flag_there_are_no_metrics() {
    let mut server = TestServer::setup("small").start().await;
    server.get("/metrics").await.is(404);
    let log = server.stop();
    assert!(!log.contains("metrics"), "{log}");
}

#[test]
fn the_rules_for_alerts_fire_when_they_should() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/prometheus");
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "tests.yaml"]] {
        // Without `promtool` there is nothing to check.
        let Ok(said) = Command::new("promtool").args(arguments).current_dir(folder).output() else { return };
        let all = [said.stdout, said.stderr].concat();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&all));
    }
}

#[test]
fn dashboard_and_rules_name_no_metric_that_there_is_not() {
    let readme = include_str!("../../../README.md");
    let shown = [
        include_str!("../../../examples/grafana/collectory.json"),
        include_str!("../../../examples/prometheus/alerts.yaml"),
    ];
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let texts = shown.iter().flat_map(|text| text.split(|c| !is_name(c)));
    let names: Vec<&str> =
        texts.filter(|name| name.starts_with("collectory_") || name.starts_with("process_")).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
        assert!(readme.contains(&format!("`{}`", base.unwrap_or(name))), "{name}");
    }
}
