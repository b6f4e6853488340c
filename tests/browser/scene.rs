//! A service with data to show: people, a history, an uncommitted edit, a broken file.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::browser::Browser;
use crate::support::{Auth, Client, TestServer, document, eventually, media};

/// Everyone with a token; each secret is `NAME-secret`.
const PEOPLE: [(&str, &str); 3] = [
    ("Mara Weiss", "[read, write, audit, operate]"),
    ("Jonas Okafor", "[read, write, audit]"),
    ("Reader", "[read]"),
];

fn secret(name: &str) -> String {
    format!("{}-secret", name.split(' ').next().unwrap_or_default().to_lowercase())
}

fn policy() -> String {
    let mut text = "tokens:\n".to_owned();
    for (name, may) in PEOPLE {
        let hash: String = Sha256::digest(secret(name)).iter().map(|byte| format!("{byte:02x}")).collect();
        let email = name.split(' ').next().unwrap_or_default().to_lowercase();
        text.push_str(&format!(
            "  - {{name: {name}, email: {email}@example.org, hash: 'sha256:{hash}', may: {may}, keys: ['*']}}\n"
        ));
    }
    text
}

/// An empty service that requires a token.
pub(crate) async fn guarded() -> TestServer {
    TestServer::setup("small").unborn().auth(Auth::Policy(policy())).start().await
}

/// An empty service that is open to everyone.
pub(crate) async fn open() -> TestServer {
    TestServer::setup("small").unborn().auth(Auth::AllowAll).start().await
}

/// A client of the API with a person's token.
pub(crate) fn client(server: &TestServer, name: &str) -> Client {
    server.client().with_token(&secret(name))
}

/// Signs in as a person does.
pub(crate) async fn sign_in(browser: &Browser, name: &str) {
    browser.goto("/sign-in").await;
    browser.write("#secret", &secret(name)).await;
    browser.press("Sign in").await;
    browser.shows("Sign out").await;
}

/// A guarded service with a history.
pub(crate) async fn lived_in() -> TestServer {
    let mut server = guarded().await;
    let (mara, jonas) = (client(&server, "Mara Weiss"), client(&server, "Jonas Okafor"));
    let with = |client: &Client, method: &str, path: &str, why: &str| {
        client.request(method, path).header("Commit-Message", why)
    };
    let statuses = json!({"draft": {"directory": "content/drafts", "name": "Draft"},
                          "archived": {"directory": "content/archive", "name": "Archived"}});
    let posts = json!({"name": "Posts", "directory": "content/posts", "recursive": true, "format": "markdown",
                       "documentTitleKey": "title", "unpublishedStatuses": statuses});
    with(&mara, "POST", "/collections", "The first of the new site")
        .document(&document("posts", posts))
        .send()
        .await
        .is(201);
    for (key, name, directory) in [
        ("press-releases", "Press releases", "content/press"),
        ("team", "Team", "content/team"),
        ("jobs", "Open positions", "content/jobs"),
        ("legacy-news", "News until 2019", "archive/news"),
    ] {
        let content = json!({"name": name, "directory": directory, "format": "markdown"});
        mara.create(&document(key, content)).await.is(201);
    }
    let photos = json!({"name": "Photos", "directory": "media/photos", "accept": ["image/*"], "url": "/media/{filename}"});
    jonas.create(&media("photos", photos)).await.is(201);
    with(&jonas, "PATCH", "/collections/posts", "The navigation says News; so do we")
        .document(&document(
            "posts",
            json!({"name": "News and stories", "x-owner": {"team": "Comms", "since": 2024}}),
        ))
        .send()
        .await
        .is(200);
    with(&mara, "DELETE", "/collections/legacy-news", "Moved to the archive").send().await.is(204);
    with(&mara, "PATCH", "/collections/jobs", "")
        .document(&document("jobs", json!({"directory": "content/careers"})))
        .send()
        .await
        .is(200);
    server.repo().write(
        "collections/team.yaml",
        "# The people page\ntype: document\nname: Our team\ndirectory: content/team\nformat: markdown\n",
    );
    server.repo().write(
        "collections/press-releases.yaml",
        "type: document\nname: Press releases\ndirectory: content/press\nformat: [markdown\n",
    );
    eventually("both saved files are noticed", async || {
        let listed = mara.list().await.is(200).json().to_string();
        (listed.contains("Our team") && mara.get("/problems").await.is(200).ids().len() == 1).then_some(())
    })
    .await;
    server.expect_git_status(" M collections/press-releases.yaml\n M collections/team.yaml");
    server
}
