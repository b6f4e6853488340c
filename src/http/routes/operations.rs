//! `/operations`: several changes in one commit, all or nothing.
//!
//! This is the atomic operations extension of JSON:API, <https://jsonapi.org/ext/atomic/>. Operations are checked
//! in three rounds, each over all of them. First, everything that is wrong with the body is reported at once. Then
//! the hook is asked about each operation. Then the writer decides them in order, each seeing the results of those
//! before it.

use std::collections::HashMap;

use warp::http::StatusCode;
use warp::http::header::{IF_MATCH, IF_NONE_MATCH};

use crate::config::BasePath;
use crate::domain::{Actor, Command, Key, Kind, Refusal, Value};
use crate::engine::{Condition, ConditionalCommand, Entry, Outcome, SubmitError};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject, index_of};
use crate::http::jsonapi::negotiate::Dialect;
use crate::http::jsonapi::request::{ObjectMembers, Resource, find, type_with_article};
use crate::http::jsonapi::resource_type::kind_of;
use crate::http::jsonapi::{document, negotiate, preconditions, query, request};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::routes::path::{ALL_COLLECTIONS, ONE_COLLECTION, Template};
use crate::http::routes::submit;
use crate::http::routes::submit::WriteTerms;
use crate::telemetry::Limit;

/// The member of a body that lists the operations.
const OPERATIONS: &str = "atomic:operations";

/// The pointer to the entity tags that an operation builds on.
const IF_MATCH_POINTER: &str = "/meta/ifMatch";

/// `POST /operations`
pub(crate) async fn operate(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    call.negotiate_write(Dialect::Atomic, body)?;
    let bytes = call.collect(body).await?;
    let sent = bytes.clone().unwrap_or_default();
    let batch = bytes.and_then(|bytes| Batch::read(call, &bytes));
    let author = authorize(call, batch.as_ref().ok()).await?;
    call.snapshot()?;
    let batch = batch?;
    let mut faults = batch.faults;
    faults.extend(request_errors(call));
    let mut terms = WriteTerms::of(call, &sent, &mut faults);
    terms.preferences.merge_attributes = false;
    if !faults.is_empty() {
        return Err(faults.into());
    }
    require_conditions(call, &batch.changes)?;
    let has_data: Vec<bool> =
        batch.changes.iter().map(|change| !matches!(change.command, Command::Delete { .. })).collect();
    let preferences = terms.preferences;
    let written = match submit::submit(call, batch.changes, author, terms).await {
        Ok(written) => written,
        Err(error) => return Err(refused(call, error, &has_data).await),
    };
    let results = document::results(written.outcomes.iter().map(shown), &call.context.settings.base_path);
    let reply = Reply::typed(StatusCode::OK, negotiate::JSON_API_ATOMIC, results.clone());
    let reply = reply.of_revision(written.revision);
    submit::with_preferences(call, reply, results, written, preferences).await
}

/// Converts a refusal of the writer, pointing at the operation that it is about.
async fn refused(call: &Call<'_>, error: SubmitError, has_data: &[bool]) -> ApiError {
    let index = index_of(&error);
    let is_condition = matches!(error, SubmitError::ConditionFailed { .. });
    let error = match error {
        SubmitError::Refused { refusal: Refusal::UnknownKey(key), .. } => {
            call.missing_collection_error(&key).await
        }
        error => error.into(),
    };
    let Some(index) = index else { return error };
    let error = match (is_condition, has_data[index]) {
        (true, _) => error.at(IF_MATCH_POINTER),
        (false, true) => error,
        (false, false) => error.without_pointers(),
    };
    error.below(&pointer(index))
}

fn pointer(index: usize) -> String {
    format!("/{OPERATIONS}/{index}")
}

fn shown(outcome: &Outcome) -> Option<&Entry> {
    match outcome {
        Outcome::Created(entry) | Outcome::Updated(entry) | Outcome::Unchanged(entry) => Some(entry),
        Outcome::Deleted => None,
    }
}

/// Authorizes every operation. The actor who is allowed the first becomes the author of the commit.
///
/// A body without operations is authorized as a create without a key, so that a stranger learns nothing from
/// sending nonsense.
async fn authorize(call: &Call<'_>, batch: Option<&Batch>) -> Result<Actor, ApiError> {
    let mut author = None;
    let changes = batch.map_or(&[][..], |batch| &batch.changes);
    for (index, change) in changes.iter().enumerate() {
        let action = match &change.command {
            Command::Create(collection) => {
                Action::Create { key: Some(collection.key()), content: Some(collection) }
            }
            Command::Update { key, patch, .. } => Action::Update { key, content: Some(patch) },
            Command::Delete { key, .. } => Action::Delete { key },
            Command::Restore(restore) => Action::Update { key: &restore.key, content: None },
        };
        let allowed = call.authorize(action).await.map_err(|error| error.below(&pointer(index)))?;
        author.get_or_insert(allowed.actor);
    }
    match author {
        Some(author) => Ok(author),
        None => Ok(call.authorize(Action::Create { key: None, content: None }).await?.actor),
    }
}

/// Returns the errors of query parameters and preconditions, which have no meaning for a batch.
fn request_errors(call: &Call<'_>) -> Vec<ErrorObject> {
    let mut faults = match call.query().and_then(|query| query::none(&query)) {
        Ok(()) => Vec::new(),
        Err(error) => error.errors,
    };
    for (name, shown) in [(IF_MATCH, "If-Match"), (IF_NONE_MATCH, "If-None-Match")] {
        if call.headers().contains_key(name) {
            let detail = "a precondition is about one collection and can't stand over a batch";
            faults.push(ErrorObject::new(Code::BAD_REQUEST, detail).at_header(shown));
        }
    }
    faults
}

/// Where changes need a precondition, requires one of each operation on a collection that was there before it.
fn require_conditions(call: &Call<'_>, changes: &[ConditionalCommand]) -> Result<(), ApiError> {
    if !call.context.settings.require_if_match {
        return Ok(());
    }
    let snapshot = call.snapshot()?;
    for (index, change) in changes.iter().enumerate() {
        let is_add = matches!(change.command, Command::Create(_));
        let found = snapshot.get(change.command.key().as_str());
        if let (false, None, Some(entry)) = (is_add, &change.condition.if_match, found) {
            let required = submit::if_match_required().at(pointer(index));
            return Err(ApiError::from(required).with_etag(entry));
        }
    }
    Ok(())
}

/// The operations of a body that could be read, and what is wrong with the others.
struct Batch {
    changes: Vec<ConditionalCommand>,
    faults: Vec<ErrorObject>,
}

impl Batch {
    fn read(call: &Call<'_>, body: &[u8]) -> Result<Self, ApiError> {
        let limits = &call.context.settings.limits;
        let operations = operations_of(call.parse(body)?)?;
        if operations.len() > limits.writes.operations_max {
            let detail = format!(
                "a batch has at most {} operations, this one has {}",
                limits.writes.operations_max,
                operations.len()
            );
            let error = ApiError::from(ErrorObject::invalid(format!("/{OPERATIONS}"), detail));
            return Err(error.with_limit(Limit::Operations));
        }
        let mut batch = Self { changes: Vec::with_capacity(operations.len()), faults: Vec::new() };
        let mut names = Names { base: &call.context.settings.base_path, local: HashMap::new() };
        for (index, operation) in operations.into_iter().enumerate() {
            match names.change(operation) {
                Ok(change) => batch.changes.push(change),
                Err(faults) => {
                    let error = ApiError::from(faults).below(&pointer(index));
                    batch.faults.extend(error.errors);
                }
            }
        }
        Ok(batch)
    }
}

fn operations_of(document: Value) -> Result<Vec<Value>, ErrorObject> {
    let wrong = |detail: String| ErrorObject::new(Code::BAD_REQUEST, detail);
    match request::take(request::members_of(document)?, OPERATIONS) {
        None => Err(wrong(format!("the document has no `{OPERATIONS}`"))),
        Some(Value::List(operations)) if !operations.is_empty() => Ok(operations.into()),
        Some(Value::List(_)) => {
            Err(wrong("a batch has at least one operation".into()).at(format!("/{OPERATIONS}")))
        }
        Some(other) => {
            let detail = format!("expected an array of operations, found {}", type_with_article(&other));
            Err(wrong(detail).at(format!("/{OPERATIONS}")))
        }
    }
}

#[derive(Default)]
struct Operation {
    op: Option<Value>,
    target: Option<Value>,
    href: Option<Value>,
    data: Option<Value>,
    meta: Option<Value>,
}

type Faults = Vec<ErrorObject>;

fn invalid<T>(pointer: &str, detail: impl Into<String>) -> Result<T, Faults> {
    Err(vec![ErrorObject::invalid(pointer, detail.into())])
}

/// Resolves the collections that operations name by key, by path, or by the `lid` of an earlier operation.
struct Names<'a> {
    base: &'a BasePath,
    local: HashMap<String, Key>,
}

impl Names<'_> {
    fn change(&mut self, operation: Value) -> Result<ConditionalCommand, Faults> {
        let Value::Map(members) = operation else {
            return invalid(
                "",
                format!("an operation is an object, found {}", type_with_article(&operation)),
            );
        };
        let mut parts = Operation::default();
        for (name, value) in members {
            match name.as_str() {
                "op" => parts.op = Some(value),
                "ref" => parts.target = Some(value),
                "href" => parts.href = Some(value),
                "data" => parts.data = Some(value),
                "meta" => parts.meta = Some(value),
                _ => {}
            }
        }
        let condition = condition_of(parts.meta.take());
        let command = self.command(parts);
        match (command, condition) {
            (Ok(command), Ok(condition)) => Ok(ConditionalCommand { command, condition }),
            (command, condition) => {
                Err([command.err(), condition.err()].into_iter().flatten().flatten().collect())
            }
        }
    }

    fn command(&mut self, mut parts: Operation) -> Result<Command, Faults> {
        match parts.op.take() {
            None => invalid("", "`op` is missing; it is `add`, `update` or `remove`"),
            Some(Value::Text(op)) if op == "add" => self.add(parts),
            Some(Value::Text(op)) if op == "update" => self.update(parts),
            Some(Value::Text(op)) if op == "remove" => self.remove(parts),
            Some(other) => {
                invalid("/op", format!("expected \"add\", \"update\" or \"remove\", found {other}"))
            }
        }
    }

    fn add(&mut self, parts: Operation) -> Result<Command, Faults> {
        if parts.target.is_some() {
            return invalid("/ref", "an `add` names its collection in `data` and has no `ref`");
        }
        if let Some(href) = parts.href {
            self.parameter_of(&href, ALL_COLLECTIONS, "an `add` goes to the path of all collections")?;
        }
        let data = resource_data(parts.data, "add")?;
        let lid = lid_of(&data)?.map(str::to_owned);
        if let Some(lid) = lid.as_deref().filter(|lid| self.local.contains_key(*lid)) {
            return invalid("/data/lid", format!("an earlier operation has the `lid` {lid:?} already"));
        }
        let new = Resource::read(data).into_new();
        match new.collection {
            Some(collection) => {
                if let Some(lid) = lid {
                    self.local.insert(lid, collection.key().clone());
                }
                Ok(Command::Create(collection))
            }
            None => Err(new.faults),
        }
    }

    fn update(&mut self, parts: Operation) -> Result<Command, Faults> {
        let (target, named) = self.named_collection(parts.target, parts.href)?.unzip();
        let data = self.identified(resource_data(parts.data, "update")?)?;
        let mut change = Resource::read(data).into_change();
        let mut faults = std::mem::take(&mut change.faults);
        if let (Some(named), Some(kind)) = (named.flatten(), change.kind)
            && named != kind
        {
            faults.push(ErrorObject::invalid("/ref/type", "`ref.type` and `data.type` differ"));
        }
        let key = match (target, change.id.as_deref()) {
            (Some(key), Some(id)) if id != key.as_str() => {
                let detail = format!("`data.id` ({id:?}) names another collection than the target ({key})");
                faults.push(ErrorObject::invalid("/data/id", detail));
                None
            }
            (Some(key), _) => Some(key),
            (None, Some(id)) => key_of(id, "/data/id").map_err(|fault| faults.extend(fault)).ok(),
            (None, None) => None,
        };
        match key.filter(|_| faults.is_empty()) {
            Some(key) => Ok(Command::Update { key, kind: change.kind, patch: change.patch }),
            None => Err(faults),
        }
    }

    fn remove(&mut self, parts: Operation) -> Result<Command, Faults> {
        match self.named_collection(parts.target, parts.href)? {
            Some((key, kind)) => Ok(Command::Delete { key, kind }),
            None => invalid("", "a `remove` needs a `ref` or an `href`"),
        }
    }

    /// Returns the collection that `ref` or `href` names, with its kind if given; `None` without either.
    fn named_collection(
        &self,
        reference: Option<Value>,
        href: Option<Value>,
    ) -> Result<Option<Named>, Faults> {
        match (reference, href) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => invalid("/href", "an operation has a `ref` or an `href`, not both"),
            (Some(reference), None) => self.parse_ref(&reference).map(Some),
            (None, Some(href)) => {
                let expected = "an `update` or a `remove` goes to the path of a collection";
                let key = self.parameter_of(&href, ONE_COLLECTION, expected)?;
                key_of(&key, "/href").map(|key| Some((key, None)))
            }
        }
    }

    fn parse_ref(&self, reference: &Value) -> Result<Named, Faults> {
        if !matches!(reference, Value::Map(_)) {
            return invalid("/ref", format!("expected an object, found {}", type_with_article(reference)));
        }
        if reference.get("relationship").is_some() {
            return invalid("/ref/relationship", "there are no relationships");
        }
        let kind = match reference.get("type") {
            None => return invalid("/ref", "`type` is missing"),
            Some(value) => value.as_text().and_then(kind_of),
        };
        if kind.is_none() {
            return invalid("/ref/type", "`type` is `document-collection` or `media-collection`");
        }
        let key = match (reference.get("id"), reference.get("lid")) {
            (Some(Value::Text(id)), None) => key_of(id, "/ref/id"),
            (None, Some(Value::Text(lid))) => self.added(lid, "/ref/lid").cloned(),
            (None, None) => invalid("/ref", "`id` is missing"),
            (Some(_), Some(_)) => invalid("/ref/lid", "a `ref` has an `id` or a `lid`, not both"),
            (Some(_), None) => invalid("/ref/id", "expected a string"),
            (None, Some(_)) => invalid("/ref/lid", "expected a string"),
        };
        key.map(|key| (key, kind))
    }

    /// Returns the key of the collection that an earlier operation adds under this `lid`.
    fn added(&self, lid: &str, pointer: &str) -> Result<&Key, Faults> {
        self.local.get(lid).ok_or_else(|| {
            let detail = format!("no earlier operation adds a collection with the `lid` {lid:?}");
            vec![ErrorObject::invalid(pointer, detail)]
        })
    }

    /// Adds the key to a resource that is named by its `lid`.
    fn identified(&self, data: ObjectMembers) -> Result<ObjectMembers, Faults> {
        let id = match lid_of(&data)? {
            Some(lid) if find(&data, "id").is_none() => Value::from(self.added(lid, "/data/lid")?.as_str()),
            Some(_) | None => return Ok(data),
        };
        Ok(data.into_iter().chain([("id".to_owned(), id)]).collect())
    }

    /// Returns the parameter of an `href`, which is a path as in `links.self`.
    fn parameter_of(&self, href: &Value, template: Template, expected: &str) -> Result<String, Faults> {
        let Some(path) = href.as_text() else {
            return invalid("/href", format!("expected a string, found {}", type_with_article(href)));
        };
        match template.parameter_of(path, self.base) {
            Some(parameter) => Ok(parameter),
            None => invalid("/href", format!("{expected}, not to {path:?}")),
        }
    }
}

/// Reads the precondition of an operation: `meta.ifMatch`, which corresponds to the header `If-Match` of a single
/// change.
fn condition_of(meta: Option<Value>) -> Result<Condition, Faults> {
    match meta {
        None => Ok(Condition::default()),
        Some(meta @ Value::Map(_)) => match meta.get("ifMatch") {
            None => Ok(Condition::default()),
            Some(tags) => match tags.as_text().and_then(preconditions::if_match) {
                Some(tags) => Ok(Condition { if_match: Some(tags), ..Condition::default() }),
                None => invalid(IF_MATCH_POINTER, "expected `*` or a list of entity tags in double quotes"),
            },
        },
        Some(other) => invalid("/meta", format!("expected an object, found {}", type_with_article(&other))),
    }
}

/// A collection as an operation names it, with its kind if given.
type Named = (Key, Option<Kind>);

fn resource_data(data: Option<Value>, op: &str) -> Result<ObjectMembers, Faults> {
    match data {
        Some(Value::Map(data)) => Ok(data),
        Some(other) => {
            invalid("/data", format!("expected a resource object, found {}", type_with_article(&other)))
        }
        None => invalid("", format!("an `{op}` needs `data`")),
    }
}

/// Returns the `lid` of a resource, if it has one.
fn lid_of(data: &[(String, Value)]) -> Result<Option<&str>, Faults> {
    match find(data, "lid") {
        None => Ok(None),
        Some(Value::Text(lid)) => Ok(Some(lid)),
        Some(other) => invalid("/data/lid", format!("expected a string, found {}", type_with_article(other))),
    }
}

/// Parses a key. The error for an invalid one is at `pointer`.
fn key_of(id: &str, pointer: &str) -> Result<Key, Faults> {
    Key::parse(id).map_err(|error| vec![ErrorObject::invalid(pointer, error.to_string())])
}
