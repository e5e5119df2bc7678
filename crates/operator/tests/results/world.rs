use std::cell::RefCell;
use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::config::Campaign;
use tidegate_core::dead_letter::{DeadLetter, LastError};
use tidegate_core::deduplication::{Acceptance, Deduplication};
use tidegate_core::email::Email;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_core::runs::{Run, RunInput, RunSender};
use tidegate_delivery::ports::{
    Clock as _, Fifo, Ledger as _, LedgerReport, MarkRequest, Marks as _, Outgoing, QueueUrl,
    Queues as _, Store as _, StoredRun,
};
use tidegate_fakes::{
    FaultPlan, MemoryLedger, MemoryQueues, MemoryStore, QueueSettings, SeededEntropy, Universe,
    list_draft,
};
use tidegate_operator::dead::{Coverage, Letter, LetterContent, LetterSnapshot};
use tidegate_operator::results::{
    ResultsError, ResultsReport, RowResult, RunJournal, StackSettings, facts, results, waiting,
};
use tidegate_operator::send::{
    CampaignDraft, CheckOptions, InputFormat, JournalHeader, JournalInput, JournalWriter, RunEnd,
    RunRecord, SendLimits, Session, TemplatePart, TemplateSource, Templates, baseline, check,
};

const FORMAT: InputFormat = InputFormat::Csv { delimiter: b',', multiline: false };

/// The effect that a poller or a fault had on a mail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Became {
    /// SES took it.
    Sent,
    /// It stands on the dead-letter queue.
    Dead,
    /// So, and its mark could not be taken away.
    DeadButMarked,
    /// It stands there, and nobody knows whether it was sent.
    Parked,
    /// It was marked so long ago.
    SendingFor(Duration),
    /// It waits on its campaign's queue for another attempt.
    Retrying,
    /// It stands on the merge queue.
    Merging,
    /// It stands on a limit queue.
    Limited,
    /// Back-pressure stored it in S3.
    Deferred,
    /// It is gone.
    Lost,
}

/// A journal in memory, the time when it was last written, and the list of its run.
#[derive(Debug)]
pub(crate) struct Journalled {
    pub(crate) lines: Vec<u8>,
    written_at: EpochMillis,
    list: String,
}

impl Journalled {
    /// As of a run that was interrupted at its very end.
    pub(crate) fn abandoned(mut self) -> Self {
        let lines = String::from_utf8(self.lines).unwrap();
        let (whole, end) = lines.trim_end().rsplit_once('\n').unwrap();
        assert!(end.contains("ended"), "{end}");
        self.lines = format!("{whole}\n").into_bytes();
        self
    }
}

/// A stack whose mails go where a test says.
pub(crate) struct World {
    universe: Universe,
    queues: MemoryQueues,
    ledger: MemoryLedger,
    pub(crate) faults: FaultPlan,
    deduplication: Deduplication,
    pub(crate) kept: Duration,
    dead: RefCell<Vec<Letter>>,
    pub(crate) store: MemoryStore,
}

fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}

impl World {
    pub(crate) fn new(deduplication: Deduplication) -> Self {
        let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_300));
        let queues = MemoryQueues::new(universe, 1);
        for name in ["big", "small", "merge.fifo", "domain-1"] {
            queues.create(&url(name), QueueSettings::default());
        }
        Self {
            universe,
            queues,
            ledger: MemoryLedger::default(),
            faults: FaultPlan::new(universe, 2),
            deduplication,
            kept: Duration::from_hours(15 * 24),
            dead: RefCell::default(),
            store: MemoryStore::default(),
        }
    }

    /// Runs `tidegate send` with so many rows.
    pub(crate) async fn enqueue(&self, campaign: &str, run: &str, rows: u64) -> Journalled {
        let lines = (1..=rows).map(|row| format!("ada{row}@example.com"));
        let lines = std::iter::once("to".to_owned()).chain(lines);
        let csv = lines.collect::<Vec<_>>().join("\n");
        let parts = [(TemplatePart::Subject, "Hello"), (TemplatePart::Text, "Text.")];
        let parts = parts.map(|(part, text)| (part, TemplateSource::new("t", text)));
        let templates = Templates::compile(parts, &[]).unwrap();
        let draft = list_draft(campaign, templates);
        let draft = CampaignDraft { run: run.to_owned(), uploaded: false, ..draft };
        let checking = CheckOptions {
            format: FORMAT,
            max_faults: 1,
            allow_duplicates: false,
            first_of_duplicates: false,
            skip_invalid: false,
            recipients: None,
        };
        let checked = check(&draft, "in.csv", csv.as_bytes(), checking, |_, _| {}).unwrap();
        let (queue, clock) = (url(campaign), self.universe.clock());
        let at = EpochMillis::from(clock.wall());
        let sender = RunSender { by: "ada".to_owned(), ..RunSender::default() };
        let wanted = RunInput { rows, ..RunInput::default() };
        let wanted = Run::new(campaign, run, wanted, sender, at);
        let input = JournalInput { path: "in.csv".into(), format: FORMAT, to_column: None };
        let mut header = JournalHeader::of(&wanted, queue.as_str(), BTreeMap::new(), input);
        let shared = [url("merge.fifo"), url("domain-1")];
        header.before =
            baseline(&self.queues, &self.ledger, campaign, slice::from_ref(&queue), &shared)
                .await
                .unwrap();
        let session = Session {
            draft: &draft,
            file: "in.csv",
            format: FORMAT,
            checked: &checked,
            header: &header,
            journalled: None,
            recipients: None,
            limits: SendLimits {
                parallel: 8,
                max_backlog: Some(100_000),
                even_if_deferred: false,
                max_wait: None,
            },
        };
        let ports = tidegate_operator::send::SendPorts {
            queues: &self.queues,
            store: None::<&MemoryStore>,
            clock: &clock,
            entropy: &SeededEntropy::new(3),
            progress: &(),
        };
        let mut journal = Journalled { lines: Vec::new(), written_at: at, list: csv.clone() };
        let mut writer = JournalWriter::new(&mut journal.lines, "run.journal");
        let stored = StoredRun { version: 0, run: wanted };
        let known = MemoryLedger::default();
        let mut record = RunRecord::begin(&known, stored).await.unwrap();
        let run =
            session.run(ports, csv.as_bytes(), &mut writer, &mut record, std::future::pending());
        assert_eq!(run.await.unwrap().ended, RunEnd::Done);
        journal.written_at = EpochMillis::from(clock.wall());
        journal
    }

    /// Takes mails from the campaign's queue, and does with so many what is said.
    pub(crate) async fn befall(&self, campaign: &str, became: &[(usize, Became)]) {
        for (count, became) in became {
            let mut left = *count;
            while left > 0 {
                let received = self
                    .queues
                    .receive(&url(campaign), left.min(10), Duration::ZERO)
                    .await
                    .unwrap();
                assert!(!received.is_empty(), "there are no more mails");
                left -= received.len();
                let receipts: Vec<String> = received.iter().map(|m| m.receipt.clone()).collect();
                self.queues.delete(&url(campaign), &receipts).await.unwrap();
                for mail in received {
                    self.befalls(campaign, mail.body.to_string(), *became).await;
                }
            }
        }
    }

    async fn befalls(&self, campaign: &str, body: String, became: Became) {
        let id = Email::parse(&body).unwrap().id.unwrap();
        let identity = Identity::from_body_id(campaign, &id);
        let now = self.universe.clock().wall();
        let mark = |age: Duration| MarkRequest {
            identity: identity.clone(),
            token: id.clone(),
            pass: 0,
            now: now.saturating_sub(age),
            kept: self.kept,
            replaces: None,
        };
        let marked = async |age| {
            if self.deduplication != Deduplication::Off {
                self.ledger.mark(&mark(age)).await.unwrap();
            }
        };
        let outgoing = Outgoing {
            body: body.into(),
            attributes: Vec::new(),
            delay: Duration::ZERO,
            fifo: None,
        };
        match became {
            Became::Sent => {
                marked(Duration::ZERO).await;
                let at = EpochMillis::from(now);
                let accepted = Acceptance { at, ses_message_id: format!("ses-{id}") };
                self.ledger.set_sent(&identity, &accepted).await.unwrap();
                self.sent_before(campaign, 1).await;
            }
            Became::Dead => {
                self.dead.borrow_mut().push(letter(campaign, &id));
            }
            Became::DeadButMarked => {
                marked(Duration::ZERO).await;
                self.dead.borrow_mut().push(letter(campaign, &id));
            }
            Became::Parked => {
                marked(Duration::ZERO).await;
                self.ledger.set_parked(&identity, &id, 0xFFFF).await.unwrap();
                self.dead.borrow_mut().push(letter(campaign, &id));
            }
            Became::SendingFor(age) => marked(age).await,
            Became::Retrying => {
                let delayed = Outgoing { delay: Duration::from_mins(5), ..outgoing };
                self.queues.send(&url(campaign), &[delayed]).await.unwrap();
            }
            Became::Merging => {
                let fifo = Fifo { group: id.clone(), deduplication: id.clone() };
                let merging = Outgoing { fifo: Some(fifo), ..outgoing };
                self.queues.send(&url("merge.fifo"), &[merging]).await.unwrap();
            }
            Became::Limited => {
                self.queues.send(&url("domain-1"), &[outgoing]).await.unwrap();
            }
            Became::Deferred => {
                // An object for each mail, named by the campaign and the number of mails.
                let number = self.store.list("deferred", None).await.unwrap().objects.len();
                let name = format!("deferred/20261120T203607Z.{campaign}.{number:04x}.1.jsonl.gz");
                self.store.put(&name, Vec::new()).await.unwrap();
            }
            Became::Lost => {}
        }
    }

    /// A poller's report of so many recipients.
    pub(crate) async fn sent_before(&self, campaign: &str, recipients: i64) {
        let counters = BTreeMap::from([(format!("sent.{campaign}"), recipients)]);
        self.ledger.report(&LedgerReport { counters, ..LedgerReport::default() }).await.unwrap();
    }

    /// Sends what stands on the merge queue.
    pub(crate) async fn drain_merge(&self) {
        let state = self.queues.contents(&url("merge.fifo")).len();
        self.queues.create(&url("merge.fifo"), QueueSettings::default());
        self.sent_before("big", i64::try_from(state).unwrap()).await;
    }

    pub(crate) async fn results(&self, run: &Journalled) -> Result<ResultsReport, ResultsError> {
        Ok(self.rows(run).await?.0)
    }

    /// The command, with its rows.
    pub(crate) async fn rows(
        &self,
        run: &Journalled,
    ) -> Result<(ResultsReport, Vec<RowResult>), ResultsError> {
        let campaign = |name: &str, weight| Campaign {
            name: name.to_owned(),
            queue_url: url(name).to_string(),
            weight,
            ..Campaign::default()
        };
        let stack = StackSettings {
            campaigns: vec![campaign("big", 90), campaign("small", 10)],
            shared: vec![url("merge.fifo"), url("domain-1")],
            marks_kept: (self.deduplication != Deduplication::Off).then_some(self.kept),
            quota_per_second: Some(14.0),
        };
        let queues = self.queues.clone().with_faults(&self.faults);
        let ledger = self.ledger.clone().with_faults(&self.faults);
        let now = EpochMillis::from(self.universe.clock().wall());
        let journal = RunJournal::read("run.journal", run.lines.as_slice())?;
        let mut waiting = waiting(&queues, &stack, &journal).await?;
        let campaign = &journal.header.campaign;
        waiting.elsewhere += tidegate_operator::store::left(&self.store, campaign).await?;
        let letters = self.dead.borrow().clone();
        let reading = LetterSnapshot { letters, coverage: Coverage::default() };
        let written_at = run.written_at;
        let facts = facts(&ledger, &stack, &journal, waiting, &reading, written_at, now).await?;
        let mut rows = Vec::new();
        let each = |row: &RowResult| {
            rows.push(row.clone());
            Ok(())
        };
        let report = results(&ledger, &facts, &journal, run.list.as_bytes(), each).await?;
        Ok((report, rows))
    }
}

/// The dead letter of a mail that SES refused.
fn letter(campaign: &str, id: &str) -> Letter {
    let entry = DeadLetter {
        message_id: id.to_owned(),
        campaign: campaign.to_owned(),
        to: Vec::new(),
        first_attempt_at: None,
        last_attempt_at: None,
        attempts: 1,
        last_error: LastError {
            code: Some("MessageRejected".to_owned()),
            http_status: Some(400),
            provider_message: "no".to_owned(),
        },
        message: format!(r#"{{"id":"{id}"}}"#),
    };
    let content = LetterContent::Entry(Box::new(entry));
    Letter { message_id: id.to_owned(), since: EpochMillis::new(0), content, envelope: None }
}
