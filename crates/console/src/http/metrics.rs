use std::fmt::Debug;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use strum::VariantArray as _;
use tidegate_core::config::EXPRESS;
use tidegate_core::counters::{Counter, CounterEntry, CounterUnit, LedgerSums, at_least_0};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_core::waits::WaitHistogram;
use tidegate_delivery::ports::QueueDepth;
use tidegate_operator::status::Status;

use super::{App, Shared};
use crate::figures::{StackFigures, size};
use crate::stream::{StreamRegistry, TooManyStreams};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Current values in the `OpenMetrics` format, read from the engine's state at each scrape, so that nothing is
/// counted in two places.
pub(super) async fn metrics(State(app): Shared) -> Response {
    let mut text = MetricsText(String::new());
    app.shared.hub.look(|registry| streams(registry, &mut text));
    regulator(&app, &mut text);
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text.0 + "# EOF\n").into_response()
}

/// The metrics and their meanings, but for the ledger's sums, whose meanings the list of counters has.
pub(super) const METRICS: [(&str, &str); 36] = [
    ("console_addresses", "Client addresses that have streams"),
    ("console_bucket_empty", "Events that had to wait for a token of their stream's bucket"),
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
    ("console_gaps", "Times a client was told that changes are missing"),
    ("console_looks", "Looks at the stack"),
    ("console_looks_failed", "Looks at the stack that failed"),
    ("console_queue_depth", "Changes that wait, of all streams"),
    ("console_queue_depth_max", "Changes that wait for the stream that most wait for"),
    ("console_reconnects", "Streams of clients that came back"),
    ("console_streams_open", "Streams that are open"),
    ("console_streams_opened", "Streams that were opened"),
    ("console_streams_refused", "Streams that were refused with 429, by whose limit was reached"),
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

/// Metrics with a single value, or with one value for each set of labels.
struct MetricsText(String);

impl MetricsText {
    fn begin(&mut self, name: &str, kind: &str) {
        let meaning = METRICS.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
        self.describe(name, kind, meaning.unwrap_or_default());
    }

    fn describe(&mut self, name: &str, kind: &str, meaning: &str) {
        self.0.extend(["# HELP tidegate_", name, " ", meaning, "\n"]);
        self.0.extend(["# TYPE tidegate_", name, " ", kind, "\n"]);
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Debug) {
        let escaped =
            |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = labels.join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        self.0.extend(["tidegate_", name, suffix, &labels, " ", &format!("{value:?}"), "\n"]);
    }

    fn counter(&mut self, name: &str, value: u64) {
        self.family("counter", name, [([], value)]);
    }

    fn gauge(&mut self, name: &str, value: f64) {
        self.family("gauge", name, [([], value)]);
    }

    /// A value for each set of labels.
    fn family<'a, const N: usize>(
        &mut self,
        kind: &str,
        name: &str,
        values: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Debug)>,
    ) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        self.begin(name, kind);
        for (labels, value) in values {
            self.sample(name, suffix, &labels, value);
        }
    }

    /// A value for each state that there is: 1 for the one that stands, else 0.
    fn states(&mut self, name: &str, label: &str, states: &[&str], stands: &str) {
        let value = |state: &&str| f64::from(u8::from(*state == stands));
        self.family("gauge", name, states.iter().map(|state| ([(label, *state)], value(state))));
    }
}

fn streams(registry: &StreamRegistry, to: &mut MetricsText) {
    let (counts, (waiting, deepest)) = (&registry.counts, registry.waiting());
    to.counter("console_streams_opened", counts.opened);
    to.counter("console_reconnects", counts.reconnects);
    to.counter("console_events_replayed", counts.replayed);
    to.counter("console_gaps", counts.gaps);
    to.counter("console_changes", registry.history.last());
    to.gauge("console_streams_open", size(registry.streams()));
    to.gauge("console_addresses", size(registry.addresses()));
    to.gauge("console_queue_depth", size(waiting));
    to.gauge("console_queue_depth_max", size(deepest));
    let kind = |(kind, count): (&&'static str, &u64)| ([("kind", *kind)], *count);
    to.family("counter", "console_events_sent", counts.sent.iter().map(kind));
    to.family("counter", "console_events_dropped", counts.dropped.iter().map(kind));
    to.family("counter", "console_events_produced", counts.produced.iter().map(kind));
    to.counter("console_bucket_empty", counts.waited);
    let refused = TooManyStreams::VARIANTS.iter().map(|of| {
        let of: &'static str = of.into();
        ([("of", of)], counts.refused.get(of).copied().unwrap_or(0))
    });
    to.family("counter", "console_streams_refused", refused);
}

/// The regulator's own figures, as the newest look at the stack found them.
fn regulator(app: &App, to: &mut MetricsText) {
    let shown = app.shared.shown.borrow().clone();
    let (figures, status) = (&shown.figures, &shown.figures.status);
    to.counter("console_looks", shown.looks);
    to.counter("console_looks_failed", shown.failed);
    let seconds = |at: EpochMillis| real(at.as_millis()) / 1e3;
    to.gauge("look_timestamp_seconds", seconds(figures.at));
    if let Some(last) = status.serving.last_window {
        to.gauge("last_window_timestamp_seconds", seconds(last));
    }
    let serving = ["serving", "idle", "stopped", "never"];
    to.states("serving", "state", &serving, status.serving.state);
    if let Some(left) = &status.serving.left {
        to.gauge("window_slots_left", real(left.slots));
        let mails = left.mails.iter().flat_map(|(line, mails)| {
            let labels = move |priority: &'static str| [("line", *line), ("priority", priority)];
            mails.iter().map(move |(priority, mails)| (labels(priority), real(*mails)))
        });
        to.family("gauge", "window_mails_left", mails);
    }
    let breaker = ["allowing", "blocking", "probing"];
    to.states("breaker", "state", &breaker, status.breaker.state);
    let levels = ["clear", "busy", "overloaded"];
    to.states("level", "level", &levels, &status.level.level.to_string());
    let quota = &status.quota;
    let rates = [
        ("account", quota.account_per_second),
        ("in_force", quota.in_force),
        ("slots", quota.slots_per_second),
        ("cap", quota.operator_cap),
    ];
    let rates = rates.into_iter().filter_map(|(of, rate)| Some(([("of", of)], rate?)));
    to.family("gauge", "quota_recipients_per_second", rates);
    to.gauge("rate_factor", quota.factor);
    if let Some(daily) = quota.daily {
        let recipients =
            [("quota", daily.quota), ("sent", daily.sent), ("left", daily.left_for_campaigns)];
        let recipients = recipients.map(|(of, count)| ([("of", of)], real(count)));
        to.family("gauge", "daily_recipients", recipients);
    }
    let holds = status.holds.iter().map(|hold| {
        let campaign = hold.campaign.as_deref().unwrap_or("");
        ([("campaign", campaign), ("reason", hold.reason.as_str())], 1.0)
    });
    to.family("gauge", "hold", holds);
    if let Some(express) = figures.express {
        to.gauge("express_waited_seconds", express.waited_s);
    }
    limits(status, to);
    campaigns(figures, to);
    express_waits(status, to);
    sums(status, to);
}

fn limits(status: &Status, to: &mut MetricsText) {
    let limits = || status.limits.iter().map(|limit| ([("limit", limit.key.as_str())], limit));
    let closed = limits().map(|(labels, limit)| (labels, f64::from(u8::from(limit.closed))));
    to.family("gauge", "limit_closed", closed);
    let rates = limits().filter_map(|(labels, limit)| Some((labels, limit.per_second?)));
    to.family("gauge", "limit_recipients_per_second", rates);
    let waiting = limits().map(|(labels, limit)| (labels, real(limit.queued())));
    to.family("gauge", "limit_waiting_recipients", waiting);
}

/// The histogram of the pollers' counters. The sum is that of all express mail, with seconds rounded in
/// each window.
fn express_waits(status: &Status, to: &mut MetricsText) {
    let waits = WaitHistogram::of_sums(&status.counters);
    let sum = real(at_least_0(Counter::Waited.sum_of(EXPRESS, &status.counters)));
    let name = "express_wait_seconds";
    to.begin(name, "histogram");
    to.sample(name, "_sum", &[], sum);
    to.sample(name, "_count", &[], waits.mails());
    let mut mails_within = 0;
    for (bound, mails) in waits.buckets() {
        mails_within += mails;
        to.sample(name, "_bucket", &[("le", &format!("{:?}", bound.as_secs_f64()))], mails_within);
    }
    to.sample(name, "_bucket", &[("le", "+Inf")], waits.mails());
}

/// Figures of each campaign, and how deep all queues are.
fn campaigns(figures: &StackFigures, to: &mut MetricsText) {
    let campaigns = || figures.rows.iter().map(|row| ([("campaign", row.name.as_str())], row));
    to.family("counter", "sent_recipients", campaigns().map(|(labels, row)| (labels, row.sent)));
    let rates = campaigns().filter_map(|(labels, row)| Some((labels, row.rate?)));
    to.family("gauge", "sent_recipients_per_second", rates);
    let weights = figures.status.campaigns.iter();
    let weights = weights.map(|of| ([("campaign", of.name.as_str())], f64::from(of.weight)));
    to.family("gauge", "weight", weights);
    queues(&figures.status, to);
}

/// The ledger's totals of all counters. That of `sent` is one of [`campaigns`]' metrics, by campaign.
fn sums(status: &Status, to: &mut MetricsText) {
    for counter in Counter::ALL.iter().filter(|counter| has_total(**counter)) {
        let name = name(*counter);
        to.describe(&name, "counter", counter.entry().meaning);
        to.sample(&name, "_total", &[], status.counter(*counter));
    }
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

fn queues(status: &Status, to: &mut MetricsText) {
    let campaigns =
        status.campaigns.iter().map(|campaign| (campaign.name.as_str(), campaign.backlog));
    let others = status.queues.iter().map(|(name, depth)| (*name, *depth));
    let depths = campaigns.chain(others).flat_map(|(queue, depth)| {
        let QueueDepth { visible, in_flight, delayed } = depth;
        let depth = |state, count| ([("queue", queue), ("state", state)], real(count));
        [depth("visible", visible), depth("in_flight", in_flight), depth("delayed", delayed)]
    });
    to.family("gauge", "queue_messages", depths);
}
