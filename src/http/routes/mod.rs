//! The table of everything that can be asked for.

mod collections;
mod events;
mod health;
mod openapi;
mod operations;
mod past;
mod problems;
mod stream;
mod submit;
mod undo;

pub(crate) use crate::http::routes::events::{filter as event_filter, revision_text};

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use uuid::Uuid;
use warp::http::{Method, StatusCode};

use crate::domain::Key;
use crate::http::browser::sites;
use crate::http::context::{Context, Guard};
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;

/// Every path that leads somewhere.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// `/collections`
    Collections,
    /// `/collections/:key`
    Collection(Key),
    /// `/operations`
    Operations,
    /// `/problems`
    Problems,
    /// `/openapi.json`, `/openapi.yaml`
    OpenApi(openapi::Format),
    /// `/livez`
    Live,
    /// `/readyz`
    Ready,
    /// `/events`
    Events,
    /// `/events/:id`
    Event(EventId),
    /// `/events/:id/undo`
    Undo(EventId),
    /// `/collections/:key/events`
    EventsOf(Key),
    /// `/collections/:key/blame`
    Blame(Key),
    /// `/collections/:key/restore`
    Restore(Key),
    /// `/diff`
    Difference,
    /// `/sync-token`
    SyncToken,
    /// `/changes`
    Changes,
    /// `/capabilities`
    Capabilities,
}

/// The id of an event as a path names it; most texts are none.
#[derive(Debug, PartialEq, Eq)]
struct EventId(String);

impl EventId {
    /// The event that is meant; an id is written in one way only.
    fn uuid(&self) -> Option<Uuid> {
        Uuid::try_parse(&self.0).ok().filter(|id| id.to_string() == self.0)
    }

    /// There is no such event.
    fn not_found(&self) -> ApiError {
        ApiError::new(Code::NOT_FOUND, format!("Event '{}' not found.", self.0))
    }
}

/// What is asked of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// `GET`, and `HEAD`, which is the same without the body.
    Get,
    Post,
    Patch,
    Delete,
    Options,
    /// Whatever else there is, `TRACE` and made-up methods included.
    Other,
}

impl Verb {
    fn of(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD => Self::Get,
            Method::POST => Self::Post,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            Method::OPTIONS => Self::Options,
            _ => Self::Other,
        }
    }
}

/// The methods that some path takes, for `OPTIONS *`.
const METHODS: &str = "GET, HEAD, POST, PATCH, DELETE, OPTIONS";

/// Answers a request: the first two checks, path and method, and then whoever is responsible.
///
/// Every handler is boxed: the future of a request would else have room for all of them at once, and
/// moving that about costs more than most reads do.
pub(crate) async fn answer(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let answer = answer_to(call, body).await;
    match answer {
        Err(error) if error.status() == StatusCode::NOT_FOUND && Verb::of(call.method()) == Verb::Get => {
            Err(Box::pin(explained(call, error)).await)
        }
        answer => answer,
    }
}

/// Says too what became of a collection that is not there any more, to who wants to read it.
async fn explained(call: &Call<'_>, error: ApiError) -> ApiError {
    match target_of(call) {
        Ok(Target::Collection(key) | Target::Blame(key)) => match call.deletion_of(&key).await {
            Some(deletion) => error.with_more(&deletion),
            None => error,
        },
        _ => error,
    }
}

async fn answer_to(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    use Verb::{Delete, Get, Options, Other, Patch, Post};
    let verb = Verb::of(call.method());
    // Whoever watches over the process asks by any name.
    let target = target_of(call);
    if !matches!(target, Ok(Target::Live)) {
        sites::check_host(call)?;
    }
    // This asks about the service as a whole (RFC 9110 section 9.3.7).
    if verb == Options && call.path() == "*" {
        return Ok(options(call, METHODS));
    }
    let target = target?;
    let allow = target.allow();
    sites::check_site(call)?;
    min_revision::wait(call).await?;
    match target {
        Target::Collections => match verb {
            Get => Box::pin(collections::list(call)).await,
            Post => Box::pin(collections::create(call, body)).await,
            Options => Ok(options(call, allow)),
            Patch | Delete | Other => Err(ApiError::method_not_allowed(allow)),
        },
        Target::Collection(key) => match verb {
            Get => Box::pin(collections::read(call, &key)).await,
            Patch => Box::pin(collections::update(call, key, body)).await,
            Delete => Box::pin(collections::delete(call, key, body)).await,
            Options => Ok(options(call, allow)),
            Post | Other => Err(ApiError::method_not_allowed(allow)),
        },
        Target::Operations => match verb {
            Post => Box::pin(operations::operate(call, body)).await,
            Options => Ok(options(call, allow)),
            Get | Patch | Delete | Other => Err(ApiError::method_not_allowed(allow)),
        },
        Target::Undo(_) | Target::Restore(_) => match verb {
            Post => Box::pin(take_back(call, target, body)).await,
            Options => Ok(options(call, allow)),
            Get | Patch | Delete | Other => Err(ApiError::method_not_allowed(allow)),
        },
        Target::Problems
        | Target::OpenApi(_)
        | Target::Live
        | Target::Ready
        | Target::Events
        | Target::Event(_)
        | Target::EventsOf(_)
        | Target::Blame(_)
        | Target::Difference
        | Target::SyncToken
        | Target::Changes
        | Target::Capabilities => match verb {
            Get => Box::pin(read_only(call, target)).await,
            Options => Ok(options(call, allow)),
            Post | Patch | Delete | Other => Err(ApiError::method_not_allowed(allow)),
        },
    }
}

/// The paths that can only be read.
async fn read_only(call: &Call<'_>, target: Target) -> Result<Reply, ApiError> {
    match target {
        Target::Problems => problems::list(call).await,
        Target::OpenApi(format) => openapi::read(call, format).await,
        Target::Live => Ok(health::live()),
        Target::Ready => health::ready(call),
        Target::Events => Box::pin(events::list(call)).await,
        Target::Event(id) => Box::pin(events::read(call, &id)).await,
        Target::EventsOf(key) => Box::pin(events::of_collection(call, key)).await,
        Target::Blame(key) => Box::pin(past::blame(call, key)).await,
        Target::Difference => Box::pin(past::difference(call)).await,
        Target::SyncToken => Box::pin(past::sync_token(call)).await,
        Target::Changes => Box::pin(past::changes(call)).await,
        Target::Capabilities => past::capabilities(call).await,
        Target::Collections
        | Target::Collection(_)
        | Target::Operations
        | Target::Undo(_)
        | Target::Restore(_) => {
            unreachable!("BUG: {target:?} can be written to")
        }
    }
}

/// The paths that bring back what was.
async fn take_back(call: &Call<'_>, target: Target, body: &mut Body) -> Result<Reply, ApiError> {
    match target {
        Target::Restore(key) => undo::restore(call, key, body).await,
        Target::Undo(id) => undo::undo(call, &id, body).await,
        other => unreachable!("BUG: {other:?} brings nothing back"),
    }
}

impl Target {
    /// Finds the path; `None` if it leads nowhere.
    fn find(path: &str, context: &Context) -> Option<Self> {
        // Whoever watches over processes asks at the root, wherever the API stands.
        match path {
            "/livez" => return Some(Self::Live),
            "/readyz" => return Some(Self::Ready),
            _ => {}
        }
        let below = path.strip_prefix(context.base_path.as_str())?.strip_prefix('/')?;
        let (first, second) = step(below);
        let guarded = matches!(context.guard, Guard::With(_));
        match (decoded(first)?.as_ref(), second) {
            ("collections", None) => Some(Self::Collections),
            ("collections", Some(rest)) => Self::of_collection(rest),
            ("events", None) => Some(Self::Events),
            ("events", Some(rest)) => Self::of_event(rest),
            ("diff", None) => Some(Self::Difference),
            ("sync-token", None) => Some(Self::SyncToken),
            ("changes", None) => Some(Self::Changes),
            ("capabilities", None) => Some(Self::Capabilities),
            ("operations", None) => Some(Self::Operations),
            ("problems", None) => Some(Self::Problems),
            ("openapi.json", None) if guarded => Some(Self::OpenApi(openapi::Format::Json)),
            ("openapi.yaml", None) if guarded => Some(Self::OpenApi(openapi::Format::Yaml)),
            ("livez", None) => Some(Self::Live),
            ("readyz", None) => Some(Self::Ready),
            _ => None,
        }
    }

    /// What follows `/collections/`.
    fn of_collection(rest: &str) -> Option<Self> {
        let (key, below) = step(rest);
        // A key has no percent sign, so most need not be decoded.
        let key = Key::parse(key).ok().or_else(|| Key::parse(&decoded(key)?).ok())?;
        match below {
            None => Some(Self::Collection(key)),
            Some("events") => Some(Self::EventsOf(key)),
            Some("blame") => Some(Self::Blame(key)),
            Some("restore") => Some(Self::Restore(key)),
            Some(_) => None,
        }
    }

    /// What follows `/events/`.
    fn of_event(rest: &str) -> Option<Self> {
        let (id, below) = step(rest);
        let id = EventId(decoded(id).filter(|id| !id.is_empty())?.into_owned());
        match below {
            None => Some(Self::Event(id)),
            Some("undo") => Some(Self::Undo(id)),
            Some(_) => None,
        }
    }

    /// The methods that the path takes.
    const fn allow(&self) -> &'static str {
        match self {
            Self::Collections => "GET, HEAD, POST, OPTIONS",
            Self::Collection(_) => "GET, HEAD, PATCH, DELETE, OPTIONS",
            Self::Operations | Self::Undo(_) | Self::Restore(_) => "POST, OPTIONS",
            Self::Problems
            | Self::OpenApi(_)
            | Self::Live
            | Self::Ready
            | Self::Events
            | Self::Event(_)
            | Self::EventsOf(_)
            | Self::Blame(_)
            | Self::Difference
            | Self::SyncToken
            | Self::Changes
            | Self::Capabilities => "GET, HEAD, OPTIONS",
        }
    }
}

/// The first segment of a path, and what follows it. (Looking at a few bytes in turn costs less than a search
/// that is made for long texts.)
fn step(path: &str) -> (&str, Option<&str>) {
    let slash = path.bytes().position(|byte| byte == b'/');
    slash.map_or((path, None), |at| (&path[..at], Some(&path[at + 1..])))
}

/// Decodes one segment, once; a `/` in it is a part of the segment and not a step.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.bytes().any(|byte| byte == b'%') {
        percent_decode_str(segment).decode_utf8().ok()
    } else {
        Some(Cow::Borrowed(segment))
    }
}

fn target_of(call: &Call<'_>) -> Result<Target, ApiError> {
    let path = call.path();
    let bytes_max = call.context.limits.uri_bytes_max;
    if path.len() + call.raw_query().len() > bytes_max {
        return Err(ApiError::new(
            Code::URI_TOO_LONG,
            format!("Path and query have at most {bytes_max} bytes together."),
        ));
    }
    Target::find(path, call.context).ok_or_else(|| not_found(path, call.context))
}

/// A malformed key is no path, but whoever asked for a collection is told about a collection.
fn not_found(path: &str, context: &Context) -> ApiError {
    let below = path.strip_prefix(context.base_path.as_str()).unwrap_or_default();
    let key = below.strip_prefix("/collections/").filter(|key| !key.is_empty() && !key.contains('/'));
    match key.and_then(decoded) {
        Some(key) => ApiError::no_such_collection(&key),
        None => ApiError::no_such_path(path),
    }
}

fn options(call: &Call<'_>, allow: &'static str) -> Reply {
    Reply::options(allow, &call.context.cors, call.headers())
}
