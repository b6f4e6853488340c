//! Editor settings with which the YAML language server completes and checks collection files.
//!
//! The settings are personal and not part of the history: git ignores them in this clone only (`.git/info/exclude`).

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use crate::domain;
use crate::domain::file_name::path_in;

/// The folder in which VS Code, and editors that follow it, look for settings.
const FOLDER: &str = ".vscode";

/// The path of the schema inside the repository.
const SCHEMA: &str = ".vscode/collection.schema.json";

/// Writes the schema and the settings that refer to it.
pub(super) fn write_settings(repository: &Path, folder: &str) -> anyhow::Result<()> {
    let files = ["*.yaml", "*.yml"].map(|name| path_in(folder, name));
    fs::create_dir_all(repository.join(FOLDER)).context("cannot make the folder .vscode")?;
    write(repository, SCHEMA, &domain::schema().to_string())?;
    write(repository, ".vscode/settings.json", &format!("{:#}", json!({"yaml.schemas": {SCHEMA: files}})))?;
    let extensions = json!({"recommendations": ["redhat.vscode-yaml"]});
    write(repository, ".vscode/extensions.json", &format!("{extensions:#}"))?;
    let exclude = repository.join(".git/info/exclude");
    let mut exclude = OpenOptions::new().append(true).create(true).open(exclude)?;
    Ok(exclude.write_all(b"/.vscode/\n")?)
}

fn write(repository: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    fs::write(repository.join(name), format!("{text}\n")).with_context(|| format!("cannot write {name}"))
}
