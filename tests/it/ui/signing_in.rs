//! Sessions with a policy file: who may see and do what, and what happens when a session ends.

use super::editing::filled;
use super::{Page, checked};
use crate::support::{Answer, Auth, EventStream, TestServer};

/// A reader and an editor of everything, and an editor of some keys; each secret is `NAME-secret`.
fn policy() -> String {
    let entry = |name: &str, rights: &str| {
        let hash = crate::support::token_hash(&format!("{}-secret", name.to_lowercase()));
        format!(
            "  - name: {name}\n    email: {}@example.org\n    hash: sha256:{hash}\n{rights}",
            name.to_lowercase()
        )
    };
    format!(
        "tokens:\n{}{}{}",
        entry("Reader", "    may: [read]\n    keys: [\"*\"]\n"),
        entry("Editor", "    may: [read, write, audit]\n    keys: [\"*\"]\n"),
        entry("Blog", "    may: [read, write, audit]\n    keys: [\"blog-*\"]\n"),
    )
}

async fn server() -> TestServer {
    let server = TestServer::setup("small").unborn().auth(Auth::Policy(policy())).start().await;
    let editor = server.client().with_token("editor-secret");
    for key in ["blog-posts", "secret-plans"] {
        editor.create(&crate::support::document(key, serde_json::json!({"name": key}))).await.is(201);
    }
    server
}

/// A browser with one cookie.
struct Browser<'a> {
    server: &'a TestServer,
    cookie: String,
}

impl<'a> Browser<'a> {
    async fn signed_in(server: &'a TestServer, secret: &str) -> Self {
        let mut browser = Self { server, cookie: String::new() };
        let page = checked(browser.get("/sign-in").await, 200);
        let answer = browser.post("/sign-in", filled(&page, &[("secret", secret)])).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/ui/")));
        browser.keep(&answer);
        browser
    }

    /// Keeps the cookie that an answer sets, which must be restricted to the pages.
    fn keep(&mut self, answer: &Answer) {
        let cookie = answer.header("set-cookie").expect("a cookie is set").to_owned();
        let (pair, attributes) = cookie.split_once("; ").expect("it has attributes");
        assert_eq!(attributes, "Path=/ui/; Max-Age=43200; HttpOnly; SameSite=Strict");
        pair.clone_into(&mut self.cookie);
    }

    async fn get(&self, path: &str) -> Answer {
        let request = self.server.request("GET", &format!("/ui{path}"));
        request.header("Accept", "text/html").header("Cookie", &self.cookie).send().await
    }

    async fn page(&self, path: &str, status: u16) -> Page {
        checked(self.get(path).await, status)
    }

    async fn post(&self, path: &str, body: String) -> Answer {
        let request = self.server.request("POST", &format!("/ui{path}")).form(body);
        request.header("Sec-Fetch-Site", "same-origin").header("Cookie", &self.cookie).send().await
    }
}

#[tokio::test]
async fn a_stranger_is_led_to_sign_in_and_back() {
    let server = server().await;
    let stranger = Browser { server: &server, cookie: String::new() };
    let led = stranger.get("/collections/blog-posts?x=1").await;
    let next = "/ui/sign-in?next=%2Fui%2Fcollections%2Fblog-posts%3Fx%3D1";
    assert_eq!((led.status, led.header("location")), (303, Some(next)));
    let page = stranger.page("/sign-in?next=%2Fui%2Fcollections%2Fblog-posts%3Fx%3D1", 200).await;
    page.lacks("secret-plans").lacks("Problems").lacks("Timeline");
    let wrong = stranger.post("/sign-in", filled(&page, &[("secret", "guess")])).await;
    checked(wrong, 401).has("not known here").has("aria-describedby=\"secret-hint e-secret\" autofocus");
    let entered = stranger.post("/sign-in", filled(&page, &[("secret", "reader-secret")])).await;
    assert_eq!((entered.status, entered.header("location")), (303, Some("/ui/collections/blog-posts?x=1")));
    for next in [
        "https://evil.example/",
        "//evil.example/",
        "/ui/\\evil",
        "/collections",
        "/ui/../collections",
        "/ui/a/..",
        "/ui/%2e%2E/collections",
        "/ui/.%2e/collections?x",
        "/ui/./events",
    ] {
        let answer =
            stranger.post("/sign-in", filled(&page, &[("secret", "reader-secret"), ("next", next)])).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/ui/")), "{next}");
    }
    for next in ["/ui/collections/..a?x=/../y", "/ui/events?key=..#.."] {
        let body = filled(&page, &[("secret", "reader-secret"), ("next", next)]);
        assert_eq!(stranger.post("/sign-in", body).await.header("location"), Some(next));
    }
    assert_eq!(server.request("GET", "/ui/stream").send().await.status, 401);
}

#[tokio::test]
async fn a_session_may_what_its_token_may_and_the_api_does_not_know_it() {
    let server = server().await;
    let reader = Browser::signed_in(&server, "reader-secret").await;
    reader
        .page("/", 200)
        .await
        .has("secret-plans")
        .has("Reader")
        .lacks("New collection")
        .lacks("Timeline")
        .lacks("Last change");
    reader
        .page("/collections/blog-posts", 200)
        .await
        .lacks("<form method=\"post\" action=\"/ui/collections")
        .lacks("History");
    for path in [
        "/new",
        "/events",
        "/collections/blog-posts/history",
        "/compare",
        "/?asOf=HEAD",
        "/collections/blog-posts/delete",
    ] {
        reader.page(path, 403).await.has("This is not for you");
    }
    let by_cookie = server.request("GET", "/collections").header("Cookie", &reader.cookie);
    by_cookie.send().await.is(401);

    let blog = Browser::signed_in(&server, "blog-secret").await;
    for path in
        ["/", "/events", "/compare?from=HEAD~1&to=HEAD", "/problems", "/about", "/?asOf=HEAD", "/?q=plans"]
    {
        blog.page(path, 200).await.lacks("secret-plans");
    }
    blog.page("/collections/secret-plans", 403).await.lacks("name=\"a.name\"");
    let form = blog.page("/collections/blog-posts", 200).await;
    let saved = blog.post("/collections/blog-posts", filled(&form, &[("a.name", "Blog")])).await;
    assert_eq!(saved.status, 303);
    assert_eq!(server.repo().field("HEAD", "%an <%ae>"), "Blog <blog@example.org>");
    let foreign = blog.post("/collections/secret-plans", filled(&form, &[("a.name", "Mine")])).await;
    checked(foreign, 403).has("This is not for you").lacks("name=\"a.name\"");
}

#[tokio::test]
async fn what_was_typed_stays_when_the_right_to_save_it_is_gone() {
    let server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    let reader = Browser::signed_in(&server, "reader-secret").await;
    for path in ["/collections/blog-posts", "/new"] {
        let form = editor.page(path, 200).await;
        let typed = filled(&form, &[("a.name", "Typed for long"), ("reason", "Kept")]);
        let refused = checked(reader.post(path, typed).await, 403);
        refused.has("value=\"Typed for long\"").has("value=\"Kept\"").has("may not write");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_to_whoever_signed_in() {
    let server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    for (path, status) in [
        ("/nothing", 404),
        ("/collections/never", 404),
        ("/events/never", 404),
        ("/?asOf=2020-01-01", 404),
        ("/compare?from=no..pe&to=HEAD", 400),
    ] {
        let page = editor.page(path, status).await;
        page.has("role=\"search\"").has("As it was").has(">Problems ").has("Editor").has("Sign out");
    }
    let reader = Browser::signed_in(&server, "reader-secret").await;
    reader.page("/events", 403).await.has(">Problems ").has("Sign out").lacks("As it was");
    let blog = Browser::signed_in(&server, "blog-secret").await;
    blog.page("/collections/secret-plans", 403)
        .await
        .has("As it was")
        .has("Sign out")
        .lacks("name=\"a.name\"");

    let stranger = Browser { server: &server, cookie: "collectory-session=guess".to_owned() };
    assert_eq!(stranger.get("/collections/never").await.status, 303);
}

#[tokio::test]
async fn a_session_ends_by_sign_out_and_with_its_token_and_brings_back_what_was_typed() {
    let mut server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    let form = editor.page("/collections/blog-posts", 200).await;
    let typed = filled(&form, &[("a.name", "Typed <for long>"), ("reason", "Kept")]);
    let out = editor.post("/sign-out", filled_first(&form)).await;
    assert_eq!((out.status, out.header("location")), (303, Some("/ui/sign-in")));
    assert_eq!(editor.get("/").await.status, 303);

    let ended = checked(editor.post("/collections/blog-posts", typed.clone()).await, 401);
    ended.has("Your session has ended").has("Typed");
    let back = editor.post("/sign-in", filled(&ended, &[("secret", "editor-secret")])).await;
    let mut again = Browser { server: &server, cookie: String::new() };
    again.keep(&back);
    let page = checked(back, 403);
    page.has("value=\"Typed &#60;for long&#62;\"").has("value=\"Kept\"").has("nothing was done yet");
    assert_eq!(again.post("/collections/blog-posts", filled(&page, &[])).await.status, 303);
    assert!(server.repo().read_at_head("collections/blog-posts.yaml").contains("Typed <for long>"));

    let cookie = again.cookie.clone();
    let without = policy()
        .replace("Editor", "Editor2")
        .replace(&crate::support::token_hash("editor-secret"), &crate::support::token_hash("other"));
    server.replace_policy(&without);
    crate::support::eventually("the policy is taken over", || async {
        let again = Browser { server: &server, cookie: cookie.clone() };
        (again.get("/").await.status == 303).then_some(())
    })
    .await;
    let reader = Browser::signed_in(&server, "reader-secret").await.cookie;
    server.restart_here().await;
    assert_eq!(Browser { server: &server, cookie: reader }.get("/").await.status, 303);
}

#[tokio::test]
async fn a_session_ends_for_good_when_its_token_is_changed_or_away_and_not_with_those_of_others() {
    let server = server().await;
    let (editor, reader) = (
        Browser::signed_in(&server, "editor-secret").await,
        Browser::signed_in(&server, "reader-secret").await,
    );
    let renamed = policy().replace("name: Editor", "name: Edith");
    let without =
        policy().replace(&crate::support::token_hash("editor-secret"), &crate::support::token_hash("other"));
    for (changed, secret) in [(renamed, "editor-secret"), (without, "other")] {
        let browser = Browser::signed_in(&server, "editor-secret").await;
        for policy in [changed, policy()] {
            server.replace_policy(&policy);
            let secret = if policy == self::policy() { "editor-secret" } else { secret };
            let client = server.client().with_token(secret);
            let name = if policy.contains("Edith") { "Edith" } else { "Editor" };
            crate::support::eventually("the policy is taken over", || async {
                let known = client.get("/capabilities").await;
                String::from_utf8_lossy(&known.body).contains(&format!("\"{name}\"")).then_some(())
            })
            .await;
        }
        assert_eq!(browser.get("/").await.status, 303);
    }
    assert_eq!(editor.get("/").await.status, 303);
    reader.page("/", 200).await;
}

/// Returns the first form of a page, which signs out.
fn filled_first(page: &Page) -> String {
    let token = &page.between("name=\"token\" value=\"", "\"")[0];
    format!("token={token}")
}

#[tokio::test]
async fn whoever_signs_in_again_and_again_signs_nobody_else_out() {
    let server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    let stranger = Browser { server: &server, cookie: String::new() };
    let form = filled(&stranger.page("/sign-in", 200).await, &[("secret", "blog-secret")]);
    let own = Browser::signed_in(&server, "blog-secret").await;
    for _ in 0..101 {
        assert_eq!(stranger.post("/sign-in", form.clone()).await.status, 303);
    }
    editor.page("/", 200).await;
    assert_eq!(own.get("/").await.status, 303, "its own first session made room");
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    let page = editor.page("/", 200).await;
    let mut stream =
        EventStream::open_path(server.address(), "/ui/stream", &format!("Cookie: {}\r\n", editor.cookie));
    while stream.next_event().event != "ready" {}
    let other = server.client().with_token("editor-secret");
    other.patch("blog-posts", serde_json::json!({"name": "Before"})).await.is(200);
    assert_eq!(stream.next_event().event, "collection");
    assert_eq!(editor.post("/sign-out", filled_first(&page)).await.status, 303);
    other.patch("blog-posts", serde_json::json!({"name": "After"})).await.is(200);
    assert_eq!(stream.next_message(), None, "nothing is told any more");
}

#[tokio::test]
async fn a_form_is_kept_whether_or_not_the_browser_still_has_the_cookie() {
    let server = server().await;
    let editor = Browser::signed_in(&server, "editor-secret").await;
    let form = editor.page("/collections/blog-posts", 200).await;
    let new = editor.page("/new", 200).await;
    let forgotten = Browser { server: &server, cookie: String::new() };
    for (path, typed) in [
        ("/collections/blog-posts", filled(&form, &[("a.name", "Typed for long")])),
        ("/new", filled(&new, &[("key", "new"), ("a.name", "Typed for long")])),
    ] {
        let ended = checked(forgotten.post(path, typed).await, 401);
        let back = forgotten.post("/sign-in", filled(&ended, &[("secret", "editor-secret")])).await;
        let mut again = Browser { server: &server, cookie: String::new() };
        again.keep(&back);
        let page = checked(back, 403);
        page.has("value=\"Typed for long\"").has("nothing was done yet");
        assert_eq!(again.post(path, filled(&page, &[])).await.status, 303);
    }
}

#[tokio::test]
async fn of_what_no_browser_sends_nothing_is_kept() {
    let server = server().await;
    let stranger = Browser { server: &server, cookie: "collectory-session=x".to_owned() };
    let kept = stranger.post("/collections/blog-posts", "a.name=%22Mine%22&reason=a+b".to_owned()).await;
    checked(kept, 401).has("a.name=%22Mine%22&#38;reason=a+b");
    for sent in ["\"".repeat(1_000), "a=&".repeat(10_000)] {
        let page = checked(stranger.post("/collections/blog-posts", sent).await, 401);
        page.lacks("name=\"kept\"");
    }
}
