//! The settings of a collection as a form, for new and existing collections.

mod typed;

use std::sync::Arc;

use askama::Template;
use warp::http::{Method, StatusCode};

use crate::domain::{Collection, Key, Kind, Value};
use crate::engine::Entry;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::reason;
use crate::http::ui;
use crate::http::ui::api::Request;
use crate::http::ui::fields::{FieldInput, FormSettings};
use crate::http::ui::form::PostedForm;
use crate::http::ui::frame::{Frame, Nav, Visit, with_query};
use crate::http::ui::pages::edit::typed::EditForm;
use crate::http::ui::pages::heading::Head;

pub(crate) use crate::http::ui::pages::edit::typed::CommitPreview;

#[derive(Template)]
#[template(path = "edit.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    /// `None` for a new collection.
    head: Option<Head>,
    form: EditForm,
    /// The id of the input that has the focus without a script: the first with an error.
    focus: String,
    done: Option<&'static str>,
    can_delete: bool,
}

/// `GET /ui/new`
pub(crate) async fn new(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    visit.call.authorize(Action::Create { key: None, content: None }).await?;
    let kind = visit.asked("kind").and_then(Kind::parse).unwrap_or(Kind::Document);
    let form = EditForm { kind: Some(kind), settings: FormSettings::new(kind), ..EditForm::default() };
    show(visit, StatusCode::OK, None, form).await
}

/// `GET /ui/collections/KEY`, for visitors who may change it.
pub(crate) async fn page(visit: &Visit<'_>, entry: &Entry) -> Result<Reply, ApiError> {
    show(visit, StatusCode::OK, Some(entry), present(entry)).await
}

fn present(entry: &Entry) -> EditForm {
    let collection: &Collection = &entry.collection;
    EditForm {
        key: collection.key().to_string(),
        kind: Some(collection.kind()),
        tag: entry.tag(),
        settings: FormSettings::of(collection),
        ..EditForm::default()
    }
}

/// `POST /ui/new`
pub(crate) async fn create(visit: &Visit<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let posted = PostedForm::read(visit, visit.call.known_sender().await?, body).await?;
    let kind = Kind::parse(posted.get("kind")).unwrap_or(Kind::Document);
    let mut form = EditForm::posted(posted.get("key").trim(), kind, &posted);
    if let Err(error) = visit.call.authorize(Action::Create { key: None, content: None }).await {
        return refused(visit, form, None, &[], error).await;
    }
    if !posted.is_ours {
        return show_stale_form(visit, None, form).await;
    }
    let request = |form: &EditForm, mut attributes: Vec<(String, Value)>| {
        attributes.retain(|(_, value)| *value != Value::Null);
        Request::new(Method::POST, "/collections").document(&form.resource(attributes))
    };
    let request = match form.settings.changes() {
        Ok(attributes) => request(&form, attributes),
        Err(others) => {
            let request = request(&form, others);
            return unreadable(visit, None, form, request).await;
        }
    };
    let dry_run = posted.get("do") == "preview";
    match request.because(&form.reason).dry_run(dry_run).read(visit.call).await {
        Ok(document) if dry_run => {
            form.commits = Some(CommitPreview::list(&document));
            show(visit, StatusCode::OK, None, form).await
        }
        Ok(_) => Ok(done(visit, &form.key, "created")),
        Err(error) => refused(visit, form, None, &[], error).await,
    }
}

/// `POST /ui/collections/KEY`
pub(crate) async fn save(visit: &Visit<'_>, key: &Key, body: &mut Body) -> Result<Reply, ApiError> {
    let posted = PostedForm::read(visit, visit.call.known_sender().await?, body).await?;
    // Before anything of the collection is shown, even with an error.
    let allowed = visit.call.authorize(Action::Update { key, content: None }).await;
    if allowed.is_err() {
        visit.call.authorize(Action::Read { key }).await?;
    }
    let snapshot = visit.call.snapshot()?;
    let entry = snapshot.get(key.as_str()).cloned();
    let kind = Kind::parse(posted.get("kind"));
    let kind = kind.or_else(|| Some(entry.as_ref()?.collection.kind())).unwrap_or(Kind::Document);
    let mut form = EditForm::posted(key.as_str(), kind, &posted);
    if let Err(error) = allowed {
        return refused(visit, form, entry, &[], error).await;
    }
    if !posted.is_ours {
        return show_stale_form(visit, entry.as_deref(), form).await;
    }
    let changes = match form.settings.changes() {
        Ok(changes) => changes,
        Err(others) => {
            // With the current tag: what others have saved matters only when the form can be parsed.
            let tag = entry.as_ref().map(|entry| entry.tag()).unwrap_or_default();
            let request = update(key).document(&form.resource(others)).of(&tag);
            return unreadable(visit, entry.as_deref(), form, request).await;
        }
    };
    let dry_run = posted.get("do") == "preview";
    if changes.is_empty() && !dry_run {
        return match reason::check(&form.reason) {
            Ok(()) => Ok(done(visit, key.as_str(), "same")),
            Err(fault) => refused(visit, form, entry, &[], fault.into()).await,
        };
    }
    let request = update(key).document(&form.resource(changes.clone())).of(&form.tag).merging();
    match request.because(&form.reason).dry_run(dry_run).read(visit.call).await {
        Ok(document) if dry_run => {
            form.commits = Some(CommitPreview::list(&document));
            show(visit, StatusCode::OK, entry.as_deref(), form).await
        }
        Ok(_) => {
            let is_merged = entry.is_some_and(|entry| entry.tag() != form.tag);
            Ok(done(visit, key.as_str(), if is_merged { "merged" } else { "saved" }))
        }
        Err(error) => refused(visit, form, entry, &changes, error).await,
    }
}

fn update(key: &Key) -> Request {
    Request::new(Method::PATCH, format!("/collections/{key}"))
}

/// Shows a form again that has a field that can't be parsed, with the API's errors about the other fields.
async fn unreadable(
    visit: &Visit<'_>,
    entry: Option<&Entry>,
    mut form: EditForm,
    others: Request,
) -> Result<Reply, ApiError> {
    match others.because(&form.reason).dry_run(true).read(visit.call).await {
        Err(error) if error.status() == StatusCode::NOT_FOUND => {
            return refused(visit, form, None, &[], error).await;
        }
        Err(error) => {
            pass_on_unshowable(&error)?;
            form.blame(error.errors);
        }
        Ok(_) => {}
    }
    show(visit, StatusCode::BAD_REQUEST, entry, form).await
}

/// Shows a form again that can't be saved, as it was typed.
async fn refused(
    visit: &Visit<'_>,
    mut form: EditForm,
    entry: Option<Arc<Entry>>,
    changes: &[(String, Value)],
    error: ApiError,
) -> Result<Reply, ApiError> {
    pass_on_unshowable(&error)?;
    let status = error.status();
    let errors = error.errors;
    let met =
        errors.iter().find_map(|error| error.current().map(|it| (Arc::clone(it), error.clashes().to_vec())));
    form.blame(errors);
    if let Some((current, clashes)) = met {
        form.tag = current.tag();
        form.settings = form.settings.rebase(&current.collection, changes, &clashes);
        form.notes.push(
            "Somebody else has saved meanwhile. Everything that you did not touch is up to date; what both of you changed is shown side by side."
                .to_owned(),
        );
        return show(visit, status, Some(&current), form).await;
    }
    if status == StatusCode::NOT_FOUND {
        form.notes.push("What you typed is still here: saving it creates the collection again.".to_owned());
        form.settings.was.clear();
        return show(visit, status, None, form).await;
    }
    show(visit, status, entry.as_deref(), form).await
}

/// Passes on errors that must not show the form again: signed out, and internal errors.
pub(crate) fn pass_on_unshowable(error: &ApiError) -> Result<(), ApiError> {
    match error.status() {
        StatusCode::UNAUTHORIZED | StatusCode::INTERNAL_SERVER_ERROR => Err(error.clone()),
        _ => Ok(()),
    }
}

/// Shows a form again that comes from before a restart or a sign-in. Nothing is done.
async fn show_stale_form(
    visit: &Visit<'_>,
    entry: Option<&Entry>,
    mut form: EditForm,
) -> Result<Reply, ApiError> {
    let detail = "This page was made before the service was started or you signed in, so nothing was done yet. Everything you typed is here: look and send it again.";
    form.blame(vec![ErrorObject::new(Code::FORBIDDEN, detail)]);
    show(visit, StatusCode::FORBIDDEN, entry, form).await
}

/// Redirects to the collection, whose page then says what was done.
pub(crate) fn done(visit: &Visit<'_>, key: &str, what: &str) -> Reply {
    let base = visit.call.context.settings.base_path.as_str();
    let below = with_query(&format!("/collections/{key}"), &[("done", what.to_owned())]);
    ui::see_other(&format!("{base}/ui{below}"))
}

async fn show(
    visit: &Visit<'_>,
    status: StatusCode,
    entry: Option<&Entry>,
    form: EditForm,
) -> Result<Reply, ApiError> {
    let focus = form.first_invalid_input();
    let Some(entry) = entry else {
        let frame = visit.frame("New collection", Nav::Collections).await;
        let page = Page { frame, head: None, form, focus, done: None, can_delete: false };
        return Ok(ui::page(status, &page));
    };
    let key = entry.collection.key();
    let page = Page {
        frame: visit.live_frame(key.as_str(), Nav::Collections, Some(key)).await,
        head: Some(Head::of(visit, key, Some(entry), "settings").await),
        form,
        focus,
        done: visit.asked("done").and_then(notice),
        can_delete: visit.call.authorize(Action::Delete { key }).await.is_ok(),
    };
    Ok(ui::page(status, &page))
}

/// Says in a sentence what was done.
pub(crate) fn notice(done: &str) -> Option<&'static str> {
    Some(match done {
        "created" => "Created, in a commit of its own.",
        "saved" => "Saved, in a commit of its own.",
        "merged" => "Saved. Somebody else had changed other attributes meanwhile; both changes are in.",
        "same" => "Nothing was different, so there is nothing to commit.",
        "undone" => "Undone, by a commit of its own.",
        "restored" => "Restored, by a commit of its own.",
        "deleted" => "Deleted, in a commit of its own. It can be brought back from its history.",
        _ => return None,
    })
}
