//! Checks for every page: it is accessible, valid and small, and fits any window.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::browser::{Browser, LOOKS, Look};
use crate::driver::is_there;

/// Maximum size of a page with its assets, as sent.
const PAGE_BYTES_MAX: u64 = 60_000;

/// Maximum size of the script, as sent.
const SCRIPT_BYTES_MAX: u64 = 15_000;

/// WCAG 2.2 AA, and the further rules that axe-core calls best practice.
const RULES: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

const RUN_AXE: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { runOnly: arguments[0] }).then(
      ({ violations }) => done(violations.map((it) => it.id + ': ' + it.help + ' ' + it.nodes.map((node) => node.target + ' ' + node.failureSummary + ' ' + node.html).join('; '))),
      (error) => done([String(error)]));";

/// A script that returns the page as it was sent. A page that answers a POST is read from the DOM instead.
const SERVED: &str = "const done = arguments[0];
    fetch(location.href, { headers: { Accept: 'text/html' } }).then((answer) => answer.text()).then(done);";

const WEIGHT: &str = "const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .filter((it) => it.initiatorType !== 'fetch');
    return { page: all.reduce((sum, it) => sum + it.encodedBodySize, 0),
             script: all.filter((it) => it.name.endsWith('.js')).reduce((sum, it) => sum + it.encodedBodySize, 0),
             styles: all.filter((it) => it.name.endsWith('.css')).length,
             elsewhere: all.filter((it) => !it.name.startsWith(location.origin)).map((it) => it.name) };";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// Checks the pages of one test as they are shown.
pub(crate) struct Checked<'a> {
    browser: &'a Browser,
    axe: String,
    /// The folder for screenshots and the HTML as it was sent.
    kept: PathBuf,
    violations: Vec<String>,
}

impl<'a> Checked<'a> {
    /// Returns `None` where the checkers are not installed.
    pub(crate) fn new(browser: &'a Browser, name: &str) -> Option<Self> {
        let axe = folder().join("node_modules/axe-core/axe.min.js");
        if !is_there(&[&axe], "npm ci --prefix tests/browser") {
            return None;
        }
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
        fs::remove_dir_all(&kept).ok();
        fs::create_dir_all(&kept).unwrap();
        Some(Self { browser, axe: fs::read_to_string(axe).unwrap(), kept, violations: Vec::new() })
    }

    /// Goes to a page and checks it in every look.
    pub(crate) async fn visit(&mut self, name: &str, path: &str) {
        self.browser.goto(path).await;
        let weight = self.browser.run(WEIGHT).await;
        let bytes = |what: &str| weight[what].as_u64().unwrap();
        self.expect(bytes("page") <= PAGE_BYTES_MAX, name, || format!("is too heavy: {weight}"));
        self.expect(bytes("script") <= SCRIPT_BYTES_MAX, name, || format!("has too much script: {weight}"));
        self.expect(weight["styles"] == 1, name, || format!("has one stylesheet: {weight}"));
        self.expect(weight["elsewhere"] == json!([]), name, || format!("loads from elsewhere: {weight}"));
        let html = self.browser.wait_for(SERVED, Vec::new()).await;
        fs::write(self.kept.join(format!("{name}.html")), html.as_str().unwrap()).unwrap();
        self.here(name).await;
    }

    /// Checks the current page in every look.
    pub(crate) async fn here(&mut self, name: &str) {
        self.browser.run(&self.axe).await;
        for look in LOOKS {
            self.browser.look(look).await;
            let found = self.browser.wait_for(RUN_AXE, vec![json!(RULES)]).await;
            let found = found.as_array().unwrap().iter().filter_map(Value::as_str);
            self.violations.extend(found.map(|it| format!("{name}, {}: {it}", look.name)));
            let png = self.browser.picture(true).await;
            fs::write(self.kept.join(format!("{name}-{}.png", look.name)), png).unwrap();
        }
        self.browser.look(Look { width: 320, ..LOOKS[0] }).await;
        let wide = self.browser.run("return document.documentElement.scrollWidth").await;
        self.expect(wide.as_u64().unwrap() <= 320, name, || format!("scrolls sideways at 320: {wide}"));
        self.browser.look(LOOKS[0]).await;
    }

    /// Saves the current DOM for the validator and checks the page: for a page that answers a POST.
    pub(crate) async fn posted(&mut self, name: &str) {
        let html = self.browser.run("return '<!DOCTYPE html>\\n' + document.documentElement.outerHTML").await;
        fs::write(self.kept.join(format!("{name}.html")), html.as_str().unwrap()).unwrap();
        self.here(name).await;
    }

    fn expect(&mut self, is_so: bool, name: &str, what: impl FnOnce() -> String) {
        if !is_so {
            self.violations.push(format!("{name} {}", what()));
        }
    }

    /// Asserts that every page is valid HTML and that no page had a violation.
    pub(crate) async fn finish(self) {
        let validator = folder().join("node_modules/.bin/html-validate");
        let output = Command::new(validator)
            .args(["--config", "html-validate.json", "--formatter", "text"])
            .arg(format!("{}/*.html", self.kept.display()))
            .current_dir(folder())
            .output()
            .expect("node runs");
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "not valid HTML:\n{report}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(self.violations.is_empty(), "{:#?}", self.violations);
        Browser::assert_none(&self.browser.complaints().await);
    }
}
