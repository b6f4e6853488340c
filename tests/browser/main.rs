//! The web page as people meet it: the real program in a real browser.
//!
//! Needs Debian's `chromium` and `chromium-driver`, and for accessibility and valid HTML the packages of
//! `tests/browser/package.json` (`npm ci`). `.ci/run` installs them; where they are missing the tests say so
//! and check nothing, unless `COLLECTORY_BROWSER=required`.
//!
//! Every page of a run is left as a picture in `target/tmp/pages`; with `COLLECTORY_PICTURES=examples/pictures`
//! the three that README shows are made anew.

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
