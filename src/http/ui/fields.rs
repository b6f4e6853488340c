//! The settings of a collection as the fields of a form, and back.
//!
//! A field sends the value that it was made from if nobody changed it, and only what differs from `was`, the
//! settings that the form was made from, is asked of the API. So a value that no plain field can hold (a line
//! break in a name, an empty text) is edited as JSON, where nothing of it is lost.

use std::collections::BTreeMap;

use crate::domain::{Attribute, Collection, Kind, Value};
use crate::engine::Clash;
use crate::http::jsonapi::request;
use crate::http::ui::escape::is_invisible;
use crate::http::ui::form::Posted;
use crate::http::ui::pages::collection::meaning;
use crate::http::ui::words::{pretty, shown};

/// How many empty rows a list ends with; the script adds more.
const ROWS_FREE: usize = 1;

/// How deep the JSON of a field may be, beyond what the rules allow: they say it better.
const DEPTH_MAX: usize = 64;

/// The settings of a form: what was there, and what is wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// What the form was made from.
    pub(crate) was: Vec<(String, Value)>,
    /// What the fields hold.
    pub(crate) fields: Vec<Field>,
}

/// One attribute in the form.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) meaning: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) input: Input,
    pub(crate) errors: Vec<String>,
    pub(crate) overlap: Option<Overlap>,
}

/// What is typed into.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Line(String),
    Switch(Option<bool>),
    List(Vec<String>),
    Statuses(Vec<Status>),
    Json(String),
}

/// One row of `unpublishedStatuses`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) key: String,
    pub(crate) directory: String,
    pub(crate) name: String,
}

/// What two people made of one attribute.
#[derive(Debug, Clone)]
pub(crate) struct Overlap {
    pub(crate) before: Option<String>,
    pub(crate) theirs: Option<String>,
    pub(crate) yours: Option<String>,
}

impl Field {
    fn new(attribute: &Attribute, input: Input) -> Self {
        Self {
            name: attribute.as_str().to_owned(),
            meaning: meaning(attribute),
            rule: rule(attribute),
            input,
            errors: Vec::new(),
            overlap: None,
        }
    }

    /// What the field holds; nothing where it is empty.
    ///
    /// # Errors
    ///
    /// Says what can't be read in it.
    fn value(&self) -> Result<Option<Value>, String> {
        Ok(match &self.input {
            Input::Line(text) => (!text.is_empty()).then(|| Value::from(text.as_str())),
            Input::Switch(on) => on.map(Value::Bool),
            Input::List(rows) => {
                let items: Vec<Value> =
                    rows.iter().filter(|row| !row.is_empty()).map(|row| Value::from(row.as_str())).collect();
                (!items.is_empty()).then(|| Value::List(items.into()))
            }
            Input::Statuses(rows) => statuses(rows)?,
            Input::Json(text) if text.trim().is_empty() => None,
            Input::Json(text) => Some(json(text)?),
        })
    }
}

fn statuses(rows: &[Status]) -> Result<Option<Value>, String> {
    let mut entries: Vec<(String, Value)> = Vec::new();
    for Status { key, directory, name } in rows {
        if key.is_empty() && directory.is_empty() && name.is_empty() {
            continue;
        }
        if entries.iter().any(|(known, _)| known == key) {
            return Err(format!("There are two rows of the status `{key}`."));
        }
        let members = [("directory", directory), ("name", name)];
        let members = members.into_iter().filter(|(_, text)| !text.is_empty());
        let members = members.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
        entries.push((key.clone(), Value::Map(members.collect())));
    }
    Ok((!entries.is_empty()).then(|| Value::Map(entries.into())))
}

/// A value as JSON in which nothing is hidden: what can't be seen stands there as an escape.
fn spelled(value: &Value) -> String {
    escaped(&pretty(value))
}

/// JSON whose invisible characters, which stand in texts only, are escapes (RFC 8259 section 7).
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// Reads JSON that somebody typed.
fn json(text: &str) -> Result<Value, String> {
    request::parse(text.as_bytes(), DEPTH_MAX)
        .map_err(|fault| fault.detail().replacen("The body is not JSON", "This is not JSON", 1))
}

impl Settings {
    /// The form of a collection.
    pub(crate) fn of(collection: &Collection) -> Self {
        let was: Vec<_> = collection
            .attributes()
            .iter()
            .map(|(attribute, value)| (attribute.as_str().to_owned(), value.clone()))
            .collect();
        Self { fields: fields(collection.kind(), &was), was }
    }

    /// The form of a collection that is not there yet.
    pub(crate) fn new(kind: Kind) -> Self {
        Self { was: Vec::new(), fields: fields(kind, &[]) }
    }

    /// The form as it was sent.
    pub(crate) fn posted(kind: Kind, posted: &Posted) -> Self {
        let was = match request::parse(posted.get("was").as_bytes(), DEPTH_MAX) {
            Ok(Value::Map(members)) => members.into_vec(),
            _ => Vec::new(),
        };
        let mut fields: Vec<Field> = Attribute::known(kind).map(|it| sent(&it, posted)).collect();
        let own = posted.below("j.").filter(|(name, _)| name.starts_with("x-"));
        fields.extend(own.map(|(name, text)| extension(kind, name, Input::Json(text.to_owned()))));
        let (name, text) = (posted.get("x.name").trim(), posted.get("x.value"));
        if !name.is_empty() || !text.trim().is_empty() {
            let name =
                if name.is_empty() || name.starts_with("x-") { name.to_owned() } else { format!("x-{name}") };
            fields.push(extension(kind, &name, Input::Json(text.to_owned())));
        }
        Self { was, fields }
    }

    /// What is to be changed: each attribute that differs, `null` where it is to go.
    ///
    /// # Errors
    ///
    /// `false` when a field can't be read; it says so itself then.
    pub(crate) fn changes(&mut self) -> Result<Vec<(String, Value)>, Unreadable> {
        let mut changes = Vec::new();
        let was: BTreeMap<&str, &Value> =
            self.was.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let mut is_readable = true;
        for field in &mut self.fields {
            match field.value() {
                Ok(value) if value.as_ref() == was.get(field.name.as_str()).copied() => {}
                Ok(value) => changes.push((field.name.clone(), value.unwrap_or(Value::Null))),
                Err(why) => {
                    field.errors.push(why);
                    is_readable = false;
                }
            }
        }
        if is_readable { Ok(changes) } else { Err(Unreadable) }
    }

    /// The same form on top of what others have made of the collection meanwhile: what the visitor changed
    /// stays as it was typed, everything else is as it is by now; `clashes` are shown side by side.
    pub(crate) fn onto(self, current: &Collection, changed: &[(String, Value)], clashes: &[Clash]) -> Self {
        let mut next = Self::of(current);
        for field in self.fields {
            let Some((_, wanted)) = changed.iter().find(|(name, _)| *name == field.name) else { continue };
            let theirs = next.was.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
            let before = self.was.iter().find(|(name, _)| *name == field.name).map(|(_, value)| value);
            let is_clash = clashes.iter().any(|clash| clash.attribute == field.name)
                || (clashes.is_empty() && theirs != before && theirs.unwrap_or(&Value::Null) != wanted);
            let overlap = is_clash.then(|| Overlap {
                before: before.map(shown),
                theirs: theirs.map(shown),
                yours: (*wanted != Value::Null).then(|| shown(wanted)),
            });
            let kept = Field { overlap, ..field };
            match next.fields.iter_mut().find(|it| it.name == kept.name) {
                Some(place) => *place = kept,
                None => next.fields.push(kept),
            }
        }
        next
    }

    /// Takes what others made of an attribute, where the visitor chose so.
    pub(crate) fn choose(&mut self, kind: Kind, posted: &Posted) {
        let theirs = fields(kind, &self.was);
        for (name, choice) in posted.below("pick.") {
            if choice != "theirs" {
                continue;
            }
            let known = theirs.iter().find(|it| it.name == name);
            if let (Some(place), Some(known)) = (self.fields.iter_mut().find(|it| it.name == name), known) {
                *place = known.clone();
            } else {
                self.fields.retain(|it| it.name != name);
            }
        }
    }

    /// Puts an error at its field; `false` if it has none.
    pub(crate) fn blame(&mut self, pointer: &str, detail: &str) -> bool {
        let Some(path) = pointer.strip_prefix("/data/attributes/") else { return false };
        let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let name = steps.next().unwrap_or_default();
        let below: Vec<String> = steps.collect();
        let Some(field) = self.fields.iter_mut().find(|field| field.name == name) else { return false };
        let place = if below.is_empty() { String::new() } else { format!("{}: ", below.join(", ")) };
        field.errors.push(format!("{place}{detail}"));
        true
    }

    /// What the form was made from, to be sent back with it.
    pub(crate) fn was_json(&self) -> String {
        escaped(&Value::Map(self.was.clone().into()).to_string())
    }
}

/// A field can't be read.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// The fields of the attributes that a collection of this kind can have, and those of its own.
fn fields(kind: Kind, was: &[(String, Value)]) -> Vec<Field> {
    let value = |name: &str| was.iter().find(|(it, _)| it == name).map(|(_, value)| value);
    let mut fields: Vec<Field> =
        Attribute::known(kind).map(|it| Field::new(&it, input(&it, value(it.as_str())))).collect();
    let own = was.iter().filter(|(name, _)| name.starts_with("x-"));
    fields.extend(own.map(|(name, value)| extension(kind, name, Input::Json(spelled(value)))));
    fields
}

fn extension(kind: Kind, name: &str, input: Input) -> Field {
    match Attribute::parse(kind, name) {
        Some(attribute) => Field::new(&attribute, input),
        None => Field {
            name: name.to_owned(),
            meaning: "A setting of your own.",
            rule: OWN_RULE,
            input,
            errors: Vec::new(),
            overlap: None,
        },
    }
}

/// The plainest input that holds a value without loss.
fn input(attribute: &Attribute, value: Option<&Value>) -> Input {
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c == '\n' || is_invisible(c));
    match (sort(attribute), value) {
        (Sort::Line, None) => Input::Line(String::new()),
        (Sort::Line, Some(Value::Text(text))) if plain(text) => Input::Line(text.to_string()),
        (Sort::Switch, None) => Input::Switch(None),
        (Sort::Switch, Some(Value::Bool(on))) => Input::Switch(Some(*on)),
        (Sort::List, None) => Input::List(vec![String::new(); ROWS_FREE]),
        (Sort::List, Some(Value::List(items))) if !items.is_empty() => {
            let rows: Option<Vec<_>> = items
                .iter()
                .map(|item| item.as_text().filter(|text| plain(text)).map(str::to_owned))
                .collect();
            match rows {
                Some(rows) => Input::List(rows.into_iter().chain(vec![String::new(); ROWS_FREE]).collect()),
                None => Input::Json(spelled(&Value::List(items.clone()))),
            }
        }
        (Sort::Statuses, None) => Input::Statuses(vec![Status::default(); ROWS_FREE]),
        (Sort::Statuses, Some(Value::Map(entries))) if !entries.is_empty() => {
            let text = |entry: &Value, name: &str| match entry.get(name) {
                None => Some(String::new()),
                Some(value) => value.as_text().filter(|text| plain(text)).map(str::to_owned),
            };
            let row = |(key, entry): &(String, Value)| {
                let (directory, name) = (text(entry, "directory")?, text(entry, "name")?);
                plain(key).then(|| Status { key: key.clone(), directory, name })
            };
            match entries.iter().map(row).collect::<Option<Vec<_>>>() {
                Some(rows) => {
                    Input::Statuses(rows.into_iter().chain(vec![Status::default(); ROWS_FREE]).collect())
                }
                None => Input::Json(spelled(&Value::Map(entries.clone()))),
            }
        }
        (_, Some(value)) => Input::Json(spelled(value)),
    }
}

/// The field of an attribute as it was sent.
fn sent(attribute: &Attribute, posted: &Posted) -> Field {
    let name = attribute.as_str();
    if let Some(text) = posted.find(&format!("j.{name}")) {
        return Field::new(attribute, Input::Json(text.to_owned()));
    }
    let text = posted.get(&format!("a.{name}"));
    let input = match sort(attribute) {
        Sort::Line => Input::Line(text.to_owned()),
        Sort::Switch => Input::Switch(match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }),
        Sort::List => {
            let prefix = format!("l.{name}.");
            let rows = posted.below(&prefix).map(|(_, row)| row.trim().to_owned());
            Input::List(rows.filter(|row| !row.is_empty()).chain(vec![String::new(); ROWS_FREE]).collect())
        }
        Sort::Statuses => {
            let rows = posted.below("s.key.").map(|(row, key)| Status {
                key: key.trim().to_owned(),
                directory: posted.get(&format!("s.directory.{row}")).to_owned(),
                name: posted.get(&format!("s.name.{row}")).to_owned(),
            });
            let is_empty = |it: &Status| it.key.is_empty() && it.directory.is_empty() && it.name.is_empty();
            let rows = rows.filter(|row| !is_empty(row));
            Input::Statuses(rows.chain(vec![Status::default(); ROWS_FREE]).collect())
        }
    };
    Field::new(attribute, input)
}

/// How an attribute is typed.
enum Sort {
    Line,
    Switch,
    List,
    Statuses,
}

const fn sort(attribute: &Attribute) -> Sort {
    match attribute {
        Attribute::Recursive => Sort::Switch,
        Attribute::Accept => Sort::List,
        Attribute::UnpublishedStatuses => Sort::Statuses,
        _ => Sort::Line,
    }
}

const OWN_RULE: &str = "Any JSON value.";

/// What an attribute may hold, before somebody breaks the rule.
const fn rule(attribute: &Attribute) -> &'static str {
    match attribute {
        Attribute::Directory | Attribute::RevisionDirectory => {
            "A relative path with /, such as content/posts."
        }
        Attribute::Recursive => "Yes, no, or not said.",
        Attribute::UnpublishedStatuses => "Each has a status, a directory and a name.",
        Attribute::Accept => "Media types such as image/png or image/*, or extensions such as .pdf.",
        Attribute::Extension(_) => OWN_RULE,
        _ => "Text, at most 1,000 characters.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Key;

    fn posted(pairs: &[(&str, String)]) -> Posted {
        Posted::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())))
    }

    /// What a browser sends of a form that nobody has touched.
    fn untouched(settings: &Settings) -> Posted {
        let mut pairs = vec![("was".to_owned(), settings.was_json())];
        for field in &settings.fields {
            let name = &field.name;
            match &field.input {
                Input::Line(text) => pairs.push((format!("a.{name}"), text.clone())),
                Input::Switch(on) => {
                    pairs.push((format!("a.{name}"), on.map_or(String::new(), |on| on.to_string())));
                }
                Input::List(rows) => {
                    pairs.extend(
                        rows.iter().enumerate().map(|(at, row)| (format!("l.{name}.{at}"), row.clone())),
                    );
                }
                Input::Statuses(rows) => pairs.extend(rows.iter().enumerate().flat_map(|(at, row)| {
                    let Status { key, directory, name } = row.clone();
                    [
                        (format!("s.key.{at}"), key),
                        (format!("s.directory.{at}"), directory),
                        (format!("s.name.{at}"), name),
                    ]
                })),
                Input::Json(text) => pairs.push((format!("j.{name}"), text.clone())),
            }
        }
        Posted::of(pairs)
    }

    #[test]
    fn a_form_that_nobody_touched_changes_nothing_whatever_it_holds() {
        let status = |members: &[(&str, &str)]| {
            Value::Map(members.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect())
        };
        for attributes in [
            vec![],
            vec![
                ("name", Value::from("Posts")),
                ("recursive", Value::Bool(false)),
                ("directory", "a/b".into()),
            ],
            vec![
                ("name", "".into()),
                ("format", "two\nlines\u{7}".into()),
                ("documentTitleKey", " t ".into()),
            ],
            vec![("unpublishedStatuses", Value::Map([].into()))],
            vec![(
                "unpublishedStatuses",
                Value::Map(
                    [
                        ("a".to_owned(), status(&[("directory", "d")])),
                        ("b".to_owned(), status(&[("name", "n"), ("directory", "e")])),
                    ]
                    .into(),
                ),
            )],
            vec![("x-any", Value::List([Value::Null, Value::Bool(true), "\u{202e}".into()].into()))],
        ] {
            let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
            let key = Key::parse("posts").unwrap();
            let collection = Collection::from_file(key, Kind::Document, attributes).unwrap();
            let form = Settings::of(&collection);
            let mut back = Settings::posted(Kind::Document, &untouched(&form));
            assert_eq!(back.changes().unwrap(), [], "{collection:?}");
        }
    }

    #[test]
    fn what_is_typed_is_what_is_asked_for() {
        let mut form = Settings::posted(
            Kind::Document,
            &posted(&[
                ("was", r#"{"name": "Posts", "format": "md"}"#.to_owned()),
                ("a.name", "All".to_owned()),
                ("a.recursive", "true".to_owned()),
                ("x.name", "owner".to_owned()),
                ("x.value", "{\"team\": 1}".to_owned()),
            ]),
        );
        let changes: Vec<_> =
            form.changes().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(changes, ["name=\"All\"", "recursive=true", "format=null", "x-owner={\"team\": 1}"]);
    }

    #[test]
    fn what_can_not_be_read_is_told_at_its_field() {
        let mut form = Settings::posted(
            Kind::Document,
            &posted(&[
                ("x.name", "owner".to_owned()),
                ("x.value", "{".to_owned()),
                ("s.key.0", "a".to_owned()),
                ("s.name.0", "A".to_owned()),
                ("s.key.1", "a".to_owned()),
            ]),
        );
        assert!(form.changes().is_err());
        let wrong: Vec<_> = form
            .fields
            .iter()
            .flat_map(|it| it.errors.iter().map(|error| (it.name.as_str(), error.as_str())))
            .collect();
        assert_eq!(wrong[0], ("unpublishedStatuses", "There are two rows of the status `a`."));
        assert!(wrong[1].0 == "x-owner" && wrong[1].1.starts_with("This is not JSON"), "{wrong:?}");
    }
}
