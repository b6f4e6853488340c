//! The names of the metrics; see the table in the README.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::engine::history::History;
use crate::engine::{self, Projection, Signal, Snapshot};
use crate::http;
use crate::store;
use crate::store::git::Statistics;
use crate::store::remote::{Counters, Link, LinkState};
use crate::telemetry::metrics::{Exposition, Scrape, show_process};
use crate::telemetry::{Limit, LimitCounters};
use crate::webhooks::Webhooks;

/// The revision this program was built from, if the build gave it.
const REVISION: &str = match option_env!("COLLECTORY_BUILD_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// The parts of a running service that have metrics.
pub(super) struct MetricSources {
    pub(super) http: Arc<http::Metrics>,
    pub(super) engine: Arc<engine::Metrics>,
    pub(super) store: Arc<store::Metrics>,
    pub(super) reached: LimitCounters,
    pub(super) signals: mpsc::WeakSender<Signal>,
    pub(super) projection: Projection,
    pub(super) history: History,
    /// The object directory of the repository.
    pub(super) objects: PathBuf,
    pub(super) webhooks: Option<Arc<Webhooks>>,
    pub(super) link: Option<Arc<Link>>,
}

/// Exposes all metrics.
pub(super) fn exposition(sources: MetricSources) -> Exposition {
    Exposition::new(move |page| {
        requests(page, &sources.http);
        commits(page, &sources);
        hand_edits(page, &sources.engine);
        if let Some(snapshot) = sources.projection.snapshot() {
            served(page, &snapshot, &sources.history);
        }
        readers(page, &sources);
        page.counters("collectory_limit_reached", "How often a limit was reached.", |series| {
            sources
                .reached
                .counts()
                .for_each(|(limit, times)| series.counter(&[("limit", limit.name())], times));
        });
        repository(page, &sources);
        if let Some(link) = &sources.link {
            remote(page, link);
        }
        page.gauges("collectory_build_info", "The version of this program.", |series| {
            let labels = [("version", env!("CARGO_PKG_VERSION")), ("revision", REVISION)];
            series.gauge(&labels, 1.0);
        });
        show_process(page);
    })
}

fn requests(page: &mut Scrape<'_>, http: &http::Metrics) {
    page.counters("collectory_http_requests", "Requests that were answered.", |series| {
        for http::RequestDurations { route, method, status, durations } in http.requests() {
            let labels = [("route", route), ("method", method), ("status", status)];
            series.counter(&labels, durations.sample_count());
        }
    });
    let help = "Time from the head of a request until its answer was ready to be sent.";
    page.histograms("collectory_http_request_duration_seconds", help, |series| {
        for http::RequestDurations { route, method, status, durations } in http.requests() {
            let labels = [("route", route), ("method", method), ("status", status)];
            series.histogram(&labels, durations);
        }
    });
    page.gauges("collectory_http_requests_in_flight", "Requests that are being answered.", |series| {
        for (route, method, value) in http.in_flight() {
            series.gauge(&[("route", route), ("method", method)], value as f64);
        }
    });
    let help = "What the authorizer said when it was asked whether an action is allowed.";
    page.counters("collectory_authorizations", help, |series| {
        for (action, outcome, times) in http.authorizations() {
            series.counter(&[("action", action), ("outcome", outcome)], times);
        }
    });
}

fn commits(page: &mut Scrape<'_>, sources: &MetricSources) {
    let engine = &sources.engine;
    page.counters("collectory_commits", "Commits that came to the served branch.", |series| {
        for (origin, times) in [
            ("api", engine.writes.sample_count()),
            ("work-tree", engine.edits_committed.sample_count()),
            ("command", engine.commits_by_command.get()),
            ("git", engine.commits_by_git.get()),
            ("merge", engine.commits_by_merge.get()),
        ] {
            series.counter(&[("origin", origin)], times);
        }
    });
    let help = "Time from when a write was asked for until its commit was durable and could be read.";
    page.histograms("collectory_commit_duration_seconds", help, |series| {
        series.histogram(&[("origin", "api")], &engine.writes);
        series.histogram(&[("origin", "work-tree")], &engine.edits_committed);
    });
    page.histogram("collectory_group_commits", "Writes that were made durable together.", &engine.groups);
    let queued = sources.signals.upgrade().map(|queue| (queue.max_capacity() - queue.capacity()) as f64);
    page.gauge("collectory_queue_length", "What waits for the writer.", queued.unwrap_or_default());
    page.histograms("collectory_flush_duration_seconds", "Time that flushes to the disk took.", |series| {
        series.histogram(&[("step", "file")], &sources.store.files_flushed);
        series.histogram(&[("step", "folder")], &sources.store.folders_flushed);
        series.histogram(&[("step", "file-system")], &sources.store.file_systems_flushed);
    });
}

fn hand_edits(page: &mut Scrape<'_>, engine: &engine::Metrics) {
    let kinds = [("saved", &engine.saved), ("committed", &engine.committed)];
    let help = "Hand edits that came to be served: files saved, and moves of the branch by others.";
    page.counters("collectory_hand_edits", help, |series| {
        kinds.iter().for_each(|(kind, edits)| series.counter(&[("kind", kind)], edits.sample_count()));
    });
    let help = "Time until a hand edit was served, from its saving, or from when the branch was looked at.";
    page.histograms("collectory_hand_edit_latency_seconds", help, |series| {
        kinds.iter().for_each(|(kind, edits)| series.histogram(&[("kind", kind)], edits));
    });
}

fn served(page: &mut Scrape<'_>, snapshot: &Snapshot, history: &History) {
    page.gauge("collectory_collections", "Collections that are served.", snapshot.catalog().len() as f64);
    page.gauge("collectory_problems", "Problems in the repository.", snapshot.problems_len() as f64);
    page.gauge("collectory_uncommitted", "Uncommitted hand edits.", snapshot.hand_edits.served as f64);
    let at = history.head_time().map(|at| at.timestamp() as f64);
    page.gauge("collectory_revision_timestamp_seconds", "When the served revision was committed.", at);
}

fn readers(page: &mut Scrape<'_>, sources: &MetricSources) {
    let (http, webhooks) = (&sources.http, &sources.webhooks);
    page.gauge("collectory_subscribers", "Readers of streams.", http.subscribers() as f64);
    let help = "Readers of streams that were too slow, or may not read on.";
    let dropped = http.revoked_streams() + sources.reached.of(Limit::LagEvents);
    page.counter("collectory_subscribers_dropped", help, dropped);
    page.counters("collectory_webhook_deliveries", "Deliveries to receivers of events.", |series| {
        let Some(metrics) = webhooks.as_ref().map(|webhooks| webhooks.metrics()) else { return };
        for (outcome, times) in
            [("ok", &metrics.delivered), ("failed", &metrics.failed), ("gone", &metrics.gone)]
        {
            series.counter(&[("outcome", outcome)], times.get());
        }
    });
    let lags = webhooks.iter().flat_map(|webhooks| webhooks.receivers()).filter(|it| !it.ended);
    let lag = lags.map(|receiver| receiver.lag as f64).reduce(f64::max);
    page.gauge(
        "collectory_webhook_lag_events",
        "Events that the slowest receiver has not been sent yet.",
        lag,
    );
}

fn repository(page: &mut Scrape<'_>, sources: &MetricSources) {
    let Statistics { packs, bytes, loose_objects, .. } = Statistics::of(&sources.objects);
    page.gauge("collectory_repository_packs", "Packs of the repository.", packs as f64);
    page.gauge("collectory_repository_bytes", "Bytes of packs and their indexes.", bytes as f64);
    let help = "Objects of the repository with a file of their own.";
    page.gauge("collectory_repository_loose_objects", help, loose_objects as f64);
    let runs = sources.store.maintenance_runs.get();
    page.counter("collectory_maintenance_runs", "Maintenance tasks that were carried out.", runs);
}

fn remote(page: &mut Scrape<'_>, link: &Link) {
    let (status, counters) = (link.status(), &link.counters);
    let is_up = f64::from(u8::from(status.state == LinkState::Up));
    page.gauge("collectory_remote_up", "Whether the remote was reached and takes what is pushed.", is_up);
    let attempted = Some(counters.attempted_at.get()).filter(|at| *at > 0).map(|at| at as f64);
    let help = "When the last push or fetch began.";
    page.gauge("collectory_remote_last_attempt_timestamp_seconds", help, attempted);
    let succeeded = status.last_contact.map(|at| at.timestamp() as f64);
    let help = "When the remote answered last.";
    page.gauge("collectory_remote_last_success_timestamp_seconds", help, succeeded);
    let help = "Commits here that the remote does not have yet.";
    page.gauge("collectory_remote_ahead_commits", help, status.ahead as f64);
    page.histograms("collectory_remote_push_duration_seconds", "Time that pushes took.", |series| {
        for (outcome, durations) in Counters::PUSH_OUTCOMES.into_iter().zip(&counters.pushes) {
            series.histogram(&[("outcome", outcome)], durations);
        }
    });
    page.histogram("collectory_remote_fetch_duration_seconds", "Time that fetches took.", &counters.fetches);
    page.counter("collectory_remote_races", "Pushes that others were faster than.", counters.races.get());
    let rewrites = counters.rewrites.get();
    page.counter("collectory_remote_rewrites", "Rewrites of the remote that were followed.", rewrites);
    let help = "Changes of others that stood against ours when both were merged.";
    page.counter("collectory_remote_conflicts", help, counters.conflicts.get());
    let help = "Time from when others made a commit until it was here.";
    page.histogram("collectory_remote_propagation_seconds", help, &counters.propagation);
}
