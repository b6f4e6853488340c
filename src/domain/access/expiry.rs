//! Expiry dates and times.

use std::fmt;

use chrono::{DateTime, NaiveDate, Utc};

use crate::domain::to_the_second;

/// When something expires: at the end of a day, or at a time; UTC.
///
/// ```
/// use collectory::Expiry;
///
/// let expiry = Expiry::parse("2027-03-01").unwrap();
/// assert!(!expiry.has_passed("2027-03-01T23:59:59Z".parse().unwrap()));
/// assert!(expiry.has_passed("2027-03-02T00:00:00Z".parse().unwrap()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// At the end of this day.
    Day(NaiveDate),
    /// At this time.
    Time(DateTime<Utc>),
}

impl Expiry {
    /// Parses a date or a time of RFC 3339.
    ///
    /// # Errors
    ///
    /// Returns a message that shows the expected forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let time = || DateTime::parse_from_rfc3339(text).ok().map(|time| Self::Time(time.to_utc()));
        parse_date(text).map(Self::Day).or_else(time).ok_or_else(|| {
            format!("{text:?} is no day and no time; write it as 2027-03-01 or 2027-03-01T12:00:00Z")
        })
    }

    /// Whether the day is over, or the time reached.
    #[must_use]
    pub fn has_passed(&self, now: DateTime<Utc>) -> bool {
        match *self {
            Self::Day(day) => now.date_naive() > day,
            Self::Time(time) => now >= time,
        }
    }
}

/// Parses a date of RFC 3339. Chrono alone would also accept `2026-3-1` and `+2026-03-1`.
pub(crate) fn parse_date(text: &str) -> Option<NaiveDate> {
    let is_date = text.len() == "2026-03-01".len() && text.starts_with(|c: char| c.is_ascii_digit());
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|_| is_date)
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day(day) => write!(f, "{day}"),
            Self::Time(time) => f.write_str(&to_the_second(*time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_in_full() {
        assert_eq!(Expiry::parse("2027-03-01").unwrap().to_string(), "2027-03-01");
        for text in ["2027-3-1", "2027-03-1", "+12027-03-01", "20270301", "+2027-3-01", " 2027-3-1", ""] {
            assert!(Expiry::parse(text).is_err(), "{text:?}");
        }
    }
}
