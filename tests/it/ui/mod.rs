//! The web pages over HTTP, without a browser.

mod editing;
mod reading;
mod signing_in;

use std::collections::BTreeSet;

use crate::support::{Answer, Client};
pub(crate) use crate::ui::editing::filled;

/// A page that passed the checks for every page.
pub(crate) struct Page {
    pub(crate) html: String,
    answer: Answer,
}

impl Page {
    /// Asserts that the page contains a text.
    #[track_caller]
    pub(crate) fn has(&self, text: &str) -> &Self {
        assert!(self.html.contains(text), "{text:?} is not in\n{}", self.html);
        self
    }

    #[track_caller]
    pub(crate) fn lacks(&self, text: &str) -> &Self {
        assert!(!self.html.contains(text), "{text:?} is in\n{}", self.html);
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.answer.header(name)
    }

    /// Returns the texts between `start` and `end`, in order.
    pub(crate) fn between(&self, start: &str, end: &str) -> Vec<String> {
        let parts = self.html.split(start).skip(1);
        parts.filter_map(|part| Some(part.split_once(end)?.0.to_owned())).collect()
    }
}

/// Requests a page below `/ui`, as a browser does.
pub(crate) async fn get_page(client: &Client, path: &str, status: u16) -> Page {
    let request = client.request("GET", &format!("/ui{path}")).header("Accept", "text/html,*/*;q=0.8");
    checked(request.send().await, status)
}

#[track_caller]
pub(crate) fn checked(answer: Answer, status: u16) -> Page {
    let html = String::from_utf8(answer.body.clone()).expect("a page is UTF-8");
    assert_eq!(answer.status, status, "{}\n{html}", answer.request.target);
    let page = Page { html, answer };
    let says = |name: &str, value: &str| assert_eq!(page.header(name), Some(value), "{name}");
    says("content-type", "text/html; charset=utf-8");
    says("cache-control", "no-store");
    says("x-content-type-options", "nosniff");
    says("referrer-policy", "same-origin");
    says("cross-origin-opener-policy", "same-origin");
    says(
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    );
    assert_eq!(page.html.matches("<h1").count(), 1, "one h1:\n{}", page.html);
    assert!(page.html.starts_with("<!DOCTYPE html>\n<html lang=\"en\">"));
    for inline in [" style=", " onclick", " onload", "javascript:", "<style"] {
        page.lacks(inline);
    }
    assert_eq!(page.html.matches("<script").count(), page.html.matches("<script src=").count());
    let ids = page.between(" id=\"", "\"");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "an id twice: {ids:?}");
    for field in page.between("<label for=\"", "\"") {
        assert!(ids.contains(&field), "the label of {field} labels nothing");
    }
    page
}
