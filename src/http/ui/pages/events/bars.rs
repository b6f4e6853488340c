//! A bar chart of the number of events each day.

use chrono::{Days, NaiveDate};

use crate::domain::Key;
use crate::engine::history::Filter;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::{self, EventScope, Query, listed};
use crate::http::routes::event_filter;
use crate::http::ui::frame::{Frame, Visit, with_query};
use crate::http::ui::pages::events::Filters;

const DAYS_LEN: u64 = 60;

/// The height of the highest bar, in the units of the picture.
const BAR_HEIGHT_MAX: usize = 48;

pub(super) struct Bar {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) height: usize,
    pub(super) day: NaiveDate,
    pub(super) count: usize,
    pub(super) link: String,
}

/// Returns the bars of the last days; none if there are no events.
pub(super) async fn bars(
    visit: &Visit<'_>,
    asked: &[(&'static str, String)],
    filters: &Filters,
    frame: &Frame,
) -> Result<Vec<Bar>, ApiError> {
    let call = visit.call;
    let keys: Vec<Key> = listed(filters.get("key")).filter_map(|key| Key::parse(&key).ok()).collect();
    let allowed =
        call.authorize(Action::ListEvents { key: keys.first().filter(|_| keys.len() == 1) }).await?;
    let view = call.history_view().await?;
    let scope = EventScope { collection: true, pages: false, cursor_profile: false };
    let raw = with_query("", asked);
    let query = query::events(&Query::parse(raw.trim_start_matches('?'))?, scope)?;
    let counts = call
        .query_history(move || {
            let filter: Filter = event_filter(&view, &query, keys, &allowed)?;
            Ok(view.events_by_day(&filter)?)
        })
        .await?;
    let Some((last, _)) = counts.last_key_value() else { return Ok(Vec::new()) };
    let today = call.context.clock.now().date_naive();
    let end = if visit.as_of.is_some() { *last } else { (*last).max(today) };
    let first = end.checked_sub_days(Days::new(DAYS_LEN - 1)).unwrap_or(end);
    let highest = counts.range(first..=end).map(|(_, count)| *count).max().unwrap_or(1);
    let bar = |at: u64| {
        let day = first.checked_add_days(Days::new(at))?;
        let count = counts.get(&day).copied().unwrap_or(0);
        let height = (count * BAR_HEIGHT_MAX).div_ceil(highest);
        let text = day.to_string();
        let link = frame.to(&filters.with(&[("from", &text), ("until", &text)]));
        let x = usize::try_from(at).unwrap_or(0) * 10;
        Some(Bar { x, y: BAR_HEIGHT_MAX - height, height, day, count, link })
    };
    Ok((0..DAYS_LEN).filter_map(bar).collect())
}
