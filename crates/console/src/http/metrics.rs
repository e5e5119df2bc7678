use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::{Counter, CounterEntry, CounterUnit, LedgerSums, at_least_0};
use tidegate_core::identity::EpochMillis;
use tidegate_core::waits::WaitHistogram;
use tidegate_operator::status::{QueueStatus, Status};

use super::App;
use super::error_response::ErrorResponse;
use crate::figures::{StackFigures, precise, size};
use crate::rate_limit::EmptyBucket;

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

/// The metrics and their meanings, but for the ledger's sums, whose meanings the list of counters has.
pub(super) const METRICS: [(&str, &str); 39] = [
    ("console_addresses", "Client addresses that are known"),
    ("console_bucket_empty", "Events that had to wait for a token, by the bucket that had none"),
    ("console_changes", "Changes of state since the history began"),
    (
        "console_events_dropped",
        "Telemetry that a newer one replaced before it went, and changes that found a full queue",
    ),
    ("console_events_replayed", "Changes told to clients that came back"),
    (
        "console_events_produced",
        "Events that were to go out: of each change and each new value, one for each open stream",
    ),
    ("console_events_sent", "Events that went out"),
    ("console_exchanges_failed", "Exchanges of shared buckets with the other consoles that failed"),
    ("console_gaps", "Times a client was told that changes are missing"),
    ("console_looks", "Looks at the stack"),
    ("console_looks_failed", "Looks at the stack that failed"),
    ("console_queue_depth", "Changes that wait, of all streams"),
    ("console_queue_depth_max", "Changes that wait for the stream that most wait for"),
    ("console_reconnects", "Streams of clients that came back"),
    (
        "console_session_reconnects",
        "Streams that a session opened when it came back, of the 50 sessions that were active last",
    ),
    ("console_streams_open", "Streams that are open"),
    ("console_streams_opened", "Streams that were opened"),
    (
        "console_streams_refused",
        "Streams that were refused with 429, by whose limit was reached, or for being opened too often",
    ),
    (
        "console_tokens_consumed",
        "Tokens that events took, of the 50 sessions that were active last",
    ),
    ("breaker", "The circuit breaker: 1 of the state that stands"),
    ("daily_recipients", "The daily quota, what of it is sent, and what campaigns may still use"),
    (
        "express_waited_seconds",
        "How long express mail of the last ten seconds had waited, on average",
    ),
    (
        "express_wait_seconds",
        "Time of express mail from its queue to SES's acceptance, since the ledger began",
    ),
    ("hold", "Holds that stand; without a campaign, on all sending"),
    ("last_window_timestamp_seconds", "The newest window that a poller claimed"),
    ("level", "Back-pressure: 1 of the level that stands"),
    ("limit_closed", "Limits that let nothing through now: 1, else 0"),
    (
        "limit_recipients_per_second",
        "The rate of each limit that is below the quota's, as it is now",
    ),
    ("limit_waiting_recipients", "Recipients that wait in a limit's own queue"),
    ("look_timestamp_seconds", "When the stack was last looked at with success"),
    ("queue_messages", "How deep the queues are, as SQS counts"),
    (
        "quota_recipients_per_second",
        "The account's quota, what is in force of it, the slots' rate, and an operator's cap",
    ),
    ("rate_factor", "What refusals leave of the quota, 0.05 to 1"),
    ("sent_recipients", "Recipients sent to"),
    ("sent_recipients_per_second", "Recipients a second, over the last ten seconds"),
    ("serving", "Whether the pollers serve: 1 of the state that stands"),
    ("weight", "Weights in force"),
    (
        "window_mails_left",
        "Mails that were received for the newest reported window and got no slot, by line and priority",
    ),
    ("window_slots_left", "Slots of the newest reported window that no mail took"),
];

/// Writes metrics with a single value, or with one value for each set of labels.
struct MetricsWriter<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl MetricsWriter<'_, '_> {
    fn begin(&mut self, name: &str, kind: MetricType) -> Result<MetricEncoder<'_>, fmt::Error> {
        let (name, help) = METRICS.iter().find(|(known, _)| *known == name).ok_or(fmt::Error)?;
        self.0.encode_descriptor(name, help, None, kind)
    }

    fn counter(&mut self, name: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.begin(name, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.begin(name, MetricType::Gauge)?)
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.begin(name, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)
        })
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.begin(name, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    }

    /// A value for each state that there is: 1 for the one that stands, else 0.
    fn states(&mut self, name: &str, label: &str, states: &[&str], stands: &str) -> fmt::Result {
        let value = |state: &&str| f64::from(u8::from(*state == stands));
        self.gauges(name, states.iter().map(|state| ([(label, *state)], value(state))))
    }
}

fn streams(app: &App, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let hub = &app.shared.hub;
    let (counts, open, addresses, (waiting, deepest), last) = hub.look(|registry| {
        let counts = registry.counts().clone();
        (
            counts,
            registry.streams(),
            registry.addresses(),
            registry.waiting(),
            registry.history().last(),
        )
    });
    writer.counter("console_streams_opened", counts.opened)?;
    writer.counter("console_reconnects", counts.reconnects)?;
    writer.counter("console_events_replayed", counts.replayed)?;
    writer.counter("console_gaps", counts.gaps)?;
    writer.counter("console_exchanges_failed", counts.exchanges_failed)?;
    writer.counter("console_changes", last)?;
    writer.gauge("console_streams_open", size(open))?;
    writer.gauge("console_addresses", size(addresses))?;
    writer.gauge("console_queue_depth", size(waiting))?;
    writer.gauge("console_queue_depth_max", size(deepest))?;
    let kind = |(kind, count): (&&'static str, &u64)| ([("kind", *kind)], *count);
    writer.counters("console_events_sent", counts.sent.iter().map(kind))?;
    writer.counters("console_events_dropped", counts.dropped.iter().map(kind))?;
    writer.counters("console_events_produced", counts.produced.iter().map(kind))?;
    let sessions = || counts.sessions.iter().map(|(of, count)| ([("session", of.label())], count));
    let tokens = sessions().map(|(labels, count)| (labels, count.tokens));
    writer.counters("console_tokens_consumed", tokens)?;
    let reconnects = sessions().map(|(labels, count)| (labels, count.reconnects));
    writer.counters("console_session_reconnects", reconnects)?;
    let empty = [
        (EmptyBucket::Stream, "stream"),
        (EmptyBucket::Connection, "connection"),
        (EmptyBucket::Session, "session"),
        (EmptyBucket::Address, "address"),
    ];
    let empty = empty
        .map(|(of, bucket)| ([("bucket", bucket)], counts.empty.get(&of).copied().unwrap_or(0)));
    writer.counters("console_bucket_empty", empty)?;
    let refused = ["session", "address", "all", "often"]
        .map(|of| ([("of", of)], counts.refused.get(of).copied().unwrap_or(0)));
    writer.counters("console_streams_refused", refused)
}

/// The regulator's own figures, as the newest look at the stack found them.
fn regulator(app: &App, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let shown = app.shared.shown.borrow().clone();
    let (figures, status) = (&shown.figures, &shown.figures.status);
    writer.counter("console_looks", shown.looks)?;
    writer.counter("console_looks_failed", shown.failed)?;
    let seconds = |at: EpochMillis| precise(at.as_millis()) / 1e3;
    writer.gauge("look_timestamp_seconds", seconds(figures.at))?;
    if let Some(last) = status.serving.last_window {
        writer.gauge("last_window_timestamp_seconds", seconds(last))?;
    }
    let serving = ["serving", "idle", "stopped", "never"];
    writer.states("serving", "state", &serving, status.serving.state)?;
    if let Some(left) = &status.serving.left {
        writer.gauge("window_slots_left", precise(left.slots))?;
        let mails = left.mails.iter().flat_map(|(line, mails)| {
            let labels = move |priority: &'static str| [("line", *line), ("priority", priority)];
            mails.iter().map(move |(priority, mails)| (labels(priority), precise(*mails)))
        });
        writer.gauges("window_mails_left", mails)?;
    }
    let breaker = ["allowing", "blocking", "probing"];
    writer.states("breaker", "state", &breaker, status.breaker.state)?;
    let levels = ["clear", "busy", "overloaded"];
    writer.states("level", "level", &levels, &status.level.level.to_string())?;
    let quota = &status.quota;
    let rates = [
        ("account", quota.account_per_second),
        ("in_force", quota.in_force),
        ("slots", quota.slots_per_second),
        ("cap", quota.operator_cap),
    ];
    let rates = rates.into_iter().filter_map(|(of, rate)| Some(([("of", of)], rate?)));
    writer.gauges("quota_recipients_per_second", rates)?;
    writer.gauge("rate_factor", quota.factor)?;
    if let Some(daily) = quota.daily {
        let recipients =
            [("quota", daily.quota), ("sent", daily.sent), ("left", daily.left_for_campaigns)];
        let recipients = recipients.map(|(of, count)| ([("of", of)], precise(count)));
        writer.gauges("daily_recipients", recipients)?;
    }
    let holds = status.holds.iter().map(|hold| {
        let campaign = hold.campaign.as_deref().unwrap_or("");
        ([("campaign", campaign), ("reason", hold.reason.as_str())], 1.0)
    });
    writer.gauges("hold", holds)?;
    if let Some(express) = figures.express {
        writer.gauge("express_waited_seconds", express.waited_s)?;
    }
    limits(status, writer)?;
    campaigns(figures, writer)?;
    express_waits(status, writer)?;
    sums(status, writer)
}

fn limits(status: &Status, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let limits = || status.limits.iter().map(|limit| ([("limit", limit.key.as_str())], limit));
    let closed = limits().map(|(labels, limit)| (labels, f64::from(u8::from(limit.closed))));
    writer.gauges("limit_closed", closed)?;
    let rates = limits().filter_map(|(labels, limit)| Some((labels, limit.per_second?)));
    writer.gauges("limit_recipients_per_second", rates)?;
    let waiting = limits().map(|(labels, limit)| (labels, precise(limit.queued())));
    writer.gauges("limit_waiting_recipients", waiting)
}

/// The histogram of the pollers' counters. The sum is that of all express mail, with seconds rounded in
/// each window.
fn express_waits(status: &Status, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let waits = WaitHistogram::of_sums(&status.counters);
    let sum = precise(at_least_0(Counter::Waited.sum_of(EXPRESS, &status.counters)));
    let buckets = waits.buckets().map(|(bound, mails)| (bound.as_secs_f64(), mails));
    let buckets: Vec<_> = buckets.chain([(f64::MAX, waits.mails_above())]).collect();
    let mut encoder = writer.begin("express_wait_seconds", MetricType::Histogram)?;
    encoder.encode_histogram::<NoLabelSet>(sum, waits.mails(), &buckets, None)
}

/// Figures of each campaign, and how deep all queues are.
fn campaigns(figures: &StackFigures, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let campaigns = || figures.rows.iter().map(|row| ([("campaign", row.name.as_str())], row));
    writer.counters("sent_recipients", campaigns().map(|(labels, row)| (labels, row.sent)))?;
    let rates = campaigns().filter_map(|(labels, row)| Some((labels, row.rate?)));
    writer.gauges("sent_recipients_per_second", rates)?;
    let weights = figures
        .status
        .campaigns
        .iter()
        .map(|campaign| ([("campaign", campaign.name.as_str())], f64::from(campaign.weight)));
    writer.gauges("weight", weights)?;
    writer.gauges("queue_messages", depths(&figures.status))
}

/// The ledger's totals of all counters. That of `sent` is one of [`campaigns`]' metrics, by campaign.
fn sums(status: &Status, writer: &mut MetricsWriter<'_, '_>) -> fmt::Result {
    let mut totals = Counter::ALL.iter().filter(|counter| has_total(**counter));
    totals.try_for_each(|counter| {
        let (name, help) = (name(*counter), counter.entry().meaning);
        let to = writer.0.encode_descriptor(&name, help, None, MetricType::Counter)?;
        ConstCounter::new(status.counter(*counter)).encode(to)
    })
}

fn has_total(counter: Counter) -> bool {
    let ledger = counter.entry().ledger;
    counter != Counter::Sent && matches!(ledger, LedgerSums::Total | LedgerSums::TotalAndByCampaign)
}

/// A counter's metric: its name and unit, such as `refused_mails`.
fn name(counter: Counter) -> String {
    let CounterEntry { name, unit, .. } = counter.entry();
    match (counter, unit) {
        (Counter::Dead, _) => "dead_lettered_mails".to_owned(),
        (Counter::Windows, _) => "windows_served".to_owned(),
        (_, CounterUnit::Slots) => format!("slots_{name}"),
        (_, CounterUnit::RecipientSeconds) => format!("{name}_recipient_seconds"),
        // The name has it already.
        (Counter::Mails | Counter::SqsCalls | Counter::WindowsMissed, _) => name.to_owned(),
        _ => format!("{name}_{}", unit.as_str()),
    }
}

type DepthSample<'a> = ([(&'a str, &'a str); 2], f64);

fn depths(status: &Status) -> Vec<DepthSample<'_>> {
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
