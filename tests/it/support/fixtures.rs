//! The files under `fixtures/`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the folder with the content of a fixture repository.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let path = root().join("repos").join(name);
    assert!(path.is_dir(), "there is no fixture {path:?}");
    path
}

/// Reads a request document.
pub(crate) fn request_fixture(name: &str) -> Value {
    let path = root().join("requests").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"));
    serde_json::from_str(&text).expect("a fixture request is JSON")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
