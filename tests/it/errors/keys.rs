//! Every part of the rule for keys, applied to ids in documents.

use serde_json::json;

use super::{Case, post};

const BAD: &[&str] = &[
    "",
    " ",
    ".",
    "..",
    "../etc",
    "/",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a b",
    " a",
    "a ",
    "a\n",
    "a\u{0}",
    "a\u{7f}",
    ".hidden",
    "-flag",
    "--flag",
    "pösts",
    "日本",
    "🎉",
    "a%2fb",
    "%2e%2e",
    "a?b",
    "a#b",
    "a:b",
    "a*",
    "a\"b",
    "a'b",
    "a<b",
    "a|b",
    "a~b",
    "a@b",
    "a+b",
    "posts.",
    "posts..",
    "posts.yaml",
    "posts.YML",
    "posts.lock",
    "con",
    "CON",
    "nul",
    "aux",
    "prn",
    "com1",
    "Com9.txt",
    "lpt1",
    "con.posts",
    "\u{202e}stsop",
    "po\u{200b}sts",
    "a\u{301}",
    "${HOME}",
    "$(id)",
    "`id`",
    "a;b",
    "a&b",
];

pub(crate) fn cases() -> Vec<Case> {
    let long = ["k".repeat(129), "k".repeat(100_000)];
    let bad = BAD.iter().map(|&key| key.to_owned()).chain(long);
    bad.map(|key| {
        let body = json!({"data": {"type": "document-collection", "id": key}}).to_string();
        post(body).is(400, "invalid_data").pointer("/data/id")
    })
    .chain(["Posts", "POSTS", "posts", "IMAGES"].map(|key| {
        let body = json!({"data": {"type": "document-collection", "id": key}}).to_string();
        post(body).is(409, "conflict").pointer("/data/id")
    }))
    .collect()
}
