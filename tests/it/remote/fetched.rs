//! What others have pushed.

use serde_json::json;

use super::{Hub, is_in_state};
use crate::support::{Heard, Stream};

#[tokio::test]
async fn a_push_of_a_person_is_served_by_the_next_poll() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let head = hub.somebody_writes("posts", "Foreign");
    server.serves(&head).await;
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Foreign");
}

#[tokio::test]
async fn a_remote_that_was_rewound_is_followed_and_what_went_is_kept_and_told() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let before = hub.head().unwrap();
    let gone = server.patch("posts", json!({"name": "Gone"})).await.is(200).header("collectory-revision");
    let mut stream = Stream::of(server.address(), "/events", "");
    assert!(stream.head.starts_with("http/1.1 200"), "{}", stream.head);
    hub.repo.git(&["update-ref", "refs/heads/main", &before]);
    server.serves(&before).await;
    let kept = server.repo().git(&["for-each-ref", "--format=%(objectname)", "refs/collectory/kept/"]);
    assert_eq!(kept, gone);
    let heard: Vec<String> = std::iter::from_fn(|| stream.next())
        .map(|Heard { event, .. }| event)
        .take_while(|event| event != "reset")
        .collect();
    assert!(heard.iter().all(|event| event != "reset"));
    let problems = server.get("/problems").await.is(200).data();
    assert!(problems.to_string().contains(&gone), "{problems}");
    server.patch("pages", json!({"name": "Later"})).await.is(200);
    assert!(!hub.repo.git(&["rev-list", "main"]).contains(&gone), "what was taken away does not come back");
}

#[tokio::test]
async fn a_rewound_remote_is_not_followed_where_somebody_is_to_decide() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--remote-rewrite", "stop"]).start().await;
    let before = hub.head().unwrap();
    server.patch("posts", json!({"name": "Stays"})).await.is(200);
    hub.repo.git(&["update-ref", "refs/heads/main", &before]);
    let told = is_in_state(&server, "stopped").await;
    assert!(told["lastError"].as_str().unwrap().contains("collectory remote accept"), "{told}");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Stays");
    server.patch("posts", json!({"name": "No"})).await.is(503);
    hub.repo.git(&["update-ref", "refs/heads/main", &server.repo().head()]);
    is_in_state(&server, "up").await;
    server.patch("posts", json!({"name": "Yes"})).await.is(200);
}

#[tokio::test]
async fn a_remote_without_the_branch_or_with_another_history_is_never_followed() {
    let hub = Hub::with("small");
    let server = hub.polling(50).start().await;
    let before = hub.head().unwrap();
    hub.repo.git(&["update-ref", "-d", "refs/heads/main"]);
    is_in_state(&server, "rewritten").await;
    server.patch("posts", json!({"name": "No"})).await.is(503);
    assert_eq!(hub.head(), None);
    let tree = hub.repo.git(&["rev-parse", &format!("{before}^{{tree}}")]);
    let other = hub.repo.git(&["commit-tree", "-m", "Other", &tree]);
    hub.repo.git(&["update-ref", "refs/heads/main", &other]);
    server.patch("posts", json!({"name": "No"})).await.is(503);
    assert_eq!((server.repo().head(), hub.head()), (before.clone(), Some(other)));
    hub.repo.git(&["update-ref", "refs/heads/main", &before]);
    is_in_state(&server, "up").await;
}

#[tokio::test]
async fn commits_that_a_person_makes_here_are_pushed() {
    let hub = Hub::with("small");
    let server = hub.polling(50).flag(&["--work-tree"]).start().await;
    server.repo().introduce();
    server.repo().write("collections/posts.yaml", "type: document\nname: By hand\n");
    let commit = server.repo().commit("By hand");
    server.serves(&commit).await;
    server.patch("pages", json!({"name": "By API"})).await.is(200);
    assert!(hub.repo.git(&["rev-list", "main"]).contains(&commit));
    assert!(server.repo().read("collections/pages.yaml").contains("By API"));
}
