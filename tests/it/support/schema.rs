//! Checks every answer against the OpenAPI document.
//!
//! A schema of OpenAPI 3.1 is JSON Schema 2020-12. The document itself is therefore the schema to check with, with a
//! `$ref` to the response's schema at its root: `#/components/...` resolves in place.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::{Draft, Validator};
use serde_json::{Value, json};

use super::answer::SentRequest;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/openapi.yaml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"));
    serde_yaml::from_str(&text).expect("the OpenAPI document is YAML")
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The OpenAPI document from the source.
pub(crate) fn openapi() -> &'static Value {
    &DOCUMENT
}

/// Checks a JSON:API body against the schema of its path, method and status.
pub(crate) fn check(asked: &SentRequest, status: u16, body: &Value) -> Result<(), String> {
    let Some((item, prefixed)) = path_item(&asked.target) else {
        return without_path(asked, status);
    };
    let hidden = asked.target.contains("/openapi.") && status == 404;
    if (prefixed && status == 404) || hidden {
        return Ok(());
    }
    let method = asked.method.to_ascii_lowercase();
    if asked.method == method || openapi().pointer(&format!("{item}/{method}")).is_none() {
        let refused = matches!(status, 400 | 405 | 406 | 415 | 501);
        return if refused { Ok(()) } else { Err(format!("{method} is not in the OpenAPI document")) };
    }
    let responses = format!("{item}/{method}/responses");
    let response = [status.to_string(), format!("{}XX", status / 100), "default".to_owned()]
        .into_iter()
        .map(|name| resolved(&format!("{responses}/{name}")))
        .find(|pointer| openapi().pointer(pointer).is_some())
        .ok_or_else(|| format!("the OpenAPI document does not know {status} here"))?;
    let media_types = openapi().pointer(&format!("{response}/content")).and_then(Value::as_object);
    let media_type = media_types
        .and_then(|types| types.keys().find(|name| name.starts_with("application/vnd.api+json")))
        .ok_or_else(|| format!("the OpenAPI document has no body for {status} here"))?;
    let pointer = format!("{response}/content/{}/schema", escaped(media_type));
    let faults: Vec<_> = validator(&pointer).iter_errors(body).map(|error| error.to_string()).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("against {pointer}:\n{}", faults.join("\n"))) }
}

/// Checks paths outside the document: health, and paths that do not exist.
fn without_path(asked: &SentRequest, status: u16) -> Result<(), String> {
    let path = asked.target.split('?').next().unwrap_or_default();
    let health = path.ends_with("/livez") || path.ends_with("/readyz");
    let refused = matches!(status, 400 | 404 | 405 | 414 | 431);
    if health || refused { Ok(()) } else { Err(format!("{path} is not in the OpenAPI document")) }
}

/// Returns the pointer to the path item of a request's path, and whether a prefix precedes the path (a base path, if
/// it is the right one).
fn path_item(target: &str) -> Option<(String, bool)> {
    let path = target.split('?').next().unwrap_or_default();
    let parts: Vec<_> = path.split('/').skip(1).collect();
    let paths = openapi()["paths"].as_object()?;
    let fits = |template: &str| {
        let wanted: Vec<_> = template.split('/').skip(1).collect();
        parts.len() >= wanted.len()
            && wanted
                .iter()
                .zip(&parts[parts.len() - wanted.len()..])
                .all(|(want, found)| want == found || (want.starts_with('{') && !found.is_empty()))
    };
    let literal = |template: &&String| template.matches('{').count();
    let best = paths.keys().filter(|template| fits(template)).min_by_key(literal)?;
    let prefixed = parts.len() > best.split('/').count() - 1;
    Some((resolved(&format!("/paths/{}", escaped(best))), prefixed))
}

/// Follows references to the content.
fn resolved(pointer: &str) -> String {
    let mut pointer = pointer.to_owned();
    while let Some(next) = openapi().pointer(&pointer).and_then(|value| value["$ref"].as_str()) {
        pointer = next.trim_start_matches('#').to_owned();
    }
    pointer
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn validator(pointer: &str) -> Arc<Validator> {
    let mut known = VALIDATORS.lock().expect("no test panics while it holds this");
    Arc::clone(known.entry(pointer.to_owned()).or_insert_with(|| {
        let mut schema = openapi().clone();
        let fragment: String = pointer
            .chars()
            .map(|c| match c {
                '{' => "%7B".to_owned(),
                '}' => "%7D".to_owned(),
                '"' => "%22".to_owned(),
                other => other.to_string(),
            })
            .collect();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["$ref"] = json!(format!("#{fragment}"));
        let validator = jsonschema::options().with_draft(Draft::Draft202012).build(&schema);
        Arc::new(
            validator.unwrap_or_else(|error| panic!("the schema at {pointer} does not compile: {error}")),
        )
    }))
}
