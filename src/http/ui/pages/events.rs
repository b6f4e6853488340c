//! The timeline of everything, and the bars of how much happened each day.

use askama::Template;
use chrono::{Days, NaiveDate};
use warp::http::StatusCode;

use crate::domain::{Key, Value};
use crate::engine::history::Filter;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::{self, EventScope, Query, listed};
use crate::http::reply::Reply;
use crate::http::routes::event_filter;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit, encoded, with_query};
use crate::http::ui::words::{At, ChangeView, items, number, short, text};

/// How many events a page shows.
const PAGE_LEN: usize = 50;

/// How many days the bars show.
const DAYS_LEN: u64 = 60;

/// The height of the highest bar, in the units of the picture.
const BAR_HEIGHT_MAX: usize = 48;

/// What can be asked of the timeline, and how the API calls it.
const FILTERS: [(&str, &str); 6] = [
    ("key", "filter[collection]"),
    ("actor", "filter[actor]"),
    ("action", "filter[action]"),
    ("origin", "filter[origin]"),
    ("from", "filter[since]"),
    ("until", "filter[until]"),
];

#[derive(Template)]
#[template(path = "events.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    filters: Filters,
    days: Vec<Day>,
    bars: Vec<Bar>,
    total: usize,
    newer: Option<String>,
    older: Option<String>,
}

/// What is asked for, as it was written.
struct Filters(Vec<(&'static str, String)>);

impl Filters {
    fn of(visit: &Visit<'_>) -> Self {
        let asked = |name: &'static str| (name, visit.asked(name).unwrap_or_default().to_owned());
        Self(FILTERS.map(|(name, _)| asked(name)).into())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(it, _)| *it == name).map_or("", |(_, value)| value)
    }

    fn is_any(&self) -> bool {
        self.0.iter().any(|(_, value)| !value.is_empty())
    }

    /// The same question with another value, as a page.
    fn with(&self, changes: &[(&'static str, &str)]) -> String {
        let changed =
            |name: &str| changes.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
        let values: Vec<_> = self
            .0
            .iter()
            .map(|(name, value)| (*name, changed(name).unwrap_or_else(|| value.clone())))
            .collect();
        with_query("/events", &values)
    }

    /// The same question to the API; as of a revision nothing later is told.
    fn to_api(&self, visit: &Visit<'_>) -> Vec<(&'static str, String)> {
        let mut asked: Vec<_> = FILTERS
            .iter()
            .map(|(name, api)| (*api, self.get(name).to_owned()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        if let Some(as_of) = &visit.as_of
            && self.get("until").is_empty()
        {
            asked.push(("filter[until]", as_of.revision.to_string()));
        }
        asked
    }
}

/// The events of one day.
struct Day {
    at: At,
    events: Vec<EventView>,
}

/// One bar: a day and how many events it has.
struct Bar {
    x: usize,
    y: usize,
    height: usize,
    day: NaiveDate,
    count: usize,
    link: String,
}

/// An event as it is shown.
pub(crate) struct EventView {
    pub(crate) id: String,
    pub(crate) action: String,
    pub(crate) key: String,
    pub(crate) revision: String,
    pub(crate) at: At,
    pub(crate) actor: String,
    pub(crate) email: String,
    pub(crate) origin: String,
    pub(crate) subject: String,
    pub(crate) reason: String,
    pub(crate) undoes: String,
    pub(crate) restores: String,
    pub(crate) moved_to: String,
    pub(crate) moved_from: String,
    pub(crate) changes: Vec<ChangeView>,
    pub(crate) problem: Option<(String, String)>,
}

impl EventView {
    /// From a resource of the API.
    pub(crate) fn of(resource: &Value) -> Self {
        let none = Value::Null;
        let attributes = resource.get("attributes").unwrap_or(&none);
        let actor = attributes.get("actor").unwrap_or(&none);
        let own = |name: &str| text(attributes, name).to_owned();
        let problem = attributes.get("problem").map(|fault| {
            let place = ["path", "line", "column"].map(|name| match fault.get(name) {
                Some(Value::Text(text)) => text.to_string(),
                Some(other) => other.to_string(),
                None => String::new(),
            });
            (place.join(":"), text(fault, "message").to_owned())
        });
        Self {
            id: text(resource, "id").to_owned(),
            action: own("action"),
            key: own("collection"),
            revision: own("revision"),
            at: At::parse(text(attributes, "at")).unwrap_or(At(chrono::DateTime::UNIX_EPOCH)),
            actor: text(actor, "name").to_owned(),
            email: text(actor, "email").to_owned(),
            origin: own("origin"),
            subject: own("subject"),
            reason: own("reason"),
            undoes: own("undoes"),
            restores: own("restores"),
            moved_to: own("movedTo"),
            moved_from: own("movedFrom"),
            changes: ChangeView::list(attributes.get("changes")),
            problem,
        }
    }

    pub(crate) fn short(&self) -> &str {
        short(&self.revision)
    }

    /// The reason without the first line, where that is the subject of the commit.
    pub(crate) fn why(&self) -> &str {
        self.reason.strip_prefix(self.subject.as_str()).unwrap_or(&self.reason).trim()
    }

    /// What happened, in a few words.
    pub(crate) fn gist(&self) -> String {
        if self.problem.is_some() {
            return "its file can't be read".to_owned();
        }
        if self.action != "updated" {
            return String::new();
        }
        let names: Vec<&str> = self.changes.iter().map(|it| it.attribute.as_str()).collect();
        if names.is_empty() { "comments or order only".to_owned() } else { names.join(", ") }
    }
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let filters = Filters::of(visit);
    let asked = filters.to_api(visit);
    let document = api::get(visit.call, target("/events", &asked, visit)).await?;
    let frame = visit.live_frame("Timeline", Nav::Timeline, None).await;
    let bars = bars(visit, &asked, &filters, &frame).await?;
    let events = items(document.get("data")).iter().map(EventView::of);
    let (newer, older) = neighbours(&document, &filters, &frame);
    let total = total(&document);
    let page = Page { days: by_day(events), frame, filters, bars, total, newer, older };
    Ok(ui::page(StatusCode::OK, &page))
}

/// The API's address of a page of events.
pub(crate) fn target(path: &str, asked: &[(&str, String)], visit: &Visit<'_>) -> String {
    let mut parameters = asked.to_vec();
    parameters.push(("page[size]", PAGE_LEN.to_string()));
    for (name, api) in [("after", "page[after]"), ("before", "page[before]")] {
        parameters.extend(visit.asked(name).map(|cursor| (api, cursor.to_owned())));
    }
    with_query(path, &parameters)
}

/// How many events there are on all pages.
pub(crate) fn total(document: &Value) -> usize {
    number(document.get("meta").and_then(|meta| meta.get("page")?.get("total")))
}

/// The cursors that lead to newer and to older events.
pub(crate) fn cursors(document: &Value) -> (Option<String>, Option<String>) {
    let cursor = |link: &str, name: &str| {
        let link = document.get("links")?.get(link)?.as_text()?;
        let query = Query::parse(link.split_once('?')?.1).ok()?;
        query.first(name).map(str::to_owned)
    };
    (cursor("prev", "page[before]"), cursor("next", "page[after]"))
}

fn neighbours(document: &Value, filters: &Filters, frame: &Frame) -> (Option<String>, Option<String>) {
    let link = |name: &str, cursor: String| {
        let page = filters.with(&[]);
        let sign = if page.contains('?') { '&' } else { '?' };
        frame.to(&format!("{page}{sign}{name}={}", encoded(&cursor)))
    };
    let (newer, older) = cursors(document);
    (newer.map(|cursor| link("before", cursor)), older.map(|cursor| link("after", cursor)))
}

fn by_day(events: impl Iterator<Item = EventView>) -> Vec<Day> {
    let mut days: Vec<Day> = Vec::new();
    for event in events {
        match days.last_mut().filter(|day| day.at.0.date_naive() == event.at.0.date_naive()) {
            Some(day) => day.events.push(event),
            None => days.push(Day { at: event.at, events: vec![event] }),
        }
    }
    days
}

/// The bars of the last days that have events.
async fn bars(
    visit: &Visit<'_>,
    asked: &[(&'static str, String)],
    filters: &Filters,
    frame: &Frame,
) -> Result<Vec<Bar>, ApiError> {
    let call = visit.call;
    let keys: Vec<Key> = listed(filters.get("key")).filter_map(|key| Key::parse(key).ok()).collect();
    let allowed =
        call.authorize(Action::ListEvents { key: keys.first().filter(|_| keys.len() == 1) }).await?;
    let view = visit.past().await?;
    let scope = EventScope { collection: true, pages: false, cursor_profile: false };
    let raw = with_query("", asked);
    let query = query::events(&Query::parse(raw.trim_start_matches('?'))?, scope)?;
    let counts = visit
        .call
        .looking(move || {
            let filter: Filter = event_filter(&view, &query, keys, &allowed)?;
            Ok(view.events_by_day(&filter)?)
        })
        .await?;
    let Some((last, _)) = counts.last_key_value() else { return Ok(Vec::new()) };
    let today = call.context.clock.now().date_naive();
    let end = if visit.as_of.is_some() { *last } else { (*last).max(today) };
    let highest = counts.values().copied().max().unwrap_or(1);
    let bar = |at: u64| {
        let day = end.checked_sub_days(Days::new(DAYS_LEN - 1 - at))?;
        let count = counts.get(&day).copied().unwrap_or(0);
        let height = (count * BAR_HEIGHT_MAX).div_ceil(highest);
        let text = day.to_string();
        let link = frame.to(&filters.with(&[("from", &text), ("until", &text)]));
        let x = usize::try_from(at).unwrap_or(0) * 10;
        Some(Bar { x, y: BAR_HEIGHT_MAX - height, height, day, count, link })
    };
    Ok((0..DAYS_LEN).filter_map(bar).collect())
}
