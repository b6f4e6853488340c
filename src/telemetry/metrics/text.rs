//! The text formats, and the choice between them.

/// The format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics` 1.0.0 (<https://github.com/prometheus/OpenMetrics>).
    OpenMetrics,
    /// The older text format of Prometheus, version 0.0.4.
    Prometheus,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// Chooses the format for an `Accept` header: `OpenMetrics` if it is requested by name.
    #[must_use]
    pub fn wanted(accept: &str) -> Self {
        let weight_of = |name: &str| {
            let range = accept.split(',').map(str::trim).find(|range| {
                range.split(';').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(name))
            })?;
            let mut parameters = range.split(';').map(str::trim);
            let weight = parameters.find_map(|it| it.strip_prefix("q=").or_else(|| it.strip_prefix("Q=")));
            weight.map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok())
        };
        let wanted = weight_of(OPEN_METRICS).unwrap_or(0.0);
        if wanted > 0.0 && wanted >= weight_of("text/plain").unwrap_or(0.0) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a page in `OpenMetrics` to this format.
    pub(crate) fn of(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => older(&text),
        }
    }
}

/// Converts to the older format, which names counters with `_total` and has no end marker; the samples are the same.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut lines = text.lines().filter(|line| *line != "# EOF").peekable();
    while let Some(line) = lines.next() {
        let of_counter = match line.strip_prefix("# HELP ") {
            Some(_) => lines.peek().is_some_and(|next| is_counter(next)),
            None => is_counter(line),
        };
        match line.get(..7).filter(|_| of_counter) {
            Some(keyword) => {
                let (name, rest) = line[7..].split_once(' ').unwrap_or((&line[7..], ""));
                out.extend([keyword, name, "_total ", rest, "\n"]);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

/// Whether a line declares a counter.
fn is_counter(line: &str) -> bool {
    line.starts_with("# TYPE ") && line.ends_with(" counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("", Format::Prometheus),
        ] {
            assert_eq!(Format::wanted(accept), format, "{accept}");
        }
    }
}
