//! Three services over failing connections, and people who push: every acknowledged write is there once.
//!
//! `COLLECTORY_REMOTE_SEED` and `COLLECTORY_REMOTE_STEPS` select another run, or a longer one.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Hub, State, create, folded, link, over_git, state};
use crate::support::{Proxy, ProxyMode, TestServer, env_or, eventually, git_command, git_daemon};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test]
async fn whatever_lines_do_all_that_was_acknowledged_is_there_once_and_all_agree() {
    let (seed, steps) = (env_or("COLLECTORY_REMOTE_SEED", 1), env_or("COLLECTORY_REMOTE_STEPS", 30));
    let mut dice = fastrand::Rng::with_seed(seed);
    let hub = Hub::with("small");
    let daemon = git_daemon(hub.folder.path());
    let proxies = [0; 3].map(|_| Proxy::start(daemon.1));
    let mut servers = Vec::new();
    for (proxy, ack) in proxies.iter().zip(["pushed", "local", "local"]) {
        servers.push(over_git(proxy.port, 100, 2_000).flag(&["--remote-ack", ack]).start().await);
    }
    for key in KEYS {
        create(&servers[0], key).await;
    }
    let mut acknowledged = Vec::new();
    for step in 0..steps {
        let at = dice.usize(..3);
        match dice.usize(..12) {
            0 => person_writes(&hub, KEYS[dice.usize(..4)], step),
            1 | 2 => {
                let lines = [
                    ProxyMode::Refuse,
                    ProxyMode::LoseAnswers,
                    ProxyMode::CutAfter(200),
                    ProxyMode::Delay(Duration::from_millis(5)),
                ];
                proxies[at].set(lines[dice.usize(..4)]);
            }
            3 | 4 => proxies[at].set(ProxyMode::Pass),
            _ => {
                let attribute = ["name", "x-one", "x-two"][dice.usize(..3)];
                let answer =
                    servers[at].patch(KEYS[dice.usize(..4)], json!({attribute: format!("{step}")})).await;
                match answer.status() {
                    200 => acknowledged.push(answer.checked().header("collectory-revision")),
                    // In mode `local`, the instance may not have fetched the key yet.
                    404 | 503 => {}
                    other => panic!("seed {seed}: a write was answered {other}"),
                }
            }
        }
    }
    proxies.iter().for_each(|proxy| proxy.set(ProxyMode::Pass));
    eventually(&format!("seed {seed}: all are at the same commit"), async || {
        let mut is_same = true;
        for server in &servers {
            is_same &= link(server).await["ahead"] == 0 && Some(server.repo().head()) == hub.head();
        }
        is_same.then_some(())
    })
    .await;
    for revision in &acknowledged {
        hub.repo.git(&["merge-base", "--is-ancestor", revision, "main"]);
    }
    let served = events(&servers[0]).await;
    for server in &servers {
        assert_eq!(ids(&events(server).await), ids(&served), "seed {seed}");
        assert_eq!(folded(State::new(), served.values()), state(server).await, "seed {seed}");
    }
    let unique: HashSet<&String> = ids(&served).into_iter().collect();
    assert_eq!(unique.len(), served.len(), "seed {seed}: no event is told twice");
    let made: HashSet<&str> = served.values().map(|event| event["revision"].as_str().unwrap()).collect();
    assert!(acknowledged.iter().all(|revision| made.contains(revision.as_str())), "seed {seed}");
}

/// Pushes as a person, with a retry after each lost race.
fn person_writes(hub: &Hub, key: &str, step: u64) {
    let person = hub.person();
    loop {
        person.git(&["fetch", "--quiet"]);
        person.git(&["reset", "--quiet", "--hard", "origin/main"]);
        person.write(&format!("collections/{key}.yaml"), &format!("type: document\nname: person {step}\n"));
        person.commit(&format!("Write {key}"));
        let mut push = git_command(person.path());
        if push.args(["push", "--quiet", "origin", "HEAD"]).output().unwrap().status.success() {
            break;
        }
    }
}

/// Returns all events, oldest first, by their position and id.
async fn events(server: &TestServer) -> BTreeMap<(usize, String), Value> {
    let (mut next, mut found) = (Some("/events?page[size]=100".to_owned()), Vec::new());
    while let Some(page) = next {
        let page = server.get(&page).await.is(200).json();
        for event in page["data"].as_array().unwrap() {
            found.push((event["id"].as_str().unwrap().to_owned(), event["attributes"].clone()));
        }
        next = page["links"]["next"].as_str().map(str::to_owned);
    }
    found.reverse();
    found.into_iter().enumerate().map(|(place, (id, event))| ((place, id), event)).collect()
}

fn ids(events: &BTreeMap<(usize, String), Value>) -> Vec<&String> {
    events.keys().map(|(_, id)| id).collect()
}
