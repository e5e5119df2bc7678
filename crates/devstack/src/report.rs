//! The report of a run, which is also `report.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cpu::ProcessUsage;
use super::figures::{RunFigures, float};
use super::sandbox::SandboxStats;
use super::setup::RunSettings;

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    Complete,
    /// The time that it was given passed.
    Time,
    /// Nothing arrived any more, and mails were missing.
    Stalled,
}

/// Number of mails by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PollerUsage {
    #[serde(flatten)]
    pub usage: ProcessUsage,
    /// Milliseconds of processor time for each mail that arrived; none without a mail.
    pub cpu_ms_per_mail: Option<f64>,
}

/// A promise of Tidegate's, and whether the run kept it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The promise in words, such as "nothing lost".
    pub promise: String,
    pub kept: bool,
    /// The observed value, in words.
    pub seen: String,
}

/// A run's report. Its JSON is `report.json`; a member is only ever added.
///
/// Ratios are of one, times in seconds, sizes in bytes; what could not be measured is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalReport {
    pub ending: Ending,
    /// The holds on sending at the end, in words.
    #[serde(default)]
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

impl LocalReport {
    pub fn is_kept(&self) -> bool {
        self.promises.iter().all(|promise| promise.kept)
    }

    pub fn refused(&self) -> u64 {
        self.sandbox.refused.values().sum()
    }
}

/// Checks each promise against the counts of the run.
pub(super) fn promises(
    ending: Ending,
    mails: Mails,
    sandbox: &SandboxStats,
    message: &str,
) -> Vec<Promise> {
    let promise = |promise: &str, kept: bool, seen: String| Promise {
        promise: promise.to_owned(),
        kept,
        seen,
    };
    let refused: u64 = sandbox.refused.values().sum();
    let mut promises = vec![
        promise("nothing refused", refused == 0, format!("{refused} refused")),
        promise("no duplicate", mails.duplicates == 0, format!("{} twice", mails.duplicates)),
        promise(
            "no dead letter",
            mails.dead_lettered == 0,
            format!("{} dead-lettered", mails.dead_lettered),
        ),
    ];
    if let Some(lost) = mails.lost {
        promises.push(promise("nothing lost", lost == 0, format!("{lost} lost")));
    }
    if ending != Ending::Time {
        let seen = format!("{} of {}", mails.arrived, mails.queued);
        promises.push(promise(
            &format!("every {message} arrived"),
            mails.arrived == mails.queued,
            seen,
        ));
    }
    promises
}

/// Calls until the last mail was settled, and idle ones after that, from the sums at both times.
pub(super) fn sqs_calls(settled: &BTreeMap<String, i64>, end: &BTreeMap<String, i64>) -> SqsCalls {
    let of = |sums: &BTreeMap<String, i64>, name: &str| sums.get(name).copied().unwrap_or_default();
    let (calls, mails) = (of(settled, "sqs_calls"), of(settled, "mails"));
    SqsCalls {
        calls,
        mails,
        calls_per_mail: (mails > 0)
            .then(|| float(calls.unsigned_abs()) / float(mails.unsigned_abs())),
        idle_windows: of(end, "windows") - of(settled, "windows"),
        idle_calls: of(end, "sqs_calls") - calls,
    }
}

/// The poller's resources in total and for each mail that arrived.
pub(super) fn poller_usage(usage: ProcessUsage, arrived: u64) -> PollerUsage {
    let of_mail = || usage.cpu_seconds * 1e3 / float(arrived);
    PollerUsage { usage, cpu_ms_per_mail: (arrived > 0).then(of_mail) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::figures::{MailArrival, figures};
    use crate::plan::LocalCampaign;
    use crate::setup::{Infra, Mode, Sqs};

    /// Thirty seconds at ten a second, every tenth of them of the small campaign.
    pub(crate) fn sample() -> LocalReport {
        let campaign = |name: &str, weight, mails| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails,
            recipients: 1,
        };
        let settings = RunSettings {
            quota: 10.0,
            rate_margin: None,
            channel: crate::plan::LocalChannel::Email,
            infra: Infra::Sam,
            mode: Mode::Merge,
            sqs: Sqs::Ministack,
            latency: None,
            bucket_seconds: None,
            strict: true,
            campaigns: [campaign("big", 90, 270), campaign("small", 10, 30)],
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
            figures: figures(&settings.plan(), &arrivals, |_, _| true),
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

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let report = sample();
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<LocalReport>(&json).unwrap(), report);
        assert!(report.is_kept());
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
}
