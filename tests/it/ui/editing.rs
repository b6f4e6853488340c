//! Forms, without a script: new, edit, delete, undo, restore, two people at once, and forms of other sites.

use serde_json::json;

use super::{Page, checked, get_page};
use crate::support::{Answer, Auth, TestServer, document};

async fn server() -> TestServer {
    TestServer::setup("small").unborn().auth(Auth::AllowAll).start().await
}

/// Returns what a browser sends for the last form of a page, with these values typed into its fields.
pub(crate) fn filled(page: &Page, typed: &[(&str, &str)]) -> String {
    let form = page.html.rsplit_once("<form method=\"post\"").expect("there is a form").1;
    let form = form.split("</form>").next().expect("a form has a beginning");
    let attribute = |tag: &str, name: &str| {
        let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
        Some(unescaped(value))
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for tag in form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let is_picked = !tag.contains("type=\"radio\"") || tag.contains(" checked");
        if let Some(name) = attribute(tag, "name").filter(|_| is_picked) {
            pairs.push((name, attribute(tag, "value").unwrap_or_default()));
        }
    }
    for area in form.split("<textarea").skip(1) {
        let (tag, rest) = area.split_once(">\n").expect("a text begins on its own line");
        let text = rest.split("</textarea>").next().unwrap_or_default();
        pairs.push((attribute(tag, "name").expect("a field has a name"), unescaped(text)));
    }
    for select in form.split("<select").skip(1).filter_map(|rest| rest.split("</select>").next()) {
        let name = attribute(select, "name").expect("a field has a name");
        let picked = select.split("<option").find(|option| option.contains(" selected"));
        pairs.push((name, picked.and_then(|option| attribute(option, "value")).unwrap_or_default()));
    }
    for (name, value) in typed {
        match pairs.iter_mut().find(|(it, _)| it == name) {
            Some((_, place)) => (*value).clone_into(place),
            None => pairs.push(((*name).to_owned(), (*value).to_owned())),
        }
    }
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn unescaped(text: &str) -> String {
    let entities =
        [("&#34;", "\""), ("&quot;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#39;", "'"), ("&#38;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

async fn send(server: &TestServer, path: &str, body: String) -> Answer {
    let request = server.request("POST", &format!("/ui{path}"));
    request.header("Sec-Fetch-Site", "same-origin").form(body).send().await
}

/// Sends a form that must succeed, and follows the redirect.
async fn sent(server: &TestServer, path: &str, body: String) -> Page {
    let answer = send(server, path, body).await;
    assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.body));
    let to = answer.header("location").expect("it leads somewhere").to_owned();
    get_page(server, to.strip_prefix("/ui").expect("it leads to a page"), 200).await
}

#[tokio::test]
async fn a_collection_is_made_changed_and_deleted_with_reasons() {
    let server = server().await;
    let typed = [
        ("key", "posts"),
        ("a.name", "Posts <1>"),
        ("a.directory", "content/posts"),
        ("reason", "Wir fangen an: ä"),
    ];
    let form = get_page(&server, "/new", 200).await;
    let preview = send(&server, "/new", filled(&form, &[&typed[..], &[("do", "preview")]].concat())).await;
    let preview = checked(preview, 200);
    preview
        .has("The commit that this would make")
        .has("Create posts")
        .has("Wir fangen an: ä")
        .has("+directory: content/posts");
    server.read("posts").await.is(404);
    sent(&server, "/new", filled(&preview, &[])).await.has("Created, in a commit of its own.");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Posts <1>");
    assert!(server.repo().field("HEAD", "%B").contains("Wir fangen an: ä"));

    let form = get_page(&server, "/collections/posts", 200).await;
    let typed = [
        ("a.recursive", "true"),
        ("a.name", ""),
        ("s.key.0", "draft"),
        ("s.directory.0", "content/drafts"),
        ("s.name.0", "Draft"),
        ("x.name", "owner"),
        ("x.value", "{\"team\": [1, null]}"),
    ];
    sent(&server, "/collections/posts", filled(&form, &typed)).await.has("Saved, in a commit of its own.");
    let attributes = server.read("posts").await.is(200).attributes();
    assert_eq!(
        attributes,
        json!({"type": "document", "directory": "content/posts", "recursive": true,
               "unpublishedStatuses": {"draft": {"directory": "content/drafts", "name": "Draft"}},
               "x-owner": {"team": [1, null]}})
    );
    let same = get_page(&server, "/collections/posts", 200).await;
    let commits = server.repo().commit_count();
    sent(&server, "/collections/posts", filled(&same, &[("reason", "none")]))
        .await
        .has("Nothing was different");
    let long = "r".repeat(1025);
    let unfit = filled(&same, &[("reason", &long)]);
    let page = checked(send(&server, "/collections/posts", unfit).await, 400);
    page.has("href=\"#f-reason\"").has("reason has at most 1024 bytes").has(&long);
    assert!(has_focus(&page, "f-reason"));
    assert_eq!(server.repo().commit_count(), commits);

    let asked = get_page(&server, "/collections/posts/delete", 200).await;
    asked.has("Delete posts?").has("-directory: content/posts");
    sent(&server, "/collections/posts/delete", filled(&asked, &[("reason", "Done")]))
        .await
        .has("Deleted, in a commit");
    server.read("posts").await.is(404);
    assert!(server.repo().field("HEAD", "%B").contains("Done"));
}

/// Reports whether only this field has the focus when the page is shown, even without a script.
fn has_focus(page: &Page, id: &str) -> bool {
    let focused = page.html.split('<').filter(|tag| tag.contains(" autofocus"));
    focused.map(|tag| tag.contains(&format!(" id=\"{id}\""))).eq([true])
}

#[tokio::test]
async fn a_value_that_is_no_json_hides_no_other_error() {
    let server = server().await;
    let form = get_page(&server, "/new", 200).await;
    let unreadable = [("x.name", "x-a"), ("x.value", "{")];
    let others = [("key", "a b"), ("a.directory", "../up"), ("do", "save")];
    let page = checked(send(&server, "/new", filled(&form, &[&others[..], &unreadable].concat())).await, 400);
    page.has("href=\"#f-id\"").has("href=\"#f-directory\"").has("href=\"#f-x-a\"").has("be read as JSON");
    let good = [("key", "posts"), ("a.name", "Posts")];
    let page = checked(send(&server, "/new", filled(&form, &[&good[..], &unreadable].concat())).await, 400);
    page.has("be read as JSON").lacks("The commit that this would make");
    server.read("posts").await.is(404);

    server.create(&document("posts", json!({"name": "Posts"}))).await.is(201);
    let form = get_page(&server, "/collections/posts", 200).await;
    server.patch("posts", json!({"name": "Theirs"})).await.is(200);
    let typed = [&[("a.directory", "../up"), ("a.name", "Mine")][..], &unreadable].concat();
    let page = checked(send(&server, "/collections/posts", filled(&form, &typed)).await, 400);
    page.has("href=\"#f-directory\"").has("href=\"#f-x-a\"").has("value=\"Mine\"").has(">\n{</textarea>");
    assert!(has_focus(&page, "f-directory"), "{}", page.html);
    assert_eq!(
        server.read("posts").await.is(200).attributes(),
        json!({"type": "document", "name": "Theirs"})
    );
    server.delete("posts").await.is(204);
    let gone = checked(send(&server, "/collections/posts", filled(&form, &unreadable)).await, 404);
    gone.has("creates the collection again").has("be read as JSON");
    sent(&server, "/new", filled(&gone, &[("j.x-a", "1")])).await;
    let attributes = server.read("posts").await.is(200).attributes();
    assert_eq!(attributes, json!({"type": "document", "name": "Posts", "x-a": 1}), "nothing typed is lost");
}

#[tokio::test]
async fn errors_stand_at_their_fields_and_nothing_typed_is_lost() {
    let server = server().await;
    let form = get_page(&server, "/new", 200).await;
    let long = "x".repeat(1025);
    let typed = [
        ("key", "a b"),
        ("a.name", "Kept \u{202e}"),
        ("a.directory", "../up"),
        ("reason", long.as_str()),
        ("x.name", "x-a"),
        ("x.value", "1"),
    ];
    let page = checked(send(&server, "/new", filled(&form, &typed)).await, 400);
    page.has("Nothing is saved yet")
        .has("href=\"#f-id\"")
        .has("href=\"#f-directory\"")
        .has("href=\"#f-reason\"");
    page.has("has the part `..`")
        .has("value=\"Kept \u{202e}\"")
        .has("value=\"../up\"")
        .has("aria-invalid=\"true\"");
    assert!(has_focus(&page, "f-id"), "the first of them");
    let page = checked(
        send(&server, "/new", filled(&form, &[("key", "a"), ("x.name", "x-a"), ("x.value", "{")])).await,
        400,
    );
    page.has("be read as JSON").has("name=\"j.x-a\"");
    assert!(has_focus(&page, "f-x-a"));
    let rows = [("key", "a"), ("s.key.0", "old"), ("s.directory.0", "o"), ("s.name.0", "O")];
    let wrong = [("s.key.1", "new"), ("s.directory.1", "../x"), ("s.name.1", "N")];
    let page = checked(send(&server, "/new", filled(&form, &[&rows[..], &wrong].concat())).await, 400);
    page.has("href=\"#f-unpublishedStatuses-directory-1\"");
    assert_eq!(page.html.matches("aria-invalid").count(), 1, "the wrong one only:\n{}", page.html);
    assert!(has_focus(&page, "f-unpublishedStatuses-directory-1"));
    server.create(&document("posts", json!({}))).await.is(201);
    let page =
        checked(send(&server, "/new", filled(&form, &[("key", "posts"), ("a.name", "Mine")])).await, 409);
    page.has("exists already").has("value=\"Mine\"");
    let form = get_page(&server, "/collections/posts", 200).await;
    server.delete("posts").await.is(204);
    let page = checked(send(&server, "/collections/posts", filled(&form, &[("a.name", "Mine")])).await, 404);
    page.has("Collection &#39;posts&#39; not found.")
        .has("value=\"Mine\"")
        .has("creates the collection again");
}

#[tokio::test]
async fn what_two_people_changed_is_merged_or_shown_side_by_side() {
    let server = server().await;
    server
        .create(&document("posts", json!({"name": "Posts", "directory": "a", "format": "md"})))
        .await
        .is(201);
    let mine = get_page(&server, "/collections/posts", 200).await;
    server.patch("posts", json!({"directory": "b"})).await.is(200);
    let merged = sent(&server, "/collections/posts", filled(&mine, &[("a.name", "Mine")])).await;
    merged.has("both changes are in");
    assert_eq!(
        server.read("posts").await.is(200).attributes(),
        json!({"type": "document", "name": "Mine", "directory": "b", "format": "md"})
    );

    let mine = get_page(&server, "/collections/posts", 200).await;
    server.patch("posts", json!({"name": "Theirs", "directory": "c"})).await.is(200);
    let typed = [("a.name", "Mine too"), ("a.format", "html")];
    let page = checked(send(&server, "/collections/posts", filled(&mine, &typed)).await, 412);
    page.has("Yours</label><pre>Mine too").has("Theirs</label><pre>Theirs").has("Before</p><pre>Mine</pre>");
    page.has("name=\"a.name\" value=\"Mine too\"")
        .has("name=\"a.format\" value=\"html\"")
        .has("name=\"a.directory\" value=\"c\"");
    assert_eq!(page.between("name=\"pick.", "\"").len(), 2, "only the name overlaps");
    assert!(has_focus(&page, "f-name"), "{}", page.html);
    page.has("aria-describedby=\"h-name c-name\"").has("id=\"c-name\"");
    sent(&server, "/collections/posts", filled(&page, &[("pick.name", "theirs")])).await;
    assert_eq!(
        server.read("posts").await.is(200).attributes(),
        json!({"type": "document", "name": "Theirs", "directory": "c", "format": "html"})
    );
    sent(&server, "/collections/posts", filled(&page, &[])).await;
    assert_eq!(
        server.read("posts").await.is(200).attributes()["name"],
        "Mine too",
        "an older page still merges"
    );
}

#[tokio::test]
async fn an_event_is_undone_and_a_version_restored_after_a_preview() {
    let server = server().await;
    server.create(&document("posts", json!({"name": "One"}))).await.is(201);
    server.patch("posts", json!({"name": "Two"})).await.is(200);
    let history = get_page(&server, "/collections/posts/history", 200).await;
    let event = history.between("href=\"/ui/events/", "\"")[0].clone();
    get_page(&server, &format!("/events/{event}"), 200).await.has(&format!("/ui/events/{event}/undo"));
    let path = format!("/events/{event}/undo");
    let asked = get_page(&server, &path, 200).await;
    asked.has("Undo posts?").has("+name: One");
    sent(&server, &path, filled(&asked, &[("reason", "Too soon")]))
        .await
        .has("Undone, by a commit of its own.");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "One");
    get_page(&server, &format!("/events/{event}"), 200)
        .await
        .has("It can't be undone: `name` was changed again later");
    get_page(&server, &path, 200)
        .await
        .has("This can't be done")
        .has("changed again later")
        .lacks("<form method");
    let late = send(&server, &path, filled(&asked, &[("tag", "")])).await;
    checked(late, 409).has("This can't be done").has("changed again later");

    let history = get_page(&server, "/collections/posts/history", 200).await;
    let restores = history.between("href=\"/ui/collections/posts/restore", "\"");
    let path = format!("/collections/posts/restore{}", restores[1]);
    let asked = get_page(&server, &path, 200).await;
    asked.has("Restore posts?").has("+name: Two");
    sent(&server, "/collections/posts/restore", filled(&asked, &[]))
        .await
        .has("Restored, by a commit of its own.");
    assert_eq!(server.read("posts").await.is(200).attributes()["name"], "Two");
    let late = send(&server, "/collections/posts/delete", filled(&asked, &[])).await;
    checked(late, 412).has("Nothing was done");
    server.read("posts").await.is(200);
}

#[tokio::test]
async fn forms_of_other_sites_and_of_before_a_restart_do_nothing() {
    let mut server = server().await;
    let form = get_page(&server, "/new", 200).await;
    let body = filled(&form, &[("key", "posts"), ("a.name", "Kept")]);
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
    ] {
        let answer = server.request("POST", "/ui/new").header(name, value).form(body.clone()).send().await;
        checked(answer, 403).has("Another site sent this form");
    }
    let forged = body.replace("token=", "token=0");
    checked(send(&server, "/new", forged).await, 403)
        .has("value=\"Kept\"")
        .has("made before the service was started");
    let json = server.request("POST", "/ui/new").document(&json!({})).send().await;
    checked(json, 415);
    server.restart().await;
    let page = checked(send(&server, "/new", body).await, 403);
    page.has("value=\"Kept\"");
    server.read("posts").await.is(404);
    sent(&server, "/new", filled(&page, &[])).await.has("Created");
    let past = get_page(&server, "/collections/posts?asOf=HEAD", 200).await;
    past.lacks("<form method").has("Kept");
    for page in ["/new?asOf=HEAD", "/collections/posts/delete?asOf=HEAD"] {
        let past = get_page(&server, page, 200).await;
        past.has("Nothing can be changed here").lacks("<form method").lacks("name=\"do\"");
    }
    checked(send(&server, "/collections/posts?asOf=HEAD", String::new()).await, 400);
}

#[tokio::test]
async fn a_form_is_what_says_so_and_has_no_more_fields_than_are_put_in_order_at_once() {
    let server = server().await;
    let fields = |count: usize| format!("key=posts{}", "&z=".repeat(count - 1));
    checked(send(&server, "/new", fields(10_000)).await, 403);
    checked(send(&server, "/new", fields(10_001)).await, 413).has("A form has at most 10000 fields");
    for (media_type, status) in [
        ("application/x-www-form-urlencoded; charset=UTF-8", 403),
        ("Application/X-WWW-Form-Urlencoded", 403),
        ("application/x-www-form-urlencodedfoo", 415),
    ] {
        let request = server.request("POST", "/ui/new").body(media_type, &json!(1));
        assert_eq!(request.send().await.status, status, "{media_type}");
    }
}

#[tokio::test]
async fn the_reason_of_a_deletion_comes_back_when_git_is_in_the_way() {
    let setup = TestServer::setup("small").auth(Auth::AllowAll);
    let server = setup.flag(&["--lock-wait-ms-max", "100"]).start().await;
    let form = get_page(&server, "/collections/posts/delete", 200).await;
    std::fs::write(server.repo().git_folder().join("index.lock"), "").unwrap();
    let body = filled(&form, &[("reason", "Nobody reads it")]);
    let refused = checked(send(&server, "/collections/posts/delete", body).await, 503);
    refused.has("Nobody reads it").has("index.lock");
}
