//! Concurrent clients: nothing is lost, nothing happens twice.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, TestServer, document, update_operation};

/// Runs one task per client and collects the results.
async fn all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    server: &TestServer,
    count: usize,
    task: impl Fn(Client, usize) -> F,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for number in 0..count {
        tasks.spawn(task(server.client().clone(), number));
    }
    tasks.join_all().await
}

#[tokio::test]
async fn of_many_parallel_creates_of_one_key_exactly_one_succeeds() {
    let server = TestServer::start("empty").await;
    let statuses = all(&server, 32, |client, number| async move {
        let body = document("posts", json!({"name": format!("Number {number}")}));
        client.create(&body).await.checked().status()
    })
    .await;
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 31, "{statuses:?}");
    assert_eq!(server.repo().commit_count(), 2);
}

#[tokio::test]
async fn parallel_writes_of_different_keys_all_stand_and_each_has_its_commit() {
    let server = TestServer::start("empty").await;
    let done = all(&server, 64, |client, number| async move {
        client.create(&document(&format!("k{number:02}"), json!({"name": number.to_string()}))).await.is(201);
    })
    .await;
    assert_eq!(server.list().await.is(200).ids().len(), done.len());
    let subjects: BTreeSet<_> = server.repo().subjects().into_iter().collect();
    assert_eq!(subjects.len(), 65, "{subjects:?}");
    let counts = server.repo().git(&["log", "--format=", "--name-only", "HEAD", "--", "collections"]);
    assert_eq!(counts.lines().count(), 64, "one file a commit");
}

#[tokio::test]
async fn parallel_updates_of_different_attributes_all_stand() {
    let server = TestServer::start("small").await;
    all(&server, 16, |client, number| async move {
        client.patch("posts", json!({format!("x-{number:02}"): number})).await.is(200);
    })
    .await;
    let attributes = server.read("posts").await.is(200).attributes();
    for number in 0..16 {
        assert_eq!(attributes[format!("x-{number:02}")], number);
    }
    assert_eq!(server.repo().commit_count(), 17);
}

#[tokio::test]
async fn of_parallel_writes_each_answer_names_the_commit_that_shows_it() {
    let server = TestServer::start("small").await;
    let answers = all(&server, 16, |client, number| async move {
        client.patch("posts", json!({format!("x-{number:02}"): number})).await.is(200)
    })
    .await;
    for answer in answers {
        let then = format!("/collections/posts?asOf={}", answer.header("collectory-revision"));
        let then = server.get(&then).await.is(200);
        assert_eq!((then.attributes(), then.header("etag")), (answer.attributes(), answer.header("etag")));
    }
}

#[tokio::test]
async fn whoever_has_an_answer_can_read_the_write() {
    let server = TestServer::start("empty").await;
    all(&server, 8, |client, number| async move {
        let key = format!("k{number}");
        client.create(&document(&key, json!({"name": "0"}))).await.is(201);
        for round in 1..10 {
            let name = round.to_string();
            client.patch(&key, json!({"name": name})).await.is(200);
            assert_eq!(client.read(&key).await.is(200).attributes()["name"], name);
            let list = client.list().await.is(200).data();
            let listed = list.as_array().unwrap().iter().find(|item| item["id"] == key).unwrap();
            assert_eq!(listed["attributes"]["name"], name);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_not_found_was_not_there_at_the_revision_that_the_answer_names() {
    let server = TestServer::start("small").await;
    let (writer, is_written) = (server.client().clone(), Cell::new(false));
    let writing = async {
        for _ in 0..100 {
            writer.delete("posts").await.is(204);
            writer.create(&document("posts", json!({}))).await.is(201);
        }
        is_written.set(true);
    };
    let reading = async {
        let mut named = BTreeSet::new();
        while !is_written.get() {
            let answer = server.read("posts").await.checked();
            if answer.status() == 404 {
                named.insert(answer.header("collectory-revision"));
            }
        }
        named
    };
    let (named, ()) = tokio::join!(reading, writing);
    assert!(named.len() > 5, "{}", named.len());
    for revision in named {
        let there = server.repo().git(&["ls-tree", "--name-only", &revision, "collections/"]);
        assert!(!there.contains("posts"), "{revision}: {there}");
    }
}

#[tokio::test]
async fn readers_never_see_half_a_batch() {
    let server = TestServer::start("empty").await;
    let both = |name: String| {
        json!([update_operation("a", json!({"name": name})), update_operation("b", json!({"name": name})),])
    };
    server.create(&document("a", json!({"name": "0"}))).await.is(201);
    server.create(&document("b", json!({"name": "0"}))).await.is(201);
    let writer = server.client().clone();
    let writing = async move {
        for round in 0..50 {
            writer.operations(both(round.to_string())).await.is(200);
        }
    };
    let reading = async {
        for _ in 0..200 {
            let list = server.list().await.is(200).data();
            assert_eq!(list[0]["attributes"]["name"], list[1]["attributes"]["name"]);
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn ordinary_commits_beside_api_writes_lose_nothing() {
    let server = TestServer::start("small").await;
    let repo = server.repo().clone();
    let committing = tokio::task::spawn_blocking(move || {
        let mut done = 0;
        for number in 0..60 {
            repo.write("notes.txt", &format!("note {number}\n"));
            let added = repo.try_git(&["add", "notes.txt"]).status.success();
            let message = format!("Note {number}");
            let committed =
                added && repo.try_git(&["commit", "--quiet", "--message", &message]).status.success();
            done += usize::from(committed);
        }
        done
    });
    let mut written = 0;
    while !committing.is_finished() || written < 20 {
        let answer = server.patch("posts", json!({"name": format!("Write {written}")})).await;
        match answer.status() {
            200 => written += 1,
            _ => {
                answer.is(503);
            }
        }
    }
    let notes = committing.await.unwrap();
    assert!(notes > 0, "no commit by hand got through");
    let subjects = server.repo().subjects();
    assert_eq!(subjects.iter().filter(|subject| subject.starts_with("Note ")).count(), notes);
    assert_eq!(subjects.iter().filter(|subject| subject.starts_with("Update posts")).count(), written);
    let log = server.repo().git(&["log", "--format=%x00%s", "--name-only"]);
    for commit in log.split('\0').skip(1).take(notes + written) {
        let (subject, files) = commit.trim_end().split_once("\n\n").unwrap();
        let expected = if subject.starts_with("Note ") { "notes.txt" } else { "collections/posts.yaml" };
        assert_eq!(files, expected, "{subject} changed something else");
    }
    let last = server.repo().read("notes.txt");
    if server.repo().status().is_empty() {
        assert_eq!(server.repo().read_at_head("notes.txt"), last);
    } else {
        server.repo().commit("The last note");
    }
}
