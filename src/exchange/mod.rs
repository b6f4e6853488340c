//! Settings that come from other programs, and go to them.
//!
//! ```text
//! bytes ──read──▶ ImportSource: candidates, what is skipped, faults
//! ImportSource + what is there ──plan──▶ ImportPlan: one line a key ──commands──▶ one batch
//! Catalog ──write──▶ text of another program
//! ```
//!
//! Everything here is pure: whether a plan is carried out in a repository or through a running
//! service, and where bytes come from and go to, is the command line's business. What is never done
//! here: to guess a setting that the source does not have, and to take over what may hold a secret
//! (the `backend` of a Decap configuration).

mod decap;
pub(crate) mod export;
mod json;
mod laika;
mod plan;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use self::plan::{Existing, ImportPlan, PlanLine, PlanStep, There, plan};
pub(crate) use self::source::{Candidate, ImportOptions, ImportSource};
use crate::domain::{Catalog, Value};
use crate::format::Fault;
use crate::format::foreign::{self, ForeignNode};

/// The most bytes of a Decap configuration.
const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// A form that settings come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The settings file of a Laika content store, as JSON or YAML.
    Laika,
    /// The configuration of Decap CMS, and of those that read the same.
    Decap,
    /// The list document of our own API.
    Json,
}

/// A file that can be read, and its form.
pub(crate) struct Parsed {
    root: ForeignNode,
    form: Form,
}

/// Parses settings; without a form, in the one that they look like.
///
/// # Errors
///
/// Says why nothing can be read of them.
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
    /// Reads the collections; what is there already says under which keys it came.
    ///
    /// # Errors
    ///
    /// Says why nothing can be read; faults of single collections stand in the [`ImportSource`].
    pub(crate) fn read(&self, options: &ImportOptions, there: &Catalog) -> Result<ImportSource, Fault> {
        match self.form {
            Form::Laika => laika::read(&self.root, options),
            Form::Decap => decap::read(&self.root, options, there),
            Form::Json => json::read(&self.root),
        }
    }
}

/// Reads a document that a service gives.
///
/// # Errors
///
/// Says why it is none.
pub(crate) fn served(bytes: &[u8]) -> Result<ImportSource, Fault> {
    json::read(&foreign::read(bytes)?.ok_or_else(|| Fault::at_start("there is nothing in it"))?)
}

/// Reads a JSON document, for what stands beside a settings file.
///
/// # Errors
///
/// Says what can't be read, where.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Value, Fault> {
    Ok(foreign::read(bytes)?.map_or(Value::Null, |node| node.to_value()))
}

/// The schemas that stand beside a Laika settings file, by key.
pub(crate) type Schemas = BTreeMap<String, Value>;

/// What settings look like.
fn detect(root: &ForeignNode) -> Option<Form> {
    const DECAP: [&str; 5] = ["backend", "media_folder", "publish_mode", "local_backend", "singletons"];
    let collections = root.given("collections");
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
