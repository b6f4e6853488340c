//! The timeline of all events, with a chart of the number of events each day.

mod bars;
mod view;

use askama::Template;
use warp::http::StatusCode;

use crate::domain::Value;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::Query;
use crate::http::reply::Reply;
use crate::http::ui;
use crate::http::ui::api;
use crate::http::ui::frame::{Frame, Nav, Visit, with_query};
use crate::http::ui::pages::events::bars::{Bar, bars};
use crate::http::ui::words::{ShownTime, items, member, number, text};

pub(crate) use crate::http::ui::pages::events::view::EventView;

/// The number of events on a page.
const PAGE_LEN: usize = 50;

/// The parameters of the timeline, and their names in the API.
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

/// The values of the parameters as they were sent.
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

    /// The path of the page with some of its filters changed.
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

    /// The filters as parameters of the API. At a past revision they end there, unless another end is given.
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

struct Day {
    at: ShownTime,
    events: Vec<EventView>,
}

pub(crate) async fn page(visit: &Visit<'_>) -> Result<Reply, ApiError> {
    let filters = Filters::of(visit);
    let asked = filters.to_api(visit);
    let document = api::get(visit.call, api_path("/events", &asked, visit)).await?;
    let frame = visit.live_frame("Timeline", Nav::Timeline, None).await;
    let bars = bars(visit, &asked, &filters, &frame).await?;
    let events = items(&document, "data").iter().map(EventView::of);
    let (newer, older) = adjacent_pages(&document, &filters.with(&[]), &frame);
    let total = total(&document);
    let page = Page { days: by_day(events), frame, filters, bars, total, newer, older };
    Ok(ui::page(StatusCode::OK, &page))
}

/// The address of a page of events in the API.
pub(crate) fn api_path(path: &str, asked: &[(&str, String)], visit: &Visit<'_>) -> String {
    let mut parameters = asked.to_vec();
    parameters.push(("page[size]", PAGE_LEN.to_string()));
    for (name, api) in [("after", "page[after]"), ("before", "page[before]")] {
        parameters.extend(visit.asked(name).map(|cursor| (api, cursor.to_owned())));
    }
    with_query(path, &parameters)
}

/// The number of events on all pages.
pub(crate) fn total(document: &Value) -> usize {
    number(member(member(document, "meta"), "page"), "total")
}

/// The addresses of the page with newer events and of that with older ones than the page at `path`.
pub(crate) fn adjacent_pages(
    document: &Value,
    path: &str,
    frame: &Frame,
) -> (Option<String>, Option<String>) {
    let page = |link: &str, cursor: &str, name: &'static str| {
        let link = text(member(document, "links"), link);
        let query = Query::parse(link.split_once('?')?.1).ok()?;
        Some(frame.to(&with_query(path, &[(name, query.first(cursor)?.to_owned())])))
    };
    (page("prev", "page[before]", "before"), page("next", "page[after]", "after"))
}

fn by_day(events: impl Iterator<Item = EventView>) -> Vec<Day> {
    let mut days: Vec<Day> = Vec::new();
    for event in events {
        match days.last_mut().filter(|day| day.at.0.date_naive() == event.commit.at.0.date_naive()) {
            Some(day) => day.events.push(event),
            None => days.push(Day { at: event.commit.at, events: vec![event] }),
        }
    }
    days
}
