//! Times as people write them: an instant, or a day.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, Utc};

use crate::domain::parse_date;

/// The side of a span that a time bounds; it matters for a day, which has a beginning and an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBound {
    /// The lower bound: a day means its first instant.
    Since,
    /// The upper bound: a day means its last instant.
    Until,
}

/// Parses an RFC 3339 time (`t`, `z` and a space between date and time are accepted as well), or a day in UTC.
pub(crate) fn parse(text: &str, side: TimeBound) -> Option<DateTime<Utc>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.with_timezone(&Utc));
    }
    let day = parse_date(text)?;
    let start = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc();
    match side {
        TimeBound::Since => Some(start(day)),
        TimeBound::Until => Some(start(day.checked_add_days(Days::new(1))?) - TimeDelta::nanoseconds(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_stands_for_its_beginning_or_its_end_in_utc() {
        let shown = |text, side| parse(text, side).map(|time| time.to_rfc3339());
        assert_eq!(shown("2026-11-17", TimeBound::Since).as_deref(), Some("2026-11-17T00:00:00+00:00"));
        assert_eq!(
            shown("2026-11-17", TimeBound::Until).as_deref(),
            Some("2026-11-17T23:59:59.999999999+00:00")
        );
        for moment in ["2026-11-17T01:30:00+01:30", "2026-11-17 00:00:00z"] {
            assert_eq!(
                shown(moment, TimeBound::Until).as_deref(),
                Some("2026-11-17T00:00:00+00:00"),
                "{moment}"
            );
        }
        for text in ["2026-11-7", "2026-13-01", "20261117", "2026-11-17T", "+2026-11-1", "yesterday"] {
            assert_eq!(shown(text, TimeBound::Since), None, "{text}");
        }
    }
}
