//! Tests of the web pages as people use them: the real program in a real browser.
//!
//! Needs Debian's `chromium` and `chromium-driver`, and the packages of `tests/browser/package.json` (`npm ci`) for
//! the checks of accessibility and HTML. `.ci/run` installs them. Where they are missing, the tests say so and check
//! nothing, unless `COLLECTORY_BROWSER=required`.
//!
//! A run leaves a screenshot of every page in `target/tmp/pages`. With `COLLECTORY_PICTURES=examples/pictures` it
//! also renews the three pictures of the README.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed, and says where")]

mod acting;
mod browser;
mod checks;
mod driver;
mod editor;
mod every_page;
mod hostile;
mod scene;
mod together;

#[path = "../it/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other suite needs more of it")]
mod support;
