//! The list of all settings. The parser takes each variable's range and default from it, error
//! messages state the range, and the table in `docs/configuration.md` is generated from it. By
//! `infra/settings.json`, which is generated too, tests check the SAM template and the CDK construct.

use std::fmt;

use super::campaigns::{is_fifo, is_url};
use super::deadlines::LONGEST_SEND;
use crate::back_pressure::ALLOWED_THRESHOLDS;
use crate::store::ALLOWED_LOCATION;

/// The allowed values of one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A whole number from the first to the second, both included.
    Whole(u64, u64),
    /// A decimal number from the first to the second, both included.
    Number(f64, f64),
    /// One of the listed words, spelt exactly so.
    Choice(&'static [&'static str]),
    /// The URL of a standard queue.
    StandardQueue,
    /// The URL of a FIFO queue.
    FifoQueue,
    /// A text that its own parser checks, and the description of what that parser allows.
    Text(&'static str),
}

/// The value of a variable that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// None: a start without the variable is refused.
    Required,
    /// The text that the variable would have.
    Value(&'static str),
    /// No fixed text, but this behaviour.
    Otherwise(&'static str),
}

/// The functions that read a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// The poller alone.
    Poller,
    /// The scheduler alone.
    Scheduler,
    /// The poller and the scheduler.
    Both,
}

/// One environment variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The variable's name, such as `TIDEGATE_MAX_IN_FLIGHT`.
    pub name: &'static str,
    /// The functions that read it.
    pub read_by: ReadBy,
    /// The allowed values.
    pub range: Range,
    /// The value if the variable is not set.
    pub default: DefaultValue,
    /// A description in Markdown, with the unit; links are relative to `docs/`.
    pub meaning: &'static str,
}

impl Range {
    /// Whether `text` lies in the range; always true for a [`Range::Text`].
    pub(super) fn contains(self, text: &str) -> bool {
        match self {
            Self::Whole(least, most) => {
                text.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            Self::Number(least, most) => {
                text.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            Self::Choice(words) => words.contains(&text),
            Self::StandardQueue => is_url(text) && !is_fifo(text),
            Self::FifoQueue => is_url(text) && is_fifo(text),
            Self::Text(_) => true,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Number(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Choice([all @ .., last]) if !all.is_empty() => {
                write!(f, "{} or {last}", all.join(", "))
            }
            Self::Choice(words) => f.write_str(&words.join(", ")),
            Self::StandardQueue => {
                f.write_str("the URL of a standard queue (http or https, not ending in .fifo)")
            }
            Self::FifoQueue => {
                f.write_str("the URL of a FIFO queue (http or https, ending in .fifo)")
            }
            Self::Text(allowed) => f.write_str(allowed),
        }
    }
}

use DefaultValue::{Otherwise, Required, Value};
use Range::{Choice, FifoQueue, Number, StandardQueue, Text, Whole};
use ReadBy::{Both, Poller, Scheduler};

#[expect(clippy::cast_possible_truncation, reason = "below the poller's time-out of 15 s")]
const LONGEST_SEND_MS: u64 = LONGEST_SEND.as_millis() as u64;
const NO_QUEUE: DefaultValue = Otherwise("none");

/// The most sends at the same time, each on a connection of its own. An environment has 1,024 file descriptors, of which 900 are
/// connections; the others are left to queues, ledger and store.
pub const MOST_SENDS: usize = 800;

/// The function's memory. Lambda sets this variable, so it is not in [`SETTINGS`].
pub(super) const MEMORY: Setting = Setting {
    name: "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    read_by: Poller,
    range: Whole(128, 10_240),
    default: Value("256"),
    meaning: "The function's memory in megabytes.",
};

// The meaning is the entry's doc comment, or stands in its long form where a comment must not begin so.
macro_rules! settings {
    ($(#[doc = $meaning:literal] $constant:ident = $name:literal, $read_by:expr, $range:expr, $default:expr;)*) => {
        $(pub(super) const $constant: Setting = Setting {
            name: $name, read_by: $read_by, range: $range, default: $default, meaning: $meaning.trim_ascii_start(),
        };)*

        /// All settings, in the order of the documentation.
        pub const SETTINGS: &[Setting] = &[$($constant),*];
    };
}

settings! {
    #[doc = " What the stack sends: e-mail through SES, or text messages through AWS End User Messaging (SMS). A slot is a recipient of a mail, or a part of a text."]
    CHANNEL = "TIDEGATE_CHANNEL", Both, Choice(&["email", "sms"]), Value("email");
    /// The campaigns; `ledger` is the list in the [control record](operations/control-record.md). A scheduler may do without it and then knows no [back-pressure](operations/back-pressure.md) level.
    CAMPAIGNS = "TIDEGATE_CAMPAIGNS", Both,
        Text("a JSON list such as [{\"name\": \"big\", \"queue_url\": \"https://…\", \"weight\": 90}] with 1 to 1000 campaigns (names of letters, digits, - and _, at most 64, each once, not express; each a standard queue's URL, each once, and optional priority_queues: {\"high\": \"https://…\"} by critical, high and low; weights 0 to 10000, not all 0, adding up to at most 10000 after division by their greatest common divisor; with a \"tenant\", that of an SES tenant: 1 to 64 letters, digits, - and _), or: ledger"),
        Required;
    /// The merge queue, which mixes the campaigns by share. Without it the poller receives from the campaign queues ([direct mode](concepts.md)).
    MERGE_QUEUE = "TIDEGATE_MERGE_QUEUE_URL", Both, FifoQueue, Otherwise("none: direct mode");
    /// The queue whose mail goes before all campaigns ([express mail](limits/express.md)).
    EXPRESS_QUEUE = "TIDEGATE_EXPRESS_QUEUE_URL", Both, StandardQueue, NO_QUEUE;
    /// The queue for mail that failed for good ([dead letters](operations/dead-letters.md)).
    DEAD_LETTER_QUEUE = "TIDEGATE_DEAD_LETTER_QUEUE_URL", Poller, StandardQueue, Required;
    /// Limits by the recipients' domains, each with a rate or a share of the quota ([recipient domains](limits/recipient-domains.md)).
    LIMITS = "TIDEGATE_LIMITS", Poller,
        Text("a list such as gmail.com+googlemail.com=10/s, *=25% of at most 20 groups: domains joined by +, or * for every other domain; a rate of 0.001/s (4/h, 87/d) to 10000/s, with /s, /m, /h or /d, or a share from 0.0001% to 100%"),
        Otherwise("none");
    /// The queues for limited mail: one for each group of `TIDEGATE_LIMITS` in its order, then one for `*`. Further queues are given to limits that operators add.
    LIMIT_QUEUES = "TIDEGATE_LIMIT_QUEUES", Both,
        Text("at most 21 URLs of standard queues, separated by commas, none twice (http or https, not ending in .fifo)"),
        NO_QUEUE;
    /// The express floor: the share of the slots that campaigns' mail takes before [express mail](limits/express.md).
    CAMPAIGN_FLOOR = "TIDEGATE_CAMPAIGN_FLOOR", Poller,
        Text("a whole share of the slots from 0% (no floor) to 90%, such as 20%"), Value("0%");
    /// The [shared bucket](limits/shared-bucket.md): a Valkey or Redis, also a cluster, from which other software that sends from the account takes its sends, too. User and password are percent-encoded.
    SHARED_BUCKET = "TIDEGATE_SHARED_BUCKET", Poller,
        Text("redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], or the same with rediss:// for TLS"),
        Otherwise("none");
    /// While the shared bucket does not answer, `closed` sends nothing, and `open` sends by the slot grid alone, whatever the others send.
    SHARED_BUCKET_LOST = "TIDEGATE_SHARED_BUCKET_LOST", Poller, Choice(&["closed", "open"]), Value("closed");
    /// The beginning of the shared bucket's keys: `{tidegate}:account`, `{tidegate}:domain:gmail.com`.
    SHARED_BUCKET_PREFIX = "TIDEGATE_SHARED_BUCKET_PREFIX", Poller,
        Text("1 to 64 letters, digits, dots, - and _"), Value("tidegate");
    /// Thresholds of the level `busy`, which defers low priority: how long the backlog takes, how old mail is when it is sent, the share of refused sends ([back-pressure](operations/back-pressure.md)).
    BACK_PRESSURE_BUSY = "TIDEGATE_BACK_PRESSURE_BUSY", Scheduler,
        Text(ALLOWED_THRESHOLDS), Value("depth=12h,age=12h,refused=5%");
    /// Thresholds of the level `overloaded`, which also defers normal priority; none below that of `busy`.
    BACK_PRESSURE_OVERLOADED = "TIDEGATE_BACK_PRESSURE_OVERLOADED", Scheduler,
        Text(ALLOWED_THRESHOLDS), Value("depth=48h,age=48h,refused=20%");
    /// The [store](store.md), where mail waits longer than a queue should; without it none is deferred, and timed mail waits on its queue.
    STORE = "TIDEGATE_STORE", Both, Text(ALLOWED_LOCATION), Otherwise("none");
    /// Whether mail of priority low is put aside into the [store](store.md) while the stack is busy, and of normal while it is overloaded, until the level is clear again.
    DEFERRAL = "TIDEGATE_DEFERRAL", Poller, Choice(&["on", "off"]), Value("off");
    /// The function that the scheduler sends its ticks to.
    POLLER_FUNCTION = "TIDEGATE_POLLER_FUNCTION", Scheduler,
        Text("the name or ARN of the poller function"), Required;
    /// The topic to which the scheduler tells [incidents](operations/metrics.md), once when they begin and once when they end.
    ALARM_TOPIC = "TIDEGATE_ALARM_TOPIC", Scheduler,
        Text("the ARN of an SNS topic, such as arn:aws:sns:eu-west-1:123456789012:tidegate-alarms"),
        Otherwise("none");
    /// The EventBridge bus that gets [events](outcomes.md) of mail that SES was not given, of holds, incidents and runs.
    EVENT_BUS = "TIDEGATE_EVENT_BUS", Both,
        Text("the name of an EventBridge bus of the account and the region, such as default"), Otherwise("none");
    /// The [ledger](concepts.md): a DynamoDB table, or the memory of this one process (`make build` leaves the latter out).
    LEDGER = "TIDEGATE_LEDGER", Both, Text("memory or dynamodb:TABLE"), Required;
    /// An upper bound of the quota in recipients per second, and the quota while SES does not tell it.
    QUOTA = "TIDEGATE_QUOTA_PER_SECOND", Both, Number(0.001, 10_000.0), Otherwise("the account's");
    /// The rate margin: the fraction by which slots are spaced wider than 1/quota, so that jitter never exceeds the quota.
    RATE_MARGIN = "TIDEGATE_RATE_MARGIN", Poller, Number(0.005, 0.5), Value("0.01");
    /// Milliseconds before a window opens that its tick is sent.
    LEAD = "TIDEGATE_TICK_LEAD_MS", Both, Whole(0, 1_000), Value("400");
    /// Ticks that the scheduler sends beyond its minute, so that a late next run leaves no gap.
    OVERLAP = "TIDEGATE_OVERLAP_WINDOWS", Scheduler, Whole(0, 20), Value("10");
    /// The most sends at the same time.
    MAX_IN_FLIGHT = "TIDEGATE_MAX_IN_FLIGHT", Poller, Whole(1, MOST_SENDS as u64), Otherwise("from rate and latency");
    /// The time limit of one send in milliseconds. With more, a slow poller could not settle everything before its timeout of 15 s.
    SEND_TIMEOUT = "TIDEGATE_SEND_TIMEOUT_MS", Poller, Whole(100, LONGEST_SEND_MS), Value("5000");
    /// Sends of one mail that may fail before it goes to the dead-letter queue.
    MAX_ATTEMPTS = "TIDEGATE_MAX_ATTEMPTS", Poller, Whole(1, 100), Value("5");
    /// Mail that was received and is unsent at the end of its window: `timeout` leaves it to the visibility timeout, `release` makes it visible at once.
    UNSENT = "TIDEGATE_UNSENT", Poller, Choice(&["timeout", "release"]), Value("timeout");
    /// Whether the poller logs a record of each window with its sends, by which [tidegate audit](commands/audit.md) judges a run.
    AUDIT = "TIDEGATE_AUDIT", Poller, Choice(&["on", "off"]), Value("on");
    /// The OTLP endpoint to which the poller tells its windows, and the sends of mails whose producer records their trace ([traces](operations/traces.md)).
    TRACES = "TIDEGATE_TRACES", Poller,
        Text("the URL of an OTLP endpoint for traces over HTTP, such as http://localhost:4318/v1/traces"), Otherwise("none");
    /// The longest pause, in windows of one second, before an empty queue is asked again.
    IDLE_WINDOWS = "TIDEGATE_IDLE_WINDOWS", Poller, Whole(1, 60), Value("5");
    /// While every queue is empty, the scheduler counts their messages once in this many seconds, and no poller runs: the first mail after a pause waits as long, unless somebody [wakes](operations/idle.md) the stack. 1 keeps a tick for every window.
    IDLE_WAKE = "TIDEGATE_IDLE_WAKE_SECONDS", Scheduler, Whole(1, 60), Value("60");
    /// Senders that mail may have; `*` is everyone. Mail is sent with its sender spelt as in the list.
    ALLOWED_SENDERS = "TIDEGATE_ALLOWED_SENDERS", Poller,
        Text("addresses and domains (example.org or *@example.org), separated by commas, or *"), Value("*");
    /// Origins that text messages may have; `*` is any. Texts that name none have the first one, and its type gives the quota.
    ORIGINS = "TIDEGATE_ORIGINS", Both,
        Text("phone numbers in E.164, sender ids, pools and their ARNs, separated by commas, or *"), Value("*");
    /// Countries that text messages may go to; `*` is every one.
    ALLOWED_COUNTRIES = "TIDEGATE_ALLOWED_COUNTRIES", Poller,
        Text("country codes such as +49, or longer beginnings of numbers such as +1340, separated by commas, or *"), Value("*");
    /// The beginning of the names of the queues among which campaigns are [found by tag](operations/campaigns-by-tag.md); the poller then has `TIDEGATE_CAMPAIGNS=ledger`.
    CAMPAIGN_QUEUES = "TIDEGATE_CAMPAIGN_QUEUES", Scheduler,
        Text("1 to 79 letters, digits, - and _ that queues' names begin with, such as tidegate-campaign-"),
        Otherwise("none");
    /// SES's configuration set for mails that name none.
    CONFIGURATION_SET = "TIDEGATE_CONFIGURATION_SET", Poller,
        Text("the name of an SES configuration set: 1 to 64 letters, digits, - and _"), Otherwise("none");
    /// The effect of [bounces and complaints](operations/reputation.md): `hold` holds a campaign whose share of them is too high, `count` only counts them, `off` takes none.
    FEEDBACK = "TIDEGATE_FEEDBACK", Scheduler, Choice(&["off", "count", "hold"]), Value("off");
    /// The queue on which SES's bounces and complaints arrive.
    FEEDBACK_QUEUE = "TIDEGATE_FEEDBACK_QUEUE_URL", Scheduler, StandardQueue,
        Otherwise("none; required unless `TIDEGATE_FEEDBACK` is `off`");
    /// A campaign is held once permanent bounces reach this share of the recipients sent to.
    BOUNCE_SHARE = "TIDEGATE_BOUNCE_SHARE", Scheduler, Number(0.001, 1.0), Value("0.05");
    /// A campaign is held once complaints reach this share of the recipients sent to.
    COMPLAINT_SHARE = "TIDEGATE_COMPLAINT_SHARE", Scheduler, Number(0.000_1, 1.0), Value("0.001");
    /// Recipients that a campaign must have sent to before its bounces and complaints are judged.
    FEEDBACK_MINIMUM = "TIDEGATE_FEEDBACK_MINIMUM", Scheduler, Whole(100, 1_000_000), Value("1000");
    /// How the [daily quota](operations/holds.md#daily-quota) is used: `full` sends at the full rate until it is used up but for the reserve, `spread` sends evenly over the day.
    DAILY = "TIDEGATE_DAILY", Both, Choice(&["full", "spread"]), Value("full");
    /// The part of the daily quota that only express mail may use.
    DAILY_RESERVE = "TIDEGATE_DAILY_RESERVE", Both,
        Text("a number of recipients such as 500, or a share from 0% to 99%"), Value("1%");
    /// The share of failed sends above which the [breaker](operations/breaker.md) blocks; 1 is never.
    BREAKER_SHARE = "TIDEGATE_BREAKER_SHARE", Poller, Number(0.01, 1.0), Value("0.2");
    /// Seconds that the share must be exceeded before the breaker blocks.
    BREAKER_SECONDS = "TIDEGATE_BREAKER_SECONDS", Poller, Whole(15, 3_600), Value("60");
    /// Whether every mail is marked in the ledger, so that a copy of a mail that was sent is known ([deduplication](operations/deduplication.md)). A mail that may have been sent, `resend` sends again, and `park` dead-letters.
    DEDUPLICATION = "TIDEGATE_DEDUPLICATION", Poller, Choice(&["off", "resend", "park"]), Value("off");
    /// Days for which a mail's mark is kept; a queue keeps a message for at most 14.
    DEDUPLICATION_DAYS = "TIDEGATE_DEDUPLICATION_DAYS", Poller, Whole(1, 90), Value("15");
}
