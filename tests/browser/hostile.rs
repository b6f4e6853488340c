//! Malicious contents, and the limits of what a page may do.

use serde_json::{Map, json};

use crate::browser::{Browser, LOOKS, Look, Script};
use crate::scene::open;
use crate::support::document;

/// Scripts that would leave a trace, in every way that could make a page run them.
const ATTACKS: [&str; 6] = [
    "<script>window.harmed = 1</script>",
    "\"><img src=x onerror=\"window.harmed = 1\">",
    "' onmouseover='window.harmed = 1' autofocus onfocus='window.harmed = 1",
    "</textarea></title></style><svg onload=window.harmed=1>",
    "javascript:window.harmed=1",
    "{{ 7 * 7 }} ${7 * 7} <!-- --><base href=//evil.example>",
];

#[tokio::test]
async fn contents_that_mean_harm_are_shown_and_do_none() {
    let server = open().await;
    for (at, attack) in ATTACKS.iter().enumerate() {
        let encoded: String = attack.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let content = json!({"name": format!("{attack}\u{202e}gnp.exe"), "documentTitleKey": attack, "x-note": [attack]});
        server
            .request("POST", "/collections")
            .header("Commit-Message-Encoded", &encoded)
            .document(&document(&format!("attack-{at}"), content))
            .send()
            .await
            .is(201);
    }
    let statuses: Map<_, _> = (0..500)
        .map(|n| (format!("s{n}<b>"), json!({"directory": format!("d/{n}"), "name": "N".repeat(50)})))
        .collect();
    server.create(&document("statuses", json!({"unpublishedStatuses": statuses}))).await.is(201);
    server
        .create(&document("long", json!({"name": "w".repeat(1_000), "x-long": "x".repeat(60_000)})))
        .await
        .is(201);
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    let events = server.get("/events").await.is(200).data();
    let mut paths: Vec<String> =
        ["/", "/events", "/compare?from=HEAD~8&to=HEAD", "/?q=%3Cscript%3E"].map(str::to_owned).into();
    for key in ["attack-0", "attack-1", "attack-2", "attack-3", "attack-4", "attack-5", "statuses", "long"] {
        paths.extend(
            ["", "/source", "/history", "/delete", "?asOf=HEAD"]
                .map(|page| format!("/collections/{key}{page}")),
        );
    }
    paths.extend(
        events.as_array().unwrap().iter().map(|event| format!("/events/{}", event["id"].as_str().unwrap())),
    );
    for path in &paths {
        browser.goto(path).await;
        let state = browser
            .run(
                "return { harmed: window.harmed || 0,
                          made: document.querySelectorAll('img, base, iframe, object, svg[onload], [onerror], [onmouseover], [onfocus]').length,
                          scripts: document.scripts.length,
                          wrong: [...document.links].filter((it) => !it.protocol.startsWith('http')).length,
                          hidden: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText) }",
            )
            .await;
        assert_eq!(
            state,
            json!({"harmed": 0, "made": 0, "scripts": 1, "wrong": 0, "hidden": false}),
            "{path}"
        );
        browser.look(Look { width: 320, ..LOOKS[0] }).await;
        let wide = browser.run("return document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= 320, "{path} scrolls sideways: {wide}");
        browser.look(LOOKS[0]).await;
    }
    let complaints = browser.complaints().await;
    Browser::assert_none(&complaints);
    // A malicious value stays unchanged when its form is saved.
    browser.goto("/collections/attack-0").await;
    browser.write("#f-directory", "content").await;
    browser.press("Save").await;
    browser.shows("Saved, in a commit").await;
    let name = server.read("attack-0").await.is(200).attributes()["name"].clone();
    assert_eq!(name, format!("{}\u{202e}gnp.exe", ATTACKS[0]));
}

#[tokio::test]
async fn the_policy_of_a_page_refuses_what_no_page_needs() {
    let server = open().await;
    let Some(browser) = Browser::open(&server, Script::Runs).await else { return };
    let other = open().await;
    for (what, attempt) in [
        (
            "inline script",
            "const it = document.createElement('script'); it.textContent = 'window.harmed = 1'; document.body.append(it);",
        ),
        (
            "an inline handler",
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"/x\" onerror=\"window.harmed = 1\">');",
        ),
        (
            "inline style",
            "document.body.insertAdjacentHTML('beforeend', '<style>body { color: red }</style>');",
        ),
        (
            "a script of others",
            "const it = document.createElement('script'); it.src = 'http://OTHER/ui/x.js'; document.body.append(it);",
        ),
        (
            "a picture of others",
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"http://OTHER/x.png\" alt=\"\">');",
        ),
        ("a question to others", "fetch('http://OTHER/collections').catch(() => {});"),
        (
            "a form to others",
            "const it = document.createElement('form'); it.method = 'post'; it.action = 'http://OTHER/ui/new'; document.body.append(it); it.submit();",
        ),
        ("a frame", "document.body.insertAdjacentHTML('beforeend', '<iframe src=\"/ui/\"></iframe>');"),
        (
            "another base",
            "const it = document.createElement('base'); it.href = 'http://OTHER/'; document.head.append(it);",
        ),
    ] {
        browser.goto("/new").await;
        browser.complaints().await;
        let attempt = attempt.replace("OTHER", &other.address().to_string());
        let refused = browser
            .wait_for(
                &format!(
                    "const done = arguments[0];
                     document.addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective), {{ once: true }});
                     {attempt}"
                ),
                Vec::new(),
            )
            .await;
        assert!(refused.is_string(), "{what} was not refused");
        assert_eq!(browser.run("return window.harmed || 0").await, 0, "{what}");
    }
    // A page of another site can neither frame these pages nor send their forms.
    browser.goto("/new").await;
    let framed = server.request("GET", "/ui/new").header("Accept", "text/html").send().await;
    assert!(framed.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    browser.blank(&format!(
        "<form method=post action=http://{}/ui/new><input name=key value=stolen><button>Send</button></form>",
        server.address()
    ))
    .await;
    browser.press("Send").await;
    browser.shows("Another site sent this form").await;
    server.read("stolen").await.is(404);
}
