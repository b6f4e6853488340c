use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::domain::{Collection, Key, Kind, Value};
use crate::http::ui::fields::input::Status;
use crate::http::ui::fields::{FieldInput, FormSettings};
use crate::http::ui::form::PostedForm;

fn posted(pairs: &[(&str, String)]) -> PostedForm {
    PostedForm::with(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())))
}

/// What a browser sends for an untouched form.
fn untouched(settings: &FormSettings) -> PostedForm {
    let mut pairs = vec![("was".to_owned(), settings.original_json())];
    for field in &settings.fields {
        let name = &field.name;
        match &field.input {
            FieldInput::Line(text) => pairs.push((format!("a.{name}"), text.clone())),
            FieldInput::Switch(on) => {
                pairs.push((format!("a.{name}"), on.map_or(String::new(), |on| on.to_string())));
            }
            FieldInput::List(rows) => {
                pairs
                    .extend(rows.iter().enumerate().map(|(at, row)| (format!("l.{name}.{at}"), row.clone())));
            }
            FieldInput::Statuses(rows) => pairs.extend(rows.iter().enumerate().flat_map(|(at, row)| {
                let Status { key, directory, name } = row.clone();
                [
                    (format!("s.key.{at}"), key),
                    (format!("s.directory.{at}"), directory),
                    (format!("s.name.{at}"), name),
                ]
            })),
            FieldInput::Json(text) => pairs.push((format!("j.{name}"), text.clone())),
        }
    }
    PostedForm::with(pairs)
}

#[test]
fn a_form_that_nobody_touched_changes_nothing_whatever_it_holds() {
    let status = |members: &[(&str, &str)]| {
        Value::Map(members.iter().map(|(name, text)| ((*name).to_owned(), Value::from(*text))).collect())
    };
    for attributes in [
        vec![],
        vec![("name", Value::from("Posts")), ("recursive", Value::Bool(false)), ("directory", "a/b".into())],
        vec![("name", "".into()), ("format", "two\nlines\u{7}".into()), ("documentTitleKey", " t ".into())],
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
        vec![(
            "unpublishedStatuses",
            Value::Map([(" a\u{a0}".to_owned(), status(&[("directory", "d"), ("name", "n")]))].into()),
        )],
        vec![("x-any", Value::List([Value::Null, Value::Bool(true), "\u{202e}".into()].into()))],
    ] {
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        let key = Key::parse("posts").unwrap();
        let collection = Collection::from_file(key, Kind::Document, attributes).unwrap();
        let form = FormSettings::of(&collection);
        let mut back = FormSettings::posted(Kind::Document, &untouched(&form));
        assert_eq!(back.changes().unwrap(), [], "{collection:?}");
    }
}

#[test]
fn what_is_typed_is_what_is_asked_for() {
    let mut form = FormSettings::posted(
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
fn what_is_wrong_in_a_row_is_told_at_its_input() {
    let rows = [("draft", "d", "D"), ("old", "../x", "O"), ("gone", "", "G"), ("bin", "b", "")];
    let pairs = rows.iter().enumerate().flat_map(|(at, (key, directory, name))| {
        [("key", key), ("directory", directory), ("name", name)]
            .map(|(part, text)| (format!("s.{part}.{at}"), (*text).to_owned()))
    });
    let mut form = FormSettings::posted(Kind::Document, &PostedForm::with(pairs));
    let places = form.field_indexes();
    for below in ["", "/draft/name", "/old/directory", "/gone", "/bin", "/draft", "/else"] {
        form.blame(&places, &format!("/data/attributes/unpublishedStatuses{below}"), "no");
    }
    let ids = ["", "-name-0", "-directory-1", "-directory-2", "-name-3", "", ""];
    let wrong: Vec<_> = form.fields.iter().flat_map(|it| &it.errors).map(|it| it.at.clone()).collect();
    assert_eq!(wrong, ids.map(|id| format!("f-unpublishedStatuses{id}")));

    let pairs = ["image/png", "bad type"].into_iter().enumerate();
    let pairs = pairs.map(|(at, text)| (format!("l.accept.{at}"), text.to_owned()));
    let mut form = FormSettings::posted(Kind::Media, &PostedForm::with(pairs));
    let places = form.field_indexes();
    form.blame(&places, "/data/attributes/accept/1", "no");
    assert_eq!(form.fields.iter().find_map(|it| it.errors.first()).unwrap().at, "f-accept-1");
}

#[test]
fn what_can_not_be_read_is_told_at_its_field() {
    let mut form = FormSettings::posted(
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
        .flat_map(|it| it.errors.iter().map(|error| (error.at.as_str(), error.text.as_str())))
        .collect();
    assert_eq!(wrong[0], ("f-unpublishedStatuses-key-1", "There are two rows of the status `a`."));
    assert!(wrong[1].0 == "f-x-owner" && wrong[1].1.starts_with("This can't be read as JSON"), "{wrong:?}");
}

#[test]
fn a_form_with_as_many_fields_as_there_may_be_is_read_at_once() {
    let many = |name: &str, value: &str| {
        PostedForm::with(
            (0..10_000).map(|n| (name.replace('#', &n.to_string()), value.replace('#', &n.to_string()))),
        )
    };
    // The processor's time of this thread; what other threads use does not count.
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("time does not run back");
    let start = used();
    let mut rows = FormSettings::posted(Kind::Document, &many("s.key.#", "k#"));
    assert_eq!(rows.changes().unwrap().len(), 1);
    let empty = FormSettings::posted(Kind::Document, &many("s.key.", ""));
    assert_eq!(empty.fields.len(), FormSettings::new(Kind::Document).fields.len());
    let mut own = FormSettings::posted(Kind::Document, &many("j.x-#", "#"));
    own.apply_choices(Kind::Document, &many("pick.x-#", "theirs"));
    assert_eq!(own.changes().unwrap(), []);
    let took = used() - start;
    assert!(took < Duration::from_secs(2), "{took:?}");
}
