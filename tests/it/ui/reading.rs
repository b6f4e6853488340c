//! Viewing the present and the past.

use serde_json::json;

use super::{checked, get_page};
use crate::support::{Auth, TestServer, add_operation, document, eventually, media};

/// A service with a short history: three collections, one of them changed and one deleted.
async fn with_history() -> TestServer {
    let server = TestServer::setup("small").unborn().auth(Auth::AllowAll).start().await;
    let why =
        |method: &str, path: &str, why: &str| server.request(method, path).header("Commit-Message", why);
    let posts = document("posts", json!({"name": "Posts", "directory": "content/posts"}));
    why("POST", "/collections", "It starts").document(&posts).send().await.is(201);
    server.create(&document("old", json!({"name": "Old"}))).await.is(201);
    let photos = media("photos", json!({"name": "Photos", "accept": ["image/png"]}));
    server.create(&photos).await.is(201);
    let renamed = document("posts", json!({"name": "All posts"}));
    why("PATCH", "/collections/posts", "Twice in the bar").document(&renamed).send().await.is(200);
    server.delete("old").await.is(204);
    server
}

#[tokio::test]
async fn every_page_is_there_and_leads_on() {
    let server = with_history().await;
    let list = get_page(&server, "/", 200).await;
    list.has("href=\"/ui/collections/posts\"").has("All posts").has("1 to 2 of 2").lacks(">old<");
    get_page(&server, "/collections/posts", 200)
        .await
        .has("content/posts")
        .has("/ui/collections/posts/source");
    let source = get_page(&server, "/collections/posts/source", 200).await;
    source.has("<code>name: All posts</code>").has("Twice in the bar").has("It starts").has("id=\"L3\"");
    let history = get_page(&server, "/collections/posts/history", 200).await;
    history.has("2 events").has("Twice in the bar");
    assert_eq!(history.between("name=\"from\" value=\"", "\"").len(), 2);
    let timeline = get_page(&server, "/events", 200).await;
    timeline.has("5 events").has("<title>").has("As numbers").has("action deleted");
    let event = &timeline.between("href=\"/ui/events/", "\"")[0];
    get_page(&server, &format!("/events/{event}"), 200).await.has("Delete old").has("<del>").has("unsigned");
    let compared = get_page(&server, "/compare?from=HEAD~2&to=HEAD", 200).await;
    compared.has("2 collections differ").has("<b>Posts</b>").has("<b>All posts</b>").has("-name: Posts");
    get_page(&server, "/problems", 200).await.has("Nothing is wrong");
    get_page(&server, "/about", 200)
        .await
        .has(env!("CARGO_PKG_VERSION"))
        .has("bodyBytesMax")
        .has("<dt>Remote</dt><dd>none</dd>");
}

#[tokio::test]
async fn the_highest_bar_of_the_timeline_is_that_of_the_busiest_day_shown() {
    // The fixture's commit is older than the days that the chart shows, and has more events than today.
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    server.patch("posts", json!({"name": "All posts"})).await.is(200);
    get_page(&server, "/events", 200).await.has("y=\"0\" width=\"8\" height=\"48\"");
}

#[tokio::test]
async fn the_timeline_can_be_narrowed_to_every_origin_of_a_commit() {
    let server = with_history().await;
    let timeline = get_page(&server, "/events", 200).await;
    for origin in ["api", "work-tree", "git", "command", "merge"] {
        timeline.has(&format!("<option value=\"{origin}\">"));
    }
    get_page(&server, "/events?origin=merge", 200)
        .await
        .has("<option value=\"merge\" selected>")
        .has("0 events");
}

#[tokio::test]
async fn everything_is_shown_as_of_a_revision_and_leads_back() {
    let server = with_history().await;
    for revision in ["HEAD~2", "HEAD~2 "] {
        let asked = format!("/?asOf={}&q=o", revision.replace(' ', "%20"));
        let list = get_page(&server, &asked, 200).await;
        list.has("href=\"/ui/collections/old?asOf=HEAD~2\"").has(">Posts<").lacks("All posts");
        list.has("As it was").has("href=\"/ui/?q=o\">Back to the present").lacks("data-stream");
    }
    get_page(&server, "/collections/old?asOf=HEAD~2", 200)
        .await
        .has("Old")
        .has("/ui/collections/old/source?asOf=HEAD~2");
    let source = get_page(&server, "/collections/posts/source?asOf=HEAD~2", 200).await;
    source.has("<code>name: Posts</code>").has("It starts").lacks("Twice in the bar");
    get_page(&server, "/collections/posts/history?asOf=HEAD~2", 200).await.has("1 event.");
    get_page(&server, "/events?asOf=HEAD~2", 200).await.has("3 events");
    get_page(&server, "/problems?asOf=HEAD~2", 200).await.has("Nothing is wrong at this point");
    get_page(&server, "/?asOf=deadbeef", 404).await.has("no revision `deadbeef`");
    get_page(&server, "/collections/old?asOf=HEAD", 404).await;
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_leads_on() {
    let server = with_history().await;
    get_page(&server, "/nothing", 404).await.has("Nothing is found at").has("Search the collections");
    get_page(&server, "/collections/never", 404).await.has("Collection &#39;never&#39; not found.");
    get_page(&server, "/collections/old", 404).await.has("It was deleted by anonymous");
    get_page(&server, "/collections/%3Cscript%3E", 404).await.has("&lt;script&gt;").lacks("<script>");
    get_page(&server, "/events/0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e", 404).await;
    get_page(&server, "/compare?from=deadbeef&to=HEAD", 404).await.has("Search the");
    get_page(&server, "/compare?from=no..pe&to=HEAD", 400).await.has("Search the");
    let answer = server.request("DELETE", "/ui/").send().await;
    assert_eq!(checked(answer, 405).header("allow"), Some("GET, HEAD"));
}

#[tokio::test]
async fn the_list_is_searched_filtered_sorted_and_paged() {
    let server = TestServer::setup("small").unborn().auth(Auth::None).start().await;
    let many = (0..101).map(|n| {
        let name = format!("Name {:03}", 100 - n);
        add_operation(&document(&format!("k{n:03}"), json!({"name": name})))
    });
    server.operations(many.collect()).await.is(200);
    server.create(&media("pictures", json!({"directory": "media/In Here"}))).await.is(201);
    let keys = |page: &super::Page| page.between("<th scope=\"row\"><a href=\"/ui/collections/", "\"");
    let first = get_page(&server, "/", 200).await;
    first.has("1 to 100 of 102").has("rel=\"next\"");
    assert_eq!((keys(&first).len(), keys(&first)[0].as_str()), (100, "k000"));
    assert_eq!(keys(&get_page(&server, "/?page=2", 200).await), ["k100", "pictures"]);
    assert_eq!(keys(&get_page(&server, "/?sort=-key&page=1", 200).await)[0], "pictures");
    assert_eq!(keys(&get_page(&server, "/?sort=name", 200).await)[..2], ["pictures", "k100"]);
    assert_eq!(keys(&get_page(&server, "/?kind=media", 200).await), ["pictures"]);
    assert_eq!(keys(&get_page(&server, "/?q=in%20here", 200).await), ["pictures"]);
    assert_eq!(keys(&get_page(&server, "/?q=NAME+007", 200).await), ["k093"]);
    server.patch("k050", json!({"directory": "moved"})).await.is(200);
    assert_eq!(keys(&get_page(&server, "/?sort=-change", 200).await)[..2], ["k050", "pictures"]);
    assert_eq!(keys(&get_page(&server, "/?sort=change&page=2", 200).await), ["pictures", "k050"]);
    assert_eq!(keys(&get_page(&server, "/?sort=-change&q=k0", 200).await)[0], "k050");
    get_page(&server, "/?q=zzz", 200).await.has("None of 102 collections match");
    get_page(&server, "/?mark=uncommitted", 200).await.has("None of 102");
    for beyond in ["/?page=3", "/?page=18446744073709551615"] {
        let last = get_page(&server, beyond, 200).await;
        assert!(last.html.contains("101 to 102 of 102"), "{}", last.html);
        assert_eq!(keys(&last), ["k100", "pictures"]);
    }
}

#[tokio::test]
async fn an_empty_service_says_how_to_begin() {
    let server = TestServer::setup("small").unborn().start().await;
    get_page(&server, "/", 200).await.has("There are no collections yet").has("type: document");
    for path in ["/problems", "/about", "/events", "/compare"] {
        get_page(&server, path, 200).await;
    }
}

#[tokio::test]
async fn a_broken_file_is_shown_with_a_caret_and_a_saved_one_is_marked() {
    let mut server = with_history().await;
    server.repo().write("collections/posts.yaml", "type: document\nname: [All\n");
    server.repo().write("collections/photos.yaml", "type: media\nname: Saved\n");
    eventually("both are noticed", || async {
        let page = get_page(&server, "/problems", 200).await;
        let list = get_page(&server, "/", 200).await;
        (page.html.contains("[All") && list.html.contains("Saved")).then_some(())
    })
    .await;
    let page = get_page(&server, "/problems", 200).await;
    page.has("collections/posts.yaml:2:7")
        .has("<code>name: [All</code>")
        .has("      ^</code>")
        .has("last good");
    get_page(&server, "/", 200).await.has("problem</span>").has("not committed</span>").has(">1</span>");
    get_page(&server, "/collections/posts", 200).await.has("collections/posts.yaml:2:7").has("All posts");
    get_page(&server, "/collections/posts/source", 200).await.has("<code>name: [All</code>").has("Column 7:");
    get_page(&server, "/collections/photos/source", 200)
        .await
        .has("<code>name: Saved</code>")
        .has("not committed");
    server.expect_git_status(" M collections/photos.yaml\n M collections/posts.yaml\n");
}

#[tokio::test]
async fn a_file_that_never_was_valid_stands_among_the_collections() {
    let mut server = with_history().await;
    server.repo().write("collections/new.yaml", "type: document\nname: [New\n");
    server.expect_git_status("?? collections/new.yaml");
    server.wait_for_problem("collections/new.yaml").await;
    let newest = get_page(&server, "/?sort=-change", 200).await;
    let keys = newest.between("<th scope=\"row\"><a href=\"/ui/collections/", "\"");
    assert_eq!(keys, ["new", "posts", "photos"], "what nobody has committed was changed last");
    newest.has("1 to 3 of 3").has("problem</span>");
    get_page(&server, "/?mark=broken", 200).await.has("1 to 1 of 1, out of 3").has("/ui/collections/new\"");
    get_page(&server, "/collections/new", 200).await.has("collections/new.yaml:2:7").has("not served");
}

#[tokio::test]
async fn the_contents_of_others_do_no_harm() {
    let server = TestServer::setup("small").unborn().auth(Auth::AllowAll).start().await;
    let name = "<script>alert(1)</script>\" onmouseover=\"x \u{202e}evil\u{0007}";
    let request = server
        .request("POST", "/collections")
        .header("Commit-Message-Encoded", "%3Cimg%20src%3Dx%3E%E2%80%AE");
    let long = "x".repeat(60_000);
    let statuses: serde_json::Map<_, _> =
        (0..200).map(|n| (format!("s{n}<b>"), json!({"directory": "d", "name": "N"}))).collect();
    let content = json!({"name": name, "unpublishedStatuses": statuses});
    request.document(&document("posts", content)).send().await.is(201);
    server.create(&document("long", json!({"x-long": long}))).await.is(201);
    for path in [
        "/",
        "/collections/posts",
        "/collections/posts/source",
        "/collections/posts/history",
        "/events",
        "/collections/long",
        "/compare?from=HEAD&to=HEAD~1",
    ] {
        let page = get_page(&server, path, 200).await;
        page.lacks("<script>alert")
            .lacks("\" onmouseover")
            .lacks("<img src")
            .lacks("\u{202e}")
            .lacks("s1<b>");
    }
    let page = get_page(&server, "/collections/posts", 200).await;
    page.has("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onmouseover=&quot;x ⟨U+202E⟩evil⟨U+0007⟩");
}

#[tokio::test]
async fn a_browser_is_led_to_the_pages_and_a_program_is_not() {
    let server = TestServer::setup("small").base_path("/settings/v1").start().await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let led = server.request("GET", "/").header("Accept", browser).send().await;
    assert_eq!((led.status, led.header("location")), (303, Some("/settings/v1/ui/")));
    server.get("/").await.is(404);
    server.request("GET", "/").header("Accept", "*/*").send().await.is(404);
    server.request("GET", "/nothing").header("Accept", browser).send().await.is(404);
    let list = get_page(&server, "/", 200).await;
    list.has("href=\"/settings/v1/ui/collections/posts\"").lacks("\"/ui/");
    let assets = list.between("\"/settings/v1/ui/assets/", "\"");
    assert_eq!(assets.len(), 3);
    for asset in assets {
        let answer = server.get(&format!("/ui/assets/{asset}")).await;
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (200, Some("public, max-age=31536000, immutable"))
        );
        let bytes_max = if asset.ends_with(".js") { 15_000 } else { 20_000 };
        assert!(answer.body.len() < bytes_max, "{asset} has {} bytes", answer.body.len());
    }
    get_page(&server, "/assets/ui-0000.css", 404).await;
}

#[tokio::test]
async fn a_full_page_with_its_assets_is_light_as_it_is_sent() {
    let server = TestServer::setup("small").auth(Auth::AllowAll).start().await;
    let made = |n| {
        let directory = format!("content/departments/{n:03}/news-and-press-releases");
        let content =
            json!({"name": format!("News and press releases of department {n}"), "directory": directory});
        add_operation(&document(&format!("news-and-press-releases-{n:03}"), content))
    };
    server.operations((0..100).map(made).collect()).await.is(200);
    let sent = async |path: String| {
        let answer = server.request("GET", &path).header("Accept-Encoding", "gzip").send().await;
        assert_eq!(
            answer.header("vary").is_some_and(|vary| vary.contains("Accept-Encoding")),
            !path.ends_with("svg")
        );
        answer.header("content-length").unwrap().parse::<usize>().unwrap()
    };
    let plain = get_page(&server, "/", 200).await;
    let mut bytes = sent("/ui/".to_owned()).await;
    for asset in plain.between("\"/ui/assets/", "\"") {
        bytes += sent(format!("/ui/assets/{asset}")).await;
    }
    assert!(plain.html.len() > 30_000 && bytes < 20_000, "{} and {bytes}", plain.html.len());
}

#[tokio::test]
async fn without_pages_every_path_is_one_of_the_api() {
    let server = TestServer::setup("small").flag(&["--ui", "off"]).start().await;
    for path in ["/ui/", "/ui/about", "/"] {
        server.request("GET", path).header("Accept", "text/html").send().await.is(404);
    }
}

#[tokio::test]
async fn a_page_for_another_host_is_refused_with_a_page() {
    let server = TestServer::start("small").await;
    let answer = server.request("GET", "/ui/").header("Host", "evil.example").send().await;
    checked(answer, 421).has("does not know that host");
}
