//! Import and export of the settings of other programs.
//!
//! ```text
//! bytes ──read──▶ ImportSource: candidates, skipped items, faults
//! ImportSource + existing collections ──plan──▶ ImportPlan: one line per key
//! ImportPlan ──commands──▶ one batch
//! Catalog ──write──▶ text of another program
//! ```
//!
//! Everything here is pure. The command line decides whether a plan is executed in a repository or through a running
//! service, and where bytes come from and go to. This module never guesses a setting that the source does not have,
//! and never imports what may contain a secret (the `backend` of a Decap configuration).

mod decap;
pub(crate) mod export;
mod json;
mod laika;
mod plan;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::domain::{Catalog, Value};
pub(crate) use crate::exchange::plan::{Existing, ExistingCollections, ImportPlan, PlanLine, PlanStep, plan};
pub(crate) use crate::exchange::source::{Candidate, ImportOptions, ImportSource};
use crate::format::Fault;
use crate::format::foreign::{self, ForeignNode};

/// The maximum number of bytes of a Decap configuration.
const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// A format of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The settings file of a Laika content store, as JSON or YAML.
    Laika,
    /// The configuration of Decap CMS and of the programs that read it too.
    Decap,
    /// The list document of our own API.
    Json,
}

/// A parsed file, and its format.
pub(crate) struct Parsed {
    root: ForeignNode,
    form: Form,
}

/// Parses settings; without `form`, detects their format.
///
/// # Errors
///
/// Returns why they can't be read.
pub(crate) fn parse(bytes: &[u8], form: Option<Form>) -> Result<Parsed, Fault> {
    let root = foreign::read(bytes)?.ok_or_else(|| Fault::at_start("the file is empty"))?;
    if !root.is_map() {
        return Err(root.at.fault(
            "this is no settings file: expected a map with `collections`, as Laika and Decap have it, or a document of the API",
        ));
    }
    let form = form.or_else(|| detect(&root)).ok_or_else(|| {
        root.at.fault(
            "this looks like no settings file: Laika's has a map `collections`, Decap's a list `collections`, a document of the API `data`",
        )
    })?;
    if form == Form::Decap && bytes.len() > CONFIG_BYTES_MAX {
        return Err(Fault::at_start(format!("a configuration has at most {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(Parsed { root, form })
}

impl Parsed {
    /// Reads the collections. The existing ones in `there` say which keys an earlier import gave them.
    ///
    /// # Errors
    ///
    /// Returns why nothing can be read; the [`ImportSource`] contains faults of single collections.
    pub(crate) fn read(&self, options: &ImportOptions, there: &Catalog) -> Result<ImportSource, Fault> {
        match self.form {
            Form::Laika => laika::read(&self.root, options),
            Form::Decap => decap::read(&self.root, options, there),
            Form::Json => json::read(&self.root),
        }
    }
}

/// Reads a document that a service returned.
///
/// # Errors
///
/// Returns why it can't be read.
pub(crate) fn served(bytes: &[u8]) -> Result<ImportSource, Fault> {
    json::read(&foreign::read(bytes)?.ok_or_else(|| Fault::at_start("there is nothing in it"))?)
}

/// Reads a JSON document that accompanies a settings file.
///
/// # Errors
///
/// Returns what can't be read, and where.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Value, Fault> {
    Ok(foreign::read(bytes)?.map_or(Value::Null, |node| node.to_value()))
}

/// The schemas that accompany a Laika settings file, by key.
pub(crate) type Schemas = BTreeMap<String, Value>;

/// Detects the format of settings.
fn detect(root: &ForeignNode) -> Option<Form> {
    const DECAP: [&str; 5] = ["backend", "media_folder", "publish_mode", "local_backend", "singletons"];
    let collections = root.get_non_null("collections");
    if root.get("data").is_some() {
        Some(Form::Json)
    } else if collections.is_some_and(ForeignNode::is_map) {
        Some(Form::Laika)
    } else if collections.is_some_and(|it| it.items().is_some())
        || DECAP.iter().any(|name| root.get(name).is_some())
    {
        Some(Form::Decap)
    } else {
        None
    }
}
