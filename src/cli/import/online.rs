//! An import through a running service, in one batch.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail};

use super::Target;
use crate::cli::flags::client::{Url, is_refused};
use crate::domain::{Catalog, Collection, Command, Key, Kind, Patch, Value};
use crate::exchange::{self, ExistingCollections};

impl Target {
    /// Returns what the service shows to the holder of the token.
    pub(super) fn existing_collections(&self, url: &Url) -> anyhow::Result<ExistingCollections> {
        let catalog = self.collections(&url.join(&["collections"]))?.0;
        let mut broken = self.problems(&url.join(&["problems"]))?;
        broken.retain(|key, _| catalog.get(key.as_str()).is_none());
        Ok(ExistingCollections { catalog, broken, is_served: true })
    }

    /// Returns the first fault of each broken file whose name is that of a collection.
    fn problems(&self, url: &str) -> anyhow::Result<BTreeMap<Key, String>> {
        let bytes = match self.client.get(url) {
            Ok((bytes, _)) => bytes,
            // A client that may not list problems learns of them when the batch is refused.
            Err(error) if is_refused(&error) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let document: serde_json::Value = serde_json::from_slice(&bytes)
            .with_context(|| format!("{url} answers what is no document of this API"))?;
        let mut problems = BTreeMap::new();
        for problem in document["data"].as_array().into_iter().flatten() {
            let attributes = &problem["attributes"];
            let text = |name: &str| attributes[name].as_str().unwrap_or_default();
            if let Ok(key) = Key::parse(text("collection"))
                && text("kind") == "file"
            {
                let [path, message] = ["path", "message"].map(text);
                let (line, column) = (&attributes["line"], &attributes["column"]);
                problems.entry(key).or_insert_with(|| format!("{path}:{line}:{column}: {message}"));
            }
        }
        Ok(problems)
    }

    /// Reads a document of the service and returns its collections and its entity tag.
    fn collections(&self, url: &str) -> anyhow::Result<(Catalog, Option<String>)> {
        let (bytes, tag) = self.client.get(url)?;
        let unreadable = || format!("{url} answers what is no document of this API");
        let source =
            exchange::served(&bytes).map_err(|fault| anyhow!(fault.message)).with_context(unreadable)?;
        if let Some(fault) = source.faults.first() {
            return Err(anyhow!("{}", fault.message)).with_context(unreadable);
        }
        Ok((source.candidates.into_iter().map(|it| it.collection).collect(), tag))
    }

    /// Has the service carry out the plan, all or nothing; returns the commit.
    ///
    /// Each change names the version that it is based on, so it overwrites no changes made since then.
    pub(super) fn send(
        &self,
        url: &Url,
        commands: &[Command],
        planned_on: &Catalog,
    ) -> anyhow::Result<Option<String>> {
        let operations: anyhow::Result<Vec<Value>> =
            commands.iter().map(|command| self.operation(url, command, planned_on)).collect();
        let body = Value::from([("atomic:operations", Value::List(operations?.into()))]).to_string();
        let report = self.client.operate(&url.join(&["operations"]), body, self.reason.as_deref());
        let report = report.map_err(|error| match is_refused(&error) {
            true => error.context("nothing was written"),
            false => error.context("nothing was written, or all of it: import again to see"),
        });
        Ok(report?.revision)
    }

    fn operation(&self, url: &Url, command: &Command, planned_on: &Catalog) -> anyhow::Result<Value> {
        let before = |key: &Key| planned_on.get(key.as_str()).context("BUG: planned on nothing");
        match command {
            Command::Create(collection) => {
                Ok([("op", "add".into()), ("data", resource(collection, attributes(collection)))].into())
            }
            Command::Update { key, patch, .. } => {
                let before = before(key)?;
                let data = resource(before, members(patch));
                Ok([("op", "update".into()), ("data", data), ("meta", self.tag(url, before)?)].into())
            }
            Command::Delete { key, .. } => {
                let before = before(key)?;
                Ok([
                    ("op", "remove".into()),
                    ("ref", identity(before).into()),
                    ("meta", self.tag(url, before)?),
                ]
                .into())
            }
            Command::Restore(_) => bail!("BUG: an import restores nothing"),
        }
    }

    /// Returns the version that a change is based on, if it is still the planned one.
    fn tag(&self, url: &Url, before: &Collection) -> anyhow::Result<Value> {
        let key = before.key();
        let (now, tag) = self.collections(&url.join(&["collections", key.as_str()]))?;
        match (now.get(key.as_str()), tag) {
            (Some(now), Some(tag)) if **now == *before => Ok([("ifMatch", tag.into())].into()),
            _ => bail!("{key} has changed meanwhile; nothing was written, import again"),
        }
    }
}

fn identity(collection: &Collection) -> [(&'static str, Value); 2] {
    let kind = match collection.kind() {
        Kind::Document => "document-collection",
        Kind::Media => "media-collection",
    };
    [("type", kind.into()), ("id", collection.key().as_str().into())]
}

fn resource(collection: &Collection, attributes: Value) -> Value {
    let [kind, id] = identity(collection);
    [kind, id, ("attributes", attributes)].into()
}

fn attributes(collection: &Collection) -> Value {
    let all = collection.attributes().iter();
    Value::Map(all.map(|(name, value)| (name.to_string(), value.clone())).collect())
}

fn members(patch: &Patch) -> Value {
    Value::Map(patch.attributes().iter().cloned().collect())
}
