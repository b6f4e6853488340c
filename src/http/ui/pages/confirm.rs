//! The confirmation before a delete, undo or restore, with a preview of its commit.

use askama::Template;
use warp::http::{Method, StatusCode};

use crate::domain::{Key, Value};
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::ui;
use crate::http::ui::api::{self, Request};
use crate::http::ui::form::PostedForm;
use crate::http::ui::frame::{Frame, Nav, Visit, encoded};
use crate::http::ui::pages::edit::{CommitPreview, done, pass_on_unshowable};
use crate::http::ui::pages::key_of;
use crate::http::ui::words::{member, text};

#[derive(Template)]
#[template(path = "confirm.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    confirmation: Confirmation,
    key: String,
    tag: String,
    reason: String,
    commits: Vec<CommitPreview>,
    /// Why it can't be done.
    refusals: Vec<String>,
    /// Whether it may be possible in a moment, so that it is offered again even without a preview.
    may_pass: bool,
}

pub(crate) enum Confirmation {
    Delete(Key),
    /// The event with this id.
    Undo(String),
    /// The collection, and the revision to restore it to.
    Restore(Key, String),
}

impl Confirmation {
    const fn verb(&self) -> &'static str {
        match self {
            Self::Delete(_) => "Delete",
            Self::Undo(_) => "Undo",
            Self::Restore(..) => "Restore",
        }
    }

    const fn done(&self) -> &'static str {
        match self {
            Self::Delete(_) => "deleted",
            Self::Undo(_) => "undone",
            Self::Restore(..) => "restored",
        }
    }

    /// The path of the page, below `/ui`.
    fn path(&self) -> String {
        match self {
            Self::Delete(key) => format!("/collections/{key}/delete"),
            Self::Undo(id) => format!("/events/{}/undo", encoded(id)),
            Self::Restore(key, _) => format!("/collections/{key}/restore"),
        }
    }

    fn is_delete(&self) -> bool {
        matches!(self, Self::Delete(_))
    }

    fn revision(&self) -> &str {
        match self {
            Self::Restore(_, revision) => revision,
            Self::Delete(_) | Self::Undo(_) => "",
        }
    }

    fn request(&self) -> Request {
        match self {
            Self::Delete(key) => Request::new(Method::DELETE, format!("/collections/{key}")),
            Self::Undo(id) => Request::new(Method::POST, format!("/events/{}/undo", encoded(id))),
            Self::Restore(key, revision) => {
                let attributes = Value::from([("revision", revision.as_str().into())]);
                let data = Value::from([("type", "restore".into()), ("attributes", attributes)]);
                Request::new(Method::POST, format!("/collections/{key}/restore"))
                    .document(&[("data", data)].into())
            }
        }
    }

    /// Returns the collection to change.
    async fn key(&self, visit: &Visit<'_>) -> Result<Key, ApiError> {
        match self {
            Self::Delete(key) | Self::Restore(key, _) => Ok(key.clone()),
            Self::Undo(id) => {
                let event = api::get(visit.call, format!("/events/{}", encoded(id))).await?;
                key_of(text(member(member(&event, "data"), "attributes"), "collection"))
            }
        }
    }
}

/// Shows the confirmation with its preview.
pub(crate) async fn ask(visit: &Visit<'_>, confirmation: Confirmation) -> Result<Reply, ApiError> {
    let key = confirmation.key(visit).await?;
    show(visit, confirmation, &key, Typed::default(), None).await
}

/// What a confirmation was sent with.
#[derive(Default)]
struct Typed {
    reason: String,
    /// The version of the collection that the visitor has seen.
    tag: String,
}

/// Carries out a confirmed action.
pub(crate) async fn answer(
    visit: &Visit<'_>,
    confirmation: Confirmation,
    body: &mut Body,
) -> Result<Reply, ApiError> {
    let posted = PostedForm::read(visit, visit.call.known_sender().await?, body).await?;
    let confirmation = match confirmation {
        Confirmation::Restore(key, _) => Confirmation::Restore(key, posted.get("revision").to_owned()),
        confirmation => confirmation,
    };
    let key = confirmation.key(visit).await?;
    let typed = Typed { reason: posted.get("reason").trim().to_owned(), tag: posted.get("tag").to_owned() };
    if !posted.is_ours {
        let detail =
            "This page was older than the running service, so nothing was done yet. Look, and send it again.";
        return show(visit, confirmation, &key, typed, Some(ApiError::new(Code::FORBIDDEN, detail))).await;
    }
    let request = confirmation.request().because(&typed.reason).of(&typed.tag);
    match request.answer(visit.call).await {
        Ok(reply) if reply.body().is_empty() => {
            let base = visit.call.context.settings.base_path.as_str();
            Ok(ui::see_other(&format!("{base}/ui/?done={}", confirmation.done())))
        }
        Ok(_) => Ok(done(visit, key.as_str(), confirmation.done())),
        Err(error) => show(visit, confirmation, &key, typed, Some(error)).await,
    }
}

async fn show(
    visit: &Visit<'_>,
    confirmation: Confirmation,
    key: &Key,
    typed: Typed,
    refused: Option<ApiError>,
) -> Result<Reply, ApiError> {
    refused.as_ref().map_or(Ok(()), pass_on_unshowable)?;
    let snapshot = visit.call.snapshot()?;
    let tag = snapshot.get(key.as_str()).map(|entry| entry.tag()).unwrap_or_default();
    let preview = confirmation.request().of(&tag).dry_run(true).read(visit.call).await;
    let (tag, commits, hindrance) = match preview {
        Ok(document) => (tag, CommitPreview::list(&document), None),
        // A conflict is explained on this page, and what was typed comes back on it, for the version that was seen. Other
        // errors, such as 404 and 403, have an error page.
        Err(error) if error.status() == StatusCode::CONFLICT => (tag, Vec::new(), Some(error)),
        Err(error) if refused.is_some() && error.status() == StatusCode::SERVICE_UNAVAILABLE => {
            (typed.tag, Vec::new(), Some(error))
        }
        Err(error) => return Err(error),
    };
    // The preview alone has status 200, even if it explains why the action can't be carried out.
    let status = refused.as_ref().map_or(StatusCode::OK, ApiError::status);
    let may_pass = status == StatusCode::SERVICE_UNAVAILABLE;
    let refusals = refused.or(hindrance).map(|error| error.details()).unwrap_or_default();
    let title = format!("{} {key}?", confirmation.verb());
    let frame = visit.frame(title, Nav::Collections).await;
    let (key, reason) = (key.to_string(), typed.reason);
    let page = Page { frame, confirmation, key, tag, reason, commits, refusals, may_pass };
    Ok(ui::page(status, &page))
}
