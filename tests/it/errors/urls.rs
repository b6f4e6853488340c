//! Paths and queries that do not exist.

use super::{Case, case};

/// Paths without a collection, including tricks of every kind.
const NOWHERE: &[&str] = &[
    "/",
    "/nothing",
    "/Collections",
    "/collections/",
    "//collections",
    "/collections//posts",
    "/collections/posts/",
    "/collections/posts/more",
    "/collections/nothing",
    "/collections/Posts",
    "/collections/posts.yaml",
    "/collections/.",
    "/collections/..",
    "/collections/../collections",
    "/collections/./posts",
    "/collections/../problems",
    "/collections/%2e%2e",
    "/collections/%2E%2E%2Fposts",
    "/collections/..%2f..%2fetc%2fpasswd",
    "/collections/..%5c..%5cwindows",
    "/collections/posts%2f",
    "/collections/posts%00",
    "/collections/%00",
    "/collections/posts%0a",
    "/collections/posts%20",
    "/collections/posts+",
    "/collections/%ff",
    "/collections/%c0%ae%c0%ae",
    "/collections/%",
    "/collections/%zz",
    "/collections/%2",
    "/collections/p%256fsts",
    "/collections/%252e%252e",
    "/collections/con",
    "/collections/-x",
    "/collections/posts;a=b",
    "/collections/posts:1",
    "/.git/config",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/index.html",
    "/favicon.ico",
    "/robots.txt",
    "/problem",
    "/problems/collections%2Fposts.yaml",
    "/livez/",
    "/openapi.json",
    "/openapi.yaml",
];

/// Queries that the list does not support, and the parameter that the error names.
const QUERIES: &[(&str, &str)] = &[
    ("include=", "include"),
    ("include=author", "include"),
    ("foo=bar", "foo"),
    ("fooBar=1", "fooBar"),
    ("asof", "asof"),
    ("sort=nothing", "sort"),
    ("sort=", "sort"),
    ("sort=name,", "sort"),
    ("sort=--name", "sort"),
    ("sort=+name", "sort"),
    ("sort=recursive", "sort"),
    ("filter=posts", "filter"),
    ("filter[bogus]=1", "filter[bogus]"),
    ("filter[]=1", "filter[]"),
    ("filter[type", "filter[type"),
    ("filter[type]x=1", "filter[type]x"),
    ("fields=name", "fields"),
    ("fields[_]=name", "fields[_]"),
    ("fields[]=name", "fields[]"),
    ("page=1", "page"),
    ("page[]=1", "page[]"),
    ("page[bogus]=1", "page[bogus]"),
    ("page[size]=0", "page[size]"),
    ("page[size]=-1", "page[size]"),
    ("page[size]=1.5", "page[size]"),
    ("page[size]=abc", "page[size]"),
    ("page[size]=", "page[size]"),
    ("page[size]=%2B5", "page[size]"),
    ("page[size]=%D9%A5", "page[size]"),
    ("page[size]=0x10", "page[size]"),
    ("page[limit]=0", "page[limit]"),
    ("page[limit]=1e1", "page[limit]"),
    ("page[limit]=ten", "page[limit]"),
    ("page[offset]=-1", "page[offset]"),
    ("page[offset]=x", "page[offset]"),
    ("page[number]=0", "page[number]"),
    ("page[number]=-1", "page[number]"),
    ("page[after]=%00", "page[after]"),
    ("page[after]=garbage", "page[after]"),
    ("page[before]=!!", "page[before]"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = NOWHERE.iter().map(|path| case("GET", path).is(404, "not_found")).collect();
    for path in ["/collections/nothing", "/collections/..", "/collections/%00"] {
        cases.push(case("DELETE", path).is(404, "not_found"));
        cases.push(case("HEAD", path).is(404, "not_found"));
        let body = r#"{"data": {"type": "document-collection", "id": "nothing"}}"#;
        cases.push(case("PATCH", path).text(body).is(404, "not_found"));
    }
    for (query, parameter) in QUERIES {
        let list = case("GET", &format!("/collections?{query}"));
        cases.push(list.status(400).parameter(parameter));
    }
    cases.extend(elsewhere());
    cases
}

/// Parameters on endpoints that take none.
fn elsewhere() -> Vec<Case> {
    let body = r#"{"data": {"type": "document-collection", "id": "new"}}"#;
    let update = r#"{"data": {"type": "document-collection", "id": "posts", "attributes": {"name": "x"}}}"#;
    vec![
        case("GET", "/collections/posts?include=x").status(400).parameter("include"),
        case("GET", "/collections/posts?sort=name").status(400).parameter("sort"),
        case("GET", "/collections/posts?filter[type]=media").status(400).parameter("filter[type]"),
        case("GET", "/collections/posts?page[size]=1").status(400).parameter("page[size]"),
        case("GET", "/collections/posts?foo").status(400).parameter("foo"),
        case("POST", "/collections?include=").text(body).status(400).parameter("include"),
        case("POST", "/collections?force=1").text(body).status(400).parameter("force"),
        case("PATCH", "/collections/posts?include=x").text(update).status(400).parameter("include"),
        case("PATCH", "/collections/posts?sort=id").text(update).status(400).parameter("sort"),
        case("DELETE", "/collections/posts?include=x").status(400).parameter("include"),
        case("DELETE", "/collections/posts?force=true").status(400).parameter("force"),
        case("GET", "/problems?include=x").status(400).parameter("include"),
        case("GET", "/problems?foo=1").status(400).parameter("foo"),
        case("GET", "/collections?sort=%ff").status(400),
        case("GET", "/collections?%ff=1").status(400),
        case("GET", "/collections?page[offset]=0&page[after]=").status(400),
        case("GET", &format!("/collections?{}", "a".repeat(20_000))).status(414),
        case("GET", &format!("/collections/{}", "k".repeat(20_000))).status(414),
    ]
}
