//! What is typed into the form, with its errors and notes.

use crate::domain::{Kind, Value};
use crate::http::jsonapi::error::ErrorObject;
use crate::http::jsonapi::resource_type::resource_type;
use crate::http::ui::fields::{Field, FieldError, FormSettings};
use crate::http::ui::form::PostedForm;
use crate::http::ui::words::{DiffLine, diff_lines, items, member, text};

#[derive(Default)]
pub(crate) struct EditForm {
    pub(super) key: String,
    pub(super) kind: Option<Kind>,
    /// The entity tag of the collection that the form was made from.
    pub(super) tag: String,
    pub(super) settings: FormSettings,
    pub(super) reason: String,
    pub(super) key_errors: Vec<String>,
    pub(super) reason_errors: Vec<String>,
    /// Errors about no field in particular.
    pub(super) errors: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) commits: Option<Vec<CommitPreview>>,
}

pub(crate) struct CommitPreview {
    pub(crate) message: String,
    pub(crate) author: String,
    pub(crate) lines: Vec<DiffLine>,
}

impl CommitPreview {
    /// The commits of a dry run.
    pub(crate) fn list(document: &Value) -> Vec<Self> {
        let commits = items(member(document, "meta"), "commits");
        let commit = |commit: &Value| Self {
            message: text(commit, "message").to_owned(),
            author: text(member(commit, "author"), "name").to_owned(),
            lines: items(commit, "files")
                .iter()
                .flat_map(|file| diff_lines(text(file, "difference")))
                .collect(),
        };
        commits.iter().map(commit).collect()
    }
}

impl EditForm {
    /// Every error with the field that it links to, for the top of the page.
    pub(super) fn summary(&self) -> Vec<(String, String)> {
        let at = |id: &str, errors: &[String]| -> Vec<_> {
            errors.iter().map(|error| (format!("#{id}"), error.clone())).collect()
        };
        let mut summary: Vec<(String, String)> =
            self.errors.iter().map(|error| (String::new(), error.clone())).collect();
        summary.extend(at("f-id", &self.key_errors));
        for field in &self.settings.fields {
            let listed =
                |error: &FieldError| (format!("#{}", error.at), format!("{}: {}", field.name, error.text));
            summary.extend(field.errors.iter().map(listed));
            if field.overlap.is_some() {
                let message =
                    format!("{}: somebody else changed it too; choose which one stays.", field.name);
                summary.extend(at(&format!("o-{}", field.name), &[message]));
            }
        }
        summary.extend(at("f-reason", &self.reason_errors));
        summary
    }

    /// The id of the first input that has an error or an overlap; empty if there is none.
    pub(super) fn first_invalid_input(&self) -> String {
        let wrong = |field: &Field| {
            let in_question = || field.overlap.is_some().then(|| field.own_id());
            field.errors.first().map(|error| error.at.clone()).or_else(in_question)
        };
        match self.settings.fields.iter().find_map(wrong) {
            _ if !self.key_errors.is_empty() => "f-id".to_owned(),
            Some(id) => id,
            None if !self.reason_errors.is_empty() => "f-reason".to_owned(),
            None => String::new(),
        }
    }

    pub(super) fn kind_is(&self, kind: &str) -> bool {
        self.kind.is_some_and(|it| it.as_str() == kind)
    }

    pub(super) fn posted(key: &str, kind: Kind, posted: &PostedForm) -> Self {
        let mut settings = FormSettings::posted(kind, posted);
        settings.apply_choices(kind, posted);
        Self {
            key: key.to_owned(),
            kind: Some(kind),
            tag: posted.get("tag").to_owned(),
            settings,
            reason: posted.get("reason").trim().to_owned(),
            ..Self::default()
        }
    }

    /// Adds every error to its field.
    pub(super) fn blame(&mut self, errors: Vec<ErrorObject>) {
        let places = self.settings.field_indexes();
        for error in errors {
            let detail = error.detail.to_string();
            match error.place() {
                Some("/data/id") => self.key_errors.push(detail),
                Some("/meta/reason") => self.reason_errors.push(detail),
                Some(pointer) if self.settings.blame(&places, pointer, &detail) => {}
                Some(_) | None => self.errors.push(detail),
            }
        }
    }

    pub(super) fn resource(&self, attributes: Vec<(String, Value)>) -> Value {
        let kind = self.kind.unwrap_or(Kind::Document);
        let data = Value::from([
            ("type", resource_type(kind).into()),
            ("id", self.key.as_str().into()),
            ("attributes", Value::Map(attributes.into())),
        ]);
        [("data", data)].into()
    }
}
