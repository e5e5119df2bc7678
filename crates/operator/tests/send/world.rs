use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::Timestamp;
use tidegate_core::back_pressure::{
    BackPressureFigures, BackPressureLevel, BackPressurePolicy, Reading,
};
use tidegate_core::email::Email;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::{Baseline, RUNS_KEPT, Run, RunInput, RunSender, RunStage};
use tidegate_delivery::ports::{Clock as _, Ledger as _, QueueUrl, Runs as _};
use tidegate_fakes::{
    FaultPlan, Latency, MemoryLedger, MemoryQueues, MemoryStore, QueueSettings, SeededEntropy,
    Universe, list_draft,
};
use tidegate_operator::send::{
    CampaignDraft, CheckOptions, InputFault, InputFormat, InputSummary, JournalContents,
    JournalHeader, JournalInput, JournalWriter, KnownList, RecipientFilter, RunEnd, RunRecord,
    SendError, SendLimits, SendPorts, SendProgress, SendReport, Session, TemplatePart,
    TemplateSource, Templates, admitted, check, journalled_rows, read_journal,
};

pub(crate) const FILE: &str = "recipients.csv";
pub(crate) const CSV: InputFormat = InputFormat::Csv { delimiter: b',', multiline: false };
pub(crate) const CHECKING: CheckOptions<'static> = CheckOptions {
    format: CSV,
    max_faults: 20,
    allow_duplicates: false,
    first_of_duplicates: false,
    skip_invalid: false,
    recipients: None,
};

/// How long deduplication knows an id.
pub(crate) const KEPT: Option<Duration> = Some(Duration::from_hours(15 * 24));

/// A CSV of `rows` recipients.
pub(crate) fn recipients(rows: u64) -> String {
    let row = |row: u64| format!("ada{row}@example.com,Ada {row},t{row}");
    let lines = std::iter::once("to,first_name,token".to_owned()).chain((1..=rows).map(row));
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn templates(parts: &[(TemplatePart, &str, &str)]) -> Templates {
    let named =
        |&(part, name, text): &(TemplatePart, &str, &str)| (part, TemplateSource::new(name, text));
    Templates::compile(parts.iter().map(named), &[]).unwrap()
}

pub(crate) fn draft() -> CampaignDraft {
    let templates = templates(&[
        (TemplatePart::Subject, "--subject", "Hello {{ first_name }}"),
        (TemplatePart::Html, "mail.html", "<p>Dear {{ first_name }},</p>\n<p>News.</p>\n"),
        (TemplatePart::Text, "mail.txt", "Dear {{ first_name }},\nnews.\n"),
        (
            TemplatePart::UnsubscribeUrl,
            "--list-unsubscribe",
            "https://example.org/out?t={{ token|urlencode }}",
        ),
    ]);
    CampaignDraft {
        run: "recipients".to_owned(),
        from: Some("News <news@example.org>".to_owned()),
        reply_to: vec!["answers@example.org".to_owned()],
        tags: BTreeMap::from([("edition".to_owned(), "2026-11".to_owned())]),
        uploaded: false,
        ..list_draft("big", templates)
    }
}

pub(crate) fn checked(draft: &CampaignDraft, csv: &str) -> Result<InputSummary, Vec<InputFault>> {
    check(draft, FILE, csv.as_bytes(), CHECKING, |_, _| {})
}

/// A journal in memory. It survives the writer that is dropped in a simulated crash.
#[derive(Debug, Default, Clone)]
pub(crate) struct Journal(pub(crate) Vec<u8>);

impl Journal {
    pub(crate) fn contents(&self) -> JournalContents {
        read_journal("journal", self.0.as_slice(), |_| {}).unwrap()
    }
}

/// A campaign's queue that may fail.
pub(crate) struct World {
    pub(crate) universe: Universe,
    pub(crate) queues: MemoryQueues,
    pub(crate) faults: FaultPlan,
    pub(crate) store: MemoryStore,
    pub(crate) queue: QueueUrl,
    pub(crate) limits: SendLimits,
    pub(crate) ledger: MemoryLedger,
    /// Where the command is run, and what it is told to do with a list that was sent before.
    pub(crate) host: &'static str,
    pub(crate) wish: KnownList,
    /// The file of `--exclude`.
    pub(crate) excluded: String,
    /// What is sent.
    pub(crate) draft: fn() -> CampaignDraft,
    pub(crate) checking: CheckOptions<'static>,
}

impl World {
    /// The level from now on, as the scheduler judges it once a minute.
    pub(crate) async fn set_level(&self, level: BackPressureLevel) {
        let mut standing = self.ledger.read().await.unwrap();
        let (policy, figures) = (BackPressurePolicy::default(), BackPressureFigures::default());
        let judged = policy.judge(None, figures, self.now());
        standing.control.back_pressure = Some(Reading { level, ..judged });
        let (version, control) = (standing.control_version, standing.control);
        assert!(self.ledger.set_control(version, &control).await.unwrap());
    }

    pub(crate) fn new(seed: u64) -> Self {
        let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_300));
        let queues = MemoryQueues::new(universe, seed);
        let queue = QueueUrl::new("https://sqs.example/big");
        queues.create(&queue, QueueSettings::default());
        let ms = Duration::from_millis;
        queues.set_latency(Latency::between(ms(5), ms(15)));
        let faults = FaultPlan::new(universe, seed + 1);
        Self {
            universe,
            queues,
            store: MemoryStore::default().with_faults(&faults),
            faults,
            queue,
            limits: SendLimits {
                parallel: 3,
                max_backlog: Some(100_000),
                even_if_deferred: false,
                max_wait: None,
            },
            ledger: MemoryLedger::default(),
            host: "laptop",
            wish: KnownList::Refuse,
            excluded: String::new(),
            draft,
            checking: CHECKING,
        }
    }

    pub(crate) fn header(&self, checked: &InputSummary) -> JournalHeader {
        let input = JournalInput { path: "in.csv".into(), format: CSV, to_column: None };
        let settings = [("input".to_owned(), checked.sha256.clone())].into();
        JournalHeader::of(&self.begun(checked), self.queue.as_str(), settings, input)
    }

    /// One run of the command.
    pub(crate) async fn run(
        &self,
        csv: &str,
        journal: &mut Journal,
        stop: impl Future<Output = ()>,
    ) -> Result<SendReport, SendError> {
        self.run_with(csv, journal, &(), stop).await
    }

    pub(crate) async fn run_with(
        &self,
        csv: &str,
        journal: &mut Journal,
        progress: &impl SendProgress,
        stop: impl Future<Output = ()>,
    ) -> Result<SendReport, SendError> {
        self.run_changed(csv, csv, journal, progress, stop).await
    }

    /// One run whose input is `csv` when it is checked, and `later` when it is sent.
    pub(crate) async fn run_changed(
        &self,
        csv: &str,
        later: &str,
        journal: &mut Journal,
        progress: &impl SendProgress,
        stop: impl Future<Output = ()>,
    ) -> Result<SendReport, SendError> {
        let draft = (self.draft)();
        let mut recipients = RecipientFilter::default();
        recipients.exclude.read("left.txt", self.excluded.as_bytes()).unwrap();
        let checking = CheckOptions { recipients: Some(&recipients), ..self.checking };
        let checked = check(&draft, FILE, csv.as_bytes(), checking, |_, _| {}).unwrap();
        let header = self.header(&checked);
        let contents = journal.contents();
        let rows = journalled_rows("journal", &contents, &header)?;
        journal.0.truncate(usize::try_from(contents.whole).unwrap());
        let known = self.ledger.runs(RUNS_KEPT).await.unwrap();
        let stored = admitted(&known, self.wanted(&checked).await, rows.as_ref(), self.wish)?;
        let mut record = RunRecord::begin(&self.ledger, stored).await?;
        let session = Session {
            draft: &draft,
            file: FILE,
            format: CSV,
            checked: &checked,
            header: &header,
            journalled: rows.as_ref(),
            recipients: Some(&recipients),
            limits: self.limits,
        };
        let queues = self.queues.clone().with_faults(&self.faults);
        let (clock, entropy) = (self.universe.clock(), SeededEntropy::new(7));
        let store = Some(&self.store);
        let ports =
            SendPorts { queues: &queues, store, clock: &clock, entropy: &entropy, progress };
        let mut journal = JournalWriter::new(&mut journal.0, ".tidegate/big-recipients.journal");
        let report = session.run(ports, later.as_bytes(), &mut journal, &mut record, stop).await;
        let stage = match report.as_ref().map(|report| &report.ended) {
            Ok(RunEnd::Done) => RunStage::Done,
            Ok(RunEnd::Cancelled) => RunStage::Cancelled,
            _ => RunStage::Stopped,
        };
        record.write(stage, self.now()).await?;
        report
    }

    pub(crate) fn now(&self) -> EpochMillis {
        self.universe.clock().wall().into()
    }

    /// The run as it begins, whatever the ledger knows.
    fn begun(&self, checked: &InputSummary) -> Run {
        let input =
            RunInput { list: checked.sha256.clone(), message: "m".into(), rows: checked.rows };
        let sender = RunSender {
            host: self.host.to_owned(),
            by: "ada".to_owned(),
            token: format!("{}-{}", self.host, self.now()),
        };
        Run::new("big", "recipients", input, sender, self.now())
    }

    /// The run as it begins, after the cancels that the ledger knows.
    pub(crate) async fn wanted(&self, checked: &InputSummary) -> Run {
        let cancels = self.ledger.read().await.unwrap().control.cancels;
        let cancelled_at = cancels.get("big").map(|cancel| cancel.at);
        Run { before: Baseline { cancelled_at, ..Baseline::default() }, ..self.begun(checked) }
    }

    /// The run as the ledger has it.
    pub(crate) async fn stored(&self) -> Run {
        self.ledger.runs(1).await.unwrap().remove(0).run
    }

    /// A run that is killed where a call hangs; true where none did and it came to its end.
    pub(crate) async fn run_until_killed(&self, csv: &str, journal: &mut Journal) -> bool {
        let run = std::pin::pin!(self.run(csv, journal, std::future::pending()));
        let hung = std::pin::pin!(self.faults.hung());
        match select(run, hung).await {
            Either::Left((report, _)) => report.is_ok(),
            Either::Right(_) => false,
        }
    }

    /// Takes everything off the queue.
    pub(crate) fn empty(&self) {
        self.queues.remove(&self.queue);
        self.queues.create(&self.queue, QueueSettings::default());
    }

    /// The number in each message's address, and its id.
    pub(crate) fn ids(&self) -> Vec<(u64, String)> {
        let messages = self.queues.contents(&self.queue).into_iter();
        let read = messages.map(|message| {
            let email = Email::parse(&message.body).unwrap();
            let local = email.to[0].addr_spec().split('@').next().unwrap().to_owned();
            let row = local.trim_start_matches("ada").parse().unwrap();
            (row, email.id.clone().unwrap())
        });
        read.collect()
    }

    /// How often each row stands on the queue, by the number in its address.
    pub(crate) fn run_state(&self) -> BTreeMap<u64, usize> {
        let mut rows = BTreeMap::new();
        for (row, _) in self.ids() {
            *rows.entry(row).or_default() += 1;
        }
        rows
    }
}
