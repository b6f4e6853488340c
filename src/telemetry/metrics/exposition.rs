//! What a scrape returns, encoded by the crate that knows the formats.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::telemetry::metrics::{Format, Histogram};

/// The source of the metrics page, which is rendered anew at each scrape.
#[derive(Clone)]
pub struct Exposition {
    registry: Arc<Registry>,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").finish_non_exhaustive()
    }
}

impl Exposition {
    /// Creates an exposition that `show` writes.
    pub fn new(show: impl Fn(&mut Scrape<'_>) + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(Box::new(show))));
        Self { registry: Arc::new(registry) }
    }

    /// Renders the page.
    #[must_use]
    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to memory can't fail");
        format.of(text)
    }
}

struct Shown(Box<dyn Fn(&mut Scrape<'_>) + Send + Sync>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown(..)")
    }
}

impl Collector for Shown {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Scrape { encoder, outcome: Ok(()) };
        (self.0)(&mut page);
        page.outcome
    }
}

/// A scrape in progress.
pub struct Scrape<'a> {
    encoder: DescriptorEncoder<'a>,
    outcome: fmt::Result,
}

impl Scrape<'_> {
    /// Adds counters; `name` is without the suffix `_total`.
    pub fn counters(&mut self, name: &str, help: &str, show: impl FnOnce(&mut Series<'_>)) {
        self.family(name, help, MetricType::Counter, show);
    }

    /// Adds gauges.
    pub fn gauges(&mut self, name: &str, help: &str, show: impl FnOnce(&mut Series<'_>)) {
        self.family(name, help, MetricType::Gauge, show);
    }

    /// Adds histograms.
    pub fn histograms(&mut self, name: &str, help: &str, show: impl FnOnce(&mut Series<'_>)) {
        self.family(name, help, MetricType::Histogram, show);
    }

    /// Adds a counter without labels; `name` is without the suffix `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, |series| series.counter(&[], value));
    }

    /// Adds a gauge without labels; an unknown value has no sample.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Option<f64>>) {
        self.gauges(name, help, |series| {
            value.into().into_iter().for_each(|value| series.gauge(&[], value));
        });
    }

    /// Adds a histogram without labels.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.histograms(name, help, |series| series.histogram(&[], histogram));
    }

    fn family(&mut self, name: &str, help: &str, kind: MetricType, show: impl FnOnce(&mut Series<'_>)) {
        let outcome = self.encoder.encode_descriptor(name, help, None, kind).and_then(|encoder| {
            let mut series = Series { encoder, outcome: Ok(()) };
            show(&mut series);
            series.outcome
        });
        self.outcome = self.outcome.and(outcome);
    }
}

/// The series of one metric.
pub struct Series<'a> {
    encoder: MetricEncoder<'a>,
    outcome: fmt::Result,
}

/// The labels that distinguish a series from others of the same metric.
type Labels<'l> = &'l [(&'static str, &'l str)];

impl Series<'_> {
    /// Adds a counter's series.
    pub fn counter(&mut self, labels: Labels<'_>, value: impl EncodeCounterValue) {
        self.one(labels, |to| to.encode_counter::<NoLabelSet, _, f64>(&value, None));
    }

    /// Adds a gauge's series.
    pub fn gauge(&mut self, labels: Labels<'_>, value: f64) {
        let whole = value as i64;
        self.one(labels, |to| {
            if whole as f64 == value { to.encode_gauge(&whole) } else { to.encode_gauge(&value) }
        });
    }

    /// Adds a histogram's series.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let buckets = histogram.buckets();
        // The sum of the buckets, so that both agree while other threads continue to count.
        let times = buckets.iter().map(|(_, count)| count).sum();
        self.one(labels, |to| to.encode_histogram::<NoLabelSet>(histogram.sum(), times, &buckets, None));
    }

    fn one(&mut self, labels: Labels<'_>, encode: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result) {
        let outcome = match labels {
            [] => encode(&mut self.encoder),
            _ => self.encoder.encode_family(&labels).and_then(|mut series| encode(&mut series)),
        };
        self.outcome = self.outcome.and(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: Format) -> String {
        let exposition = Exposition::new(|page| {
            page.counters("c", "How often.", |series| {
                series.counter(&[("key", "a\"b\\c\nd")], 2_u64);
                series.counter(&[("key", "e")], 3_u64);
            });
            page.gauge("g", "How much.", 1.5);
            page.gauge("unknown", "How much of what nobody knows.", None);
            let histogram = Histogram::of_counts();
            histogram.count(2);
            page.histogram("h", "How many.", &histogram);
        });
        exposition.text(format)
    }

    #[test]
    fn a_page_is_written_in_openmetrics() {
        let text = shown(Format::OpenMetrics);
        assert!(
            text.starts_with("# HELP c How often.\n# TYPE c counter\nc_total{key=\"a\\\"b\\\\c\\nd\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("\ng 1.5\n") && text.contains("\nh_bucket{le=\"+Inf\"} 1\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_older_text_names_counters_as_they_are() {
        let text = shown(Format::Prometheus);
        assert!(text.starts_with("# HELP c_total How often.\n# TYPE c_total counter\nc_total{"), "{text}");
        assert!(text.contains("# TYPE g gauge\ng 1.5\n"), "{text}");
        assert!(!text.contains("EOF"), "{text}");
    }
}
