//! The report of a run: `report.json`, and the same as text for a terminal.

use std::collections::BTreeMap;
use tidegate_core::number::real;

use serde::Serialize;
use tidegate_operator::audit::AuditPromise;
use tidegate_operator::page::{Page, Span, TextTable, Tone, View};

use crate::figures::{RunFigures, RunPhase, ShareInPhase};
use crate::programs::{ProcessUsage, SandboxStats};
use crate::setup::RunSettings;

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    Complete,
    /// The time that it was given passed.
    Time,
    /// Nothing arrived any more, and mails were missing.
    Stalled,
}

/// Number of mails by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mails {
    pub queued: u64,
    pub arrived: u64,
    /// Arrivals of a mail that had arrived before.
    pub duplicates: u64,
    pub dead_lettered: u64,
    /// Still on a queue when the run ended, in flight or delayed ones too.
    pub waiting: u64,
    /// Neither arrived, nor dead-lettered, nor waiting. None where the run ended while mails were
    /// sent: lost mails cannot be distinguished then from mails under way.
    pub lost: Option<u64>,
}

/// Calls to SQS, as the pollers counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SqsCalls {
    /// Calls until the last mail was settled.
    pub calls: i64,
    /// Mails that SES took in that time.
    pub mails: i64,
    /// The one over the other; none without a mail.
    pub calls_per_mail: Option<f64>,
    /// Windows served after that, with nothing to send.
    pub idle_windows: i64,
    pub idle_calls: i64,
}

/// Resources that the poller's processes used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PollerUsage {
    #[serde(flatten)]
    pub usage: ProcessUsage,
    /// Milliseconds of processor time for each mail that arrived; none without a mail.
    pub cpu_ms_per_mail: Option<f64>,
}

/// A promise of Tidegate's, and whether the run kept it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// The promise in words, such as "nothing lost".
    pub promise: String,
    pub kept: bool,
    /// The observed value, in words.
    pub seen: String,
}

impl From<AuditPromise> for Promise {
    fn from(AuditPromise { promise, broken, shown }: AuditPromise) -> Self {
        let seen = shown.into_iter().next().unwrap_or_else(|| "by the pollers' log".to_owned());
        Self { promise: promise.to_owned(), kept: broken == 0, seen }
    }
}

/// A run's report. Its JSON is `report.json`; a member is only ever added.
///
/// Ratios are of one, times in seconds, sizes in bytes; what could not be measured is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalReport {
    pub ending: Ending,
    /// The holds on sending at the end, in words.
    pub held: Vec<String>,
    /// The promises, and which were kept.
    pub promises: Vec<Promise>,
    pub settings: RunSettings,
    pub mails: Mails,
    /// Utilisation, shares, worst second: see [`RunFigures`].
    pub figures: RunFigures,
    /// The sandbox's own counters: refusals by code, faults, and the worst second accepted and
    /// offered.
    pub sandbox: SandboxStats,
    pub sqs: SqsCalls,
    /// The poller's processes; null where the system does not tell.
    pub poller: Option<PollerUsage>,
    /// The scheduler's processes; null where the system does not tell.
    pub scheduler: Option<ProcessUsage>,
    /// The pollers' own sums, by counter.
    pub counters: BTreeMap<String, i64>,
    /// The deployment packages' bytes, by the functions' logical ids.
    pub package_bytes: BTreeMap<String, u64>,
}

/// Checks each promise against the counts of the run.
pub(super) fn promises(
    ending: Ending,
    mails: Mails,
    sandbox: &SandboxStats,
    message: &str,
) -> Vec<Promise> {
    let counted = [
        ("nothing refused", Some(sandbox.refused.values().sum()), "refused"),
        ("no duplicate", Some(mails.duplicates), "twice"),
        ("no dead letter", Some(mails.dead_lettered), "dead-lettered"),
        ("nothing lost", mails.lost, "lost"),
    ];
    let none = |(promise, count, word): (&str, Option<u64>, &str)| {
        let (promise, count) = (promise.to_owned(), count?);
        Some(Promise { promise, kept: count == 0, seen: format!("{count} {word}") })
    };
    let all = (ending != Ending::Time).then(|| Promise {
        promise: format!("every {message} arrived"),
        kept: mails.arrived == mails.queued,
        seen: format!("{} of {}", mails.arrived, mails.queued),
    });
    counted.into_iter().filter_map(none).chain(all).collect()
}

/// Calls until the last mail was settled, and idle ones after that, from the sums at both times.
pub(super) fn sqs_calls(settled: &BTreeMap<String, i64>, end: &BTreeMap<String, i64>) -> SqsCalls {
    let of = |sums: &BTreeMap<String, i64>, name: &str| sums.get(name).copied().unwrap_or_default();
    let (calls, mails) = (of(settled, "sqs_calls"), of(settled, "mails"));
    SqsCalls {
        calls,
        mails,
        calls_per_mail: (mails > 0)
            .then(|| real(calls.unsigned_abs()) / real(mails.unsigned_abs())),
        idle_windows: of(end, "windows") - of(settled, "windows"),
        idle_calls: of(end, "sqs_calls") - calls,
    }
}

/// The poller's resources in total and for each mail that arrived.
pub(super) fn poller_usage(usage: ProcessUsage, arrived: u64) -> PollerUsage {
    let of_mail = || usage.cpu_seconds * 1e3 / real(arrived);
    PollerUsage { usage, cpu_ms_per_mail: (arrived > 0).then(of_mail) }
}

impl View for LocalReport {
    fn view(&self, page: &mut Page) {
        let how = match self.ending {
            Ending::Complete => format!("every {} arrived", self.message()),
            Ending::Time => "its time was over".to_owned(),
            Ending::Stalled => "nothing arrived any more".to_owned(),
        };
        let (arrived, all) = (self.mails.arrived, self.settings.plan.in_words());
        let text = format!("{arrived} of {all} in {:.1} s; {how}", self.figures.sending_seconds);
        page.heading(text);
        for held in &self.held {
            page.line(Tone::Warning, held.as_str());
        }
        page.line(Tone::Plain, "");
        let fields = self.fields();
        page.fields(fields.iter().map(|(name, value)| (name.as_str(), Span::from(value))));
        page.line(Tone::Plain, "");
        let mut promises = TextTable::bare();
        for promise in &self.promises {
            let (tone, mark) =
                if promise.kept { (Tone::Good, "kept") } else { (Tone::Bad, "BROKEN") };
            let said = format!("{} ({})", promise.promise, promise.seen);
            promises.row([Span::new(tone, mark), Span::from(said)]);
        }
        page.table(promises);
    }
}

impl LocalReport {
    pub fn is_kept(&self) -> bool {
        self.promises.iter().all(|promise| promise.kept)
    }

    fn message(&self) -> &'static str {
        self.settings.plan.channel.words().message
    }

    /// The figures, each with its name.
    fn fields(&self) -> Vec<(String, String)> {
        let (phases, mails, message) = (&self.figures.phases, self.mails, self.message());
        let (worst, quota) = (self.sandbox.worst_sliding_second_offered, self.settings.plan.quota);
        let mut fields = Vec::new();
        let mut field = |name: &str, value: String| fields.push((name.to_owned(), value));
        field("utilisation", used(&phases.backlogged));
        field("  both campaigns waiting", used(&phases.all_waiting));
        field("  after the first one's end", used(&phases.after_first_end));
        field("worst sliding second", format!("{worst} arrived, quota {quota}"));
        for (mut name, phase) in [
            ("shares, both waiting", &phases.all_waiting),
            ("shares, after that end", &phases.after_first_end),
        ] {
            for (campaign, its) in &phase.shares {
                field(name, format!("{campaign} {}", share(its)));
                name = "";
            }
        }
        for (campaign, after) in &self.figures.ended_after_seconds {
            field(&format!("{campaign} ended"), format!("{after:.1} s after the first {message}"));
        }
        let refused = self.sandbox.refused.iter().filter(|(_, count)| **count > 0);
        let refused: Vec<_> = refused.map(|(code, count)| format!("{count} {code}")).collect();
        field("refusals", if refused.is_empty() { "none".to_owned() } else { refused.join(", ") });
        let lost = mails.lost.map_or_else(|| "not told".to_owned(), |lost| lost.to_string());
        let (twice, dead, waiting) = (mails.duplicates, mails.dead_lettered, mails.waiting);
        let ends =
            format!("{lost} lost, {twice} duplicates, {dead} dead-lettered, {waiting} waiting");
        field(&format!("{message}s"), ends);
        if let Some(calls) = self.sqs.calls_per_mail {
            let idle = match self.sqs.idle_windows {
                0 => String::new(),
                windows => format!("; {} in {windows} idle windows", self.sqs.idle_calls),
            };
            field("SQS calls", format!("{calls:.3} a {message}{idle}"));
        }
        if let Some(PollerUsage { usage, cpu_ms_per_mail }) = self.poller {
            let cpu = format!("{:.2} ms CPU a {message}", cpu_ms_per_mail.unwrap_or_default());
            let memory = real(usage.peak_rss_bytes) / 1e6;
            let processes = usage.processes;
            field("poller", format!("{cpu}, {memory:.1} MB at most, {processes} processes"));
        }
        fields
    }
}

fn used(phase: &RunPhase) -> String {
    let Some(used) = phase.utilisation else {
        return "not told: the phase is too short".to_owned();
    };
    let worst = |worst: f64| format!(", worst 30 windows {:.2} %", worst * 100.0);
    let worst = phase.worst_30_windows.map(worst).unwrap_or_default();
    format!("{:.2} % of the quota over {} windows{worst}", used * 100.0, phase.windows)
}

fn share(share: &ShareInPhase) -> String {
    let (is, wanted) = (share.share * 100.0, share.wanted * 100.0);
    let worst = |points: f64| format!(", worst 30 windows off by {points:.2} points");
    let worst = share.worst_30_windows_points.map(worst).unwrap_or_default();
    format!("{is:.2} % (wanted {wanted:.0} %{worst})")
}

#[cfg(test)]
pub(super) mod tests {
    use tidegate_core::channel::Channel;

    use super::*;
    use crate::figures::{MailArrival, figures};
    use crate::setup::{Infra, Mode, Sqs};
    use crate::setup::{LocalCampaign, LocalPlan};

    /// Thirty seconds at ten a second, every tenth of them of the small campaign.
    pub(crate) fn sample() -> LocalReport {
        let campaign = |name: &str, weight, mails| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails,
            recipients: 1,
        };
        let settings = RunSettings {
            plan: LocalPlan {
                quota: 10.0,
                channel: Channel::Email,
                campaigns: vec![campaign("big", 90, 270), campaign("small", 10, 30)],
            },
            rate_margin: None,
            infra: Infra::Sam,
            mode: Mode::Merge,
            sqs: Sqs::Ministack,
            latency: None,
            bucket_seconds: None,
            strict: true,
        };
        let arrival = |number: u64| MailArrival {
            at_ns: 1_795_206_967_000_000_000 + number * 100_000_000,
            campaign: if number % 10 == 9 { "small" } else { "big" }.to_owned(),
            key: number.to_string(),
            recipients: 1,
        };
        let arrivals: Vec<_> = (0..300).map(arrival).collect();
        let mails = Mails { queued: 300, arrived: 300, lost: Some(0), ..Mails::default() };
        let sandbox = SandboxStats { worst_sliding_second_offered: 10, ..SandboxStats::default() };
        LocalReport {
            ending: Ending::Complete,
            held: Vec::new(),
            promises: promises(Ending::Complete, mails, &sandbox, "mail"),
            figures: figures(&settings.plan, &arrivals, |_, _| true),
            settings,
            mails,
            sandbox,
            sqs: SqsCalls {
                calls: 156,
                mails: 300,
                calls_per_mail: Some(0.52),
                ..SqsCalls::default()
            },
            poller: None,
            scheduler: None,
            counters: BTreeMap::new(),
            package_bytes: BTreeMap::new(),
        }
    }

    fn kept(ending: Ending, mails: Mails, refused: u64) -> Vec<(String, bool)> {
        let refused = BTreeMap::from([("TooManyRequestsException".to_owned(), refused)]);
        let sandbox = SandboxStats { refused, ..SandboxStats::default() };
        let promises = promises(ending, mails, &sandbox, "mail");
        promises.into_iter().map(|promise| (promise.promise, promise.kept)).collect()
    }

    #[test]
    fn a_promise_is_broken_by_what_it_excludes_and_by_nothing_else() {
        let good = Mails { queued: 9, arrived: 9, lost: Some(0), ..Mails::default() };
        let broken = |ending, mails, refused| -> Vec<String> {
            let all = kept(ending, mails, refused).into_iter();
            all.filter(|(_, kept)| !kept).map(|(promise, _)| promise).collect()
        };
        assert_eq!(kept(Ending::Complete, good, 0).len(), 5);
        assert!(broken(Ending::Complete, good, 0).is_empty());
        assert_eq!(broken(Ending::Complete, good, 1), ["nothing refused"]);
        assert_eq!(broken(Ending::Complete, Mails { duplicates: 1, ..good }, 0), ["no duplicate"]);
        let lost = Mails { arrived: 8, lost: Some(1), ..good };
        assert_eq!(broken(Ending::Stalled, lost, 0), ["nothing lost", "every mail arrived"]);
        let cut = Mails { arrived: 5, waiting: 4, lost: None, ..good };
        assert!(broken(Ending::Time, cut, 0).is_empty());
    }

    #[test]
    fn idle_calls_are_not_calls_for_mails() {
        let sums = |windows, calls| {
            let sums = [("windows", windows), ("sqs_calls", calls), ("mails", 100)];
            sums.map(|(name, sum)| (name.to_owned(), sum)).into()
        };
        let calls = sqs_calls(&sums(10, 52), &sums(15, 60));
        assert_eq!((calls.idle_windows, calls.idle_calls), (5, 8));
        assert!((calls.calls_per_mail.unwrap() - 0.52).abs() < 1e-9);
        assert_eq!(sqs_calls(&BTreeMap::new(), &BTreeMap::new()).calls_per_mail, None);
    }

    #[test]
    fn a_report_tells_utilisation_shares_calls_and_promises() {
        let text = Page::of(&sample()).plain();
        for line in [
            "300 of 300 mails in 29.9 s; every mail arrived",
            "  worst sliding second         10 arrived, quota 10",
            "    both campaigns waiting     100.00 % of the quota over 24 windows",
            "  shares, both waiting         big 90.00 % (wanted 90 %)",
            "                               small 10.00 % (wanted 10 %)",
            "  mails                        0 lost, 0 duplicates, 0 dead-lettered, 0 waiting",
            "  SQS calls                    0.520 a mail",
            "  kept  nothing lost (0 lost)",
        ] {
            assert!(text.lines().any(|known| known == line), "`{line}` is not in:\n{text}");
        }
    }

    #[test]
    fn a_run_of_texts_speaks_of_texts_and_says_why_they_are_fewer_than_their_parts() {
        let mut report = sample();
        report.settings.plan.channel = Channel::Sms;
        report.settings.plan.campaigns[1].recipients = 3;
        report.promises = promises(Ending::Complete, report.mails, &report.sandbox, "text");
        let text = Page::of(&report).plain();
        let first =
            "300 of 300 texts (360 parts: each of small has 3) in 29.9 s; every text arrived";
        assert_eq!(text.lines().next(), Some(first));
        assert!(!text.contains("mail"), "{text}");
    }

    #[test]
    fn a_run_that_stalled_names_what_held_sending() {
        let mut report = sample();
        report.ending = Ending::Stalled;
        report.held = vec!["small is held (refusals)".to_owned()];
        let text = Page::of(&report).plain();
        assert!(text.contains("nothing arrived any more\nsmall is held (refusals)\n"), "{text}");
    }

    #[test]
    fn a_broken_promise_stands_out() {
        let mut report = sample();
        assert!(report.is_kept());
        report.mails.lost = Some(2);
        report.promises = promises(Ending::Complete, report.mails, &report.sandbox, "mail");
        assert!(Page::of(&report).plain().contains("  BROKEN  nothing lost (2 lost)"));
        assert!(!report.is_kept());
    }
}
