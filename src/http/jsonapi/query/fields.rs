//! Sparse fieldsets.

use std::collections::HashSet;

use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::jsonapi::query::{Query, fields_of, member, not_understood, repeated};

/// The wanted attributes of one resource type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fieldset(HashSet<String>);

impl Fieldset {
    /// Whether the set contains this attribute.
    pub(crate) fn names(&self, attribute: &str) -> bool {
        self.0.contains(attribute)
    }
}

/// The wanted attributes by resource type; a type that is not named has all its attributes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    by_type: Vec<(String, Fieldset)>,
}

impl Fields {
    /// Returns the wanted attributes of a type; `None` means all.
    pub(crate) fn wanted(&self, resource_type: &str) -> Option<&Fieldset> {
        self.by_type.iter().find(|(name, _)| name == resource_type).map(|(_, wanted)| wanted)
    }

    /// Whether all attributes of all types are wanted.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    pub(crate) fn add(&mut self, resource_type: &str, value: &str) {
        let names = value.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        self.by_type.push((resource_type.to_owned(), Fieldset(names.collect())));
    }
}

/// The resource types of collections.
pub(crate) const COLLECTION_TYPES: &[&str] = &["document-collection", "media-collection"];

/// Parses the query of a path that answers with resources of these types and takes no other parameters.
///
/// # Errors
///
/// 400 with all unknown parameters.
pub(crate) fn fields(query: &Query, types: &[&str]) -> Result<Fields, ApiError> {
    fields_and_others(query, types, &[])
}

/// Parses the query of a path that answers with resources of these types; the caller reads the `others`.
///
/// # Errors
///
/// 400 with all unknown parameters.
pub(crate) fn fields_and_others(query: &Query, types: &[&str], others: &[&str]) -> Result<Fields, ApiError> {
    let mut fields = Fields::default();
    let mut faults = repeated(query);
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(resource_type)) if types.contains(&resource_type) => {
                fields.add(resource_type, value);
            }
            _ if others.contains(&name.as_str()) => {}
            _ => {
                let known: Vec<_> = fields_of(types).chain(others.iter().map(|&it| it.to_owned())).collect();
                faults.push(not_understood(name, &known));
            }
        }
    }
    if faults.is_empty() { Ok(fields) } else { Err(faults.into()) }
}

/// Parses the query of a path that takes only an optional `force=true`.
///
/// # Errors
///
/// 400 with all unknown parameters, or when `force` has another value.
pub(crate) fn force(query: &Query) -> Result<bool, ApiError> {
    fields_and_others(query, &[], &["force"])?;
    match query.first("force") {
        None => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(ApiError::new(Code::INVALID_DATA, "expected `true`").parameter("force")),
    }
}

/// Checks the query of a path that takes no parameters.
///
/// # Errors
///
/// 400 with all parameters.
pub(crate) fn none(query: &Query) -> Result<(), ApiError> {
    fields(query, &[]).map(|_| ())
}
