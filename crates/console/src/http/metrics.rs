use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tidegate_core::counters::Counter;
use tidegate_operate::status::QueueStatus;

use super::App;
use super::error_response::ErrorResponse;
use crate::figures::{StackFigures, precise, size};
use crate::rate_limit::{EmptyBucket, TooManyStreams};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Current values in the `OpenMetrics` format.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, ErrorResponse> {
    let mut registry = Registry::with_prefix("tidegate");
    registry.register_collector(Box::new(StackCollector(Arc::clone(&app))));
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).map_err(|error| {
        let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
        ErrorResponse::new(status, "service", error.to_string())
    })?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], encoded).into_response())
}

/// Reads all values from the engine's state at each scrape, so that nothing is counted in two places.
#[derive(Debug)]
struct StackCollector(Arc<App>);

impl Collector for StackCollector {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut writer = MetricsWriter(&mut to);
        streams(&self.0, &mut writer)?;
        regulator(&self.0, &mut writer)
    }
}

/// Writes metrics with a single value, or with one value for each label.
struct MetricsWriter<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl MetricsWriter<'_, '_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        let write = |(labels, value): (L, u64)| {
            ConstCounter::new(value).encode(labelled(&mut family, &labels)?)
        };
        values.into_iter().try_for_each(write)
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let write = |(labels, value): (L, f64)| {
            ConstGauge::new(value).encode(labelled(&mut family, &labels)?)
        };
        values.into_iter().try_for_each(write)
    }
}

fn labelled<'a, L: EncodeLabelSet>(
    family: &'a mut MetricEncoder<'_>,
    labels: &'a L,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    family.encode_family(labels)
}

type OneLabel<'a> = [(&'a str, &'a str); 1];

fn streams(app: &App, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let hub = &app.shared.hub;
    let (counts, open, addresses, (waiting, deepest), last) = hub.look(|board| {
        let counts = board.counts().clone();
        (counts, board.streams(), board.addresses(), board.waiting(), board.history().last())
    });
    let kind = |(kind, count): (&&'static str, &u64)| ([("kind", *kind)], *count);
    writer.counters("console_events_sent", "Events that went out", counts.sent.iter().map(kind))?;
    writer.counters(
        "console_events_dropped",
        "Telemetry that a newer one replaced before it went, and changes that found a full queue",
        counts.dropped.iter().map(kind),
    )?;
    let buckets = ["stream", "address"].map(|bucket| ([("bucket", bucket)], counts.tokens()));
    writer.counters(
        "console_tokens_consumed",
        "Tokens taken: an event takes one of each",
        buckets,
    )?;
    let empty = |(of, name)| ([("bucket", name)], counts.empty.get(&of).copied().unwrap_or(0));
    writer.counters(
        "console_bucket_empty",
        "Events that had to wait for a token, by the bucket that had none",
        [(EmptyBucket::Stream, "stream"), (EmptyBucket::Address, "address")].map(empty),
    )?;
    writer.counter("console_streams_opened", "Streams that were opened", counts.opened)?;
    writer.counter("console_reconnects", "Streams of clients that came back", counts.reconnects)?;
    writer.counter(
        "console_events_replayed",
        "Changes told to clients that came back",
        counts.replayed,
    )?;
    writer.counter(
        "console_gaps",
        "Times a client was told that changes are missing",
        counts.gaps,
    )?;
    let refused = |(of, name)| ([("of", name)], counts.refused.get(&of).copied().unwrap_or(0));
    writer.counters(
        "console_streams_refused",
        "Streams that were refused with 429, by whose limit was reached",
        [(TooManyStreams::OfAddress, "address"), (TooManyStreams::OfAll, "all")].map(refused),
    )?;
    writer.gauge("console_streams_open", "Streams that are open", size(open))?;
    writer.gauge("console_addresses", "Client addresses that are known", size(addresses))?;
    writer.gauge("console_queue_depth", "Changes that wait, of all streams", size(waiting))?;
    writer.gauge(
        "console_queue_depth_max",
        "Changes that wait for the stream that most wait for",
        size(deepest),
    )?;
    writer.counter("console_changes", "Changes of state since the history began", last)
}

/// The regulator's own figures, as the newest look at the stack found them.
fn regulator(app: &App, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let shown = app.shared.shown.borrow().clone();
    let (figures, status) = (&shown.figures, &shown.figures.status);
    writer.counter("console_looks", "Looks at the stack", shown.looks)?;
    writer.counter("console_looks_failed", "Looks at the stack that failed", shown.failed)?;
    let at = precise(figures.at.as_millis()) / 1e3;
    writer.gauge("look_timestamp_seconds", "When the stack was last looked at with success", at)?;
    if let Some(last) = status.serving.last_window {
        let at = precise(last.as_millis()) / 1e3;
        writer.gauge(
            "last_window_timestamp_seconds",
            "The newest window that a poller claimed",
            at,
        )?;
    }
    let serving = ["serving", "idle", "stopped", "never"];
    writer.gauges(
        "serving",
        "Whether the pollers serve: 1 of the state that stands",
        states("state", &serving, status.serving.state),
    )?;
    let breaker = ["allowing", "blocking", "probing"];
    writer.gauges(
        "breaker",
        "The circuit breaker: 1 of the state that stands",
        states("state", &breaker, status.breaker.state),
    )?;
    let level = status.level.level.to_string();
    writer.gauges(
        "level",
        "Back-pressure: 1 of the level that stands",
        states("level", &["clear", "busy", "overloaded"], &level),
    )?;
    let quota = &status.quota;
    let rates = [
        ("account", quota.account_per_second),
        ("in_force", quota.in_force),
        ("slots", quota.slots_per_second),
        ("cap", quota.operator_cap),
    ];
    let rates = rates.into_iter().filter_map(|(of, rate)| Some(([("of", of)], rate?)));
    writer.gauges(
        "quota_recipients_per_second",
        "The account's quota, what is in force of it, the slots' rate, and an operator's cap",
        rates,
    )?;
    writer.gauge("rate_factor", "What refusals leave of the quota, 0.05 to 1", quota.factor)?;
    if let Some(daily) = quota.daily {
        let recipients =
            [("quota", daily.quota), ("sent", daily.sent), ("left", daily.left_for_campaigns)];
        writer.gauges(
            "daily_recipients",
            "The daily quota, what of it is sent, and what campaigns may still use",
            recipients.map(|(of, n)| ([("of", of)], precise(n))),
        )?;
    }
    let holds = status.holds.iter().map(|hold| {
        [("campaign", hold.campaign.as_deref().unwrap_or("")), ("reason", hold.reason.as_str())]
    });
    writer.gauges(
        "hold",
        "Holds that stand; without a campaign, on all sending",
        holds.map(|labels| (labels, 1.0)),
    )?;
    campaigns(figures, writer)?;
    if let Some(express) = figures.express {
        writer.gauge(
            "express_waited_seconds",
            "How long express mail of the last ten seconds had waited, on average",
            express.waited_s,
        )?;
    }
    sums(status, writer)
}

/// Figures of each campaign, and how deep all queues are.
fn campaigns(figures: &StackFigures, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let status = &figures.status;
    let campaigns = || figures.rows.iter().map(|row| ([("campaign", row.name.as_str())], row));
    writer.counters(
        "sent_recipients",
        "Recipients sent to",
        campaigns().map(|(labels, row)| (labels, row.sent)),
    )?;
    let rates = campaigns().filter_map(|(labels, row)| Some((labels, row.rate?)));
    writer.gauges(
        "sent_recipients_per_second",
        "Recipients a second, over the last ten seconds",
        rates,
    )?;
    let weights = status
        .campaigns
        .iter()
        .map(|campaign| ([("campaign", campaign.name.as_str())], f64::from(campaign.weight)));
    writer.gauges("weight", "Weights in force", weights)?;
    writer.gauges("queue_messages", "How deep the queues are, as SQS counts", depths(status))
}

/// Counters since the ledger was created.
fn sums(
    status: &tidegate_operate::status::Status,
    writer: &mut MetricsWriter<'_, '_>,
) -> fmt::Result {
    for (name, counter) in [
        ("refused_mails", Counter::Refused),
        ("failed_mails", Counter::Failed),
        ("retried_mails", Counter::Retried),
        ("dead_lettered_mails", Counter::Dead),
        ("windows_served", Counter::Windows),
        ("slots_skipped", Counter::Skipped),
        ("slots_unused", Counter::Unused),
    ] {
        writer.counter(name, counter.entry().meaning, status.counter(counter))?;
    }
    Ok(())
}

fn states<'a>(
    label: &'a str,
    all: &'a [&'a str],
    stands: &'a str,
) -> impl Iterator<Item = (OneLabel<'a>, f64)> {
    all.iter().map(move |state| ([(label, *state)], f64::from(u8::from(*state == stands))))
}

type DepthSample<'a> = ([(&'a str, &'a str); 2], f64);

fn depths(status: &tidegate_operate::status::Status) -> Vec<DepthSample<'_>> {
    let parts = |depth: QueueStatus| {
        [("visible", depth.visible), ("in_flight", depth.in_flight), ("delayed", depth.delayed)]
    };
    let campaigns =
        status.campaigns.iter().map(|campaign| (campaign.name.as_str(), campaign.backlog));
    let others = status.queues.iter().map(|(name, depth)| (*name, *depth));
    let all = campaigns.chain(others);
    all.flat_map(|(queue, depth)| {
        parts(depth).map(|(state, count)| ([("queue", queue), ("state", state)], precise(count)))
    })
    .collect()
}
