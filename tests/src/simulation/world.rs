#![expect(clippy::unwrap_used, reason = "a test's own settings, and fakes that answer")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::channel::MessageRules;
use tidegate_core::config::PollerConfig;
use tidegate_core::control::Control;
use tidegate_core::counters::Counter;
use tidegate_core::dead_letter::DeadLetter;
use tidegate_core::draft::{CampaignDraft, InputFormat, TemplatePart, TemplateSource, Templates};
use tidegate_core::email::{AllowedSenders, split};
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_core::runs::{Run, RunInput, RunSender, UploadedRows};
use tidegate_core::store::rows::{StoredDrafts, StoredRow};
use tidegate_core::store::{ObjectName, Waits, pack};
use tidegate_core::tick::Tick;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{Outgoing, Runs as _, Standing, Store as _, StoredRun};
use tidegate_fakes::{QueueSettings, QueuedMessage, list_draft};
use tidegate_operator::audit::{AuditReport, Judge};
use tidegate_simulator::{DEAD_LETTERS, LambdaEnvironment, ProducedMail, WorldSettings, url};

use super::mail::produced;
use super::{PollerEnd, measure, rate};

/// The draft of a list that the stack enqueues, with these templates.
///
/// # Panics
/// Where the templates are none.
pub fn uploaded_draft(campaign: &str, parts: [(TemplatePart, &str); 2]) -> CampaignDraft {
    let parts = parts.map(|(part, text)| (part, TemplateSource::new("mail.txt", text)));
    let rules = MessageRules { has_store: true, ..AllowedSenders::everyone().into() };
    CampaignDraft { rules, ..list_draft(campaign, Templates::compile(parts, &[]).unwrap()) }
}

/// A [`tidegate_simulator::World`] for tests: what fails is a panic.
#[derive(Debug)]
pub struct World {
    simulated: tidegate_simulator::World,
    /// The recipients of each mail that was put on a queue, by id, to find missing ones.
    pub(super) enqueued: RefCell<BTreeMap<String, u32>>,
}

impl Deref for World {
    type Target = tidegate_simulator::World;

    fn deref(&self) -> &Self::Target {
        &self.simulated
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.simulated
    }
}

impl World {
    /// A world with empty queues. Must be called inside a paused tokio runtime.
    ///
    /// # Panics
    /// On settings that make none.
    pub fn new(settings: WorldSettings) -> Self {
        let simulated = tidegate_simulator::World::new(settings).unwrap();
        Self { simulated, enqueued: RefCell::default() }
    }

    /// Creates a queue of this name, as another stack could.
    pub fn add_queue(&self, name: &str) {
        let max_message_bytes = CAMPAIGN_QUEUE_BYTES;
        let settings = QueueSettings { max_message_bytes, ..self.settings.queues };
        self.queues.create(&url(name), settings);
    }

    /// Deletes the queue of this name with all that is on it.
    pub fn remove_queue(&self, name: &str) {
        self.queues.remove(&url(name));
    }

    /// Sets a tag of the queue of this name, or removes it if `value` is `None`.
    pub fn tag(&self, queue: &str, tag: &str, value: Option<&str>) {
        self.queues.tag(&url(queue), tag, value);
    }

    /// The identities of the messages that Tidegate ever put on the queue of this name, each with
    /// the time.
    pub fn taken(&self, queue: &str) -> Vec<(Timestamp, String)> {
        self.queues.taken(&url(queue))
    }

    /// The tick of a window at the quota.
    pub fn tick(&self, window: Window) -> Tick {
        Tick { window, quota: self.tick_rate.get().unwrap_or(rate(self.settings.quota)) }
    }

    /// Sleeps until `after` past the opening of window number `number`, where `first` has number 0.
    pub async fn until(&self, first: Window, number: u64, after: Duration) {
        self.universe.sleep_until(first.plus(number).opens() + after).await;
    }

    /// One run of the production scheduler, invoked by EventBridge.
    pub async fn schedule(&self) {
        self.run_scheduler(false).await;
    }

    /// One run of the production scheduler, invoked by somebody else.
    pub async fn wake(&self) {
        self.run_scheduler(true).await;
    }

    /// Kills every poller that is serving, by dropping its future.
    pub fn crash(&self) {
        for environment in self.environments.borrow().iter().flatten() {
            if environment.busy.get() {
                environment.crash.notify_one();
            }
        }
    }

    /// Waits until shortly before the next window opens, as its tick does, and returns the window.
    pub async fn next_lead(&self) -> Window {
        let window = self.next_window();
        let at = window.opens().saturating_sub(Duration::from_millis(330));
        self.universe.sleep_until(at).await;
        window
    }

    /// Serves the next window and kills the poller at the first call that hangs: a send if `mail`,
    /// else any other call. Returns whether a call hung.
    pub async fn crash_where_it_hangs(&self, mail: bool) -> bool {
        let window = self.next_lead().await;
        let hung = tokio::select! {
            biased;
            () = self.serve(Some(self.tick(window))) => false,
            () = self.faults.hung(), if !mail => true,
            () = self.mail_faults.hung(), if mail => true,
        };
        if hung {
            // The environment is gone with it.
            self.forget_environments();
        }
        hung
    }

    /// Deploys a new poller configuration. Pollers that are serving finish with the old one; new
    /// environments get the new one.
    pub fn deploy(&self, poller: PollerConfig) {
        self.poller.replace(poller);
        for environment in self.environments.borrow_mut().iter_mut() {
            environment.take_if(|environment| !environment.busy.get());
        }
        for environment in self.environments.borrow().iter().flatten() {
            environment.retired.set(true);
        }
    }

    /// Drops all environments, busy or not. To be called after the future of [`tidegate_simulator::World::serve`] was
    /// dropped, which is a crash.
    pub fn forget_environments(&self) {
        self.environments.borrow_mut().iter_mut().for_each(|environment| *environment = None);
    }

    pub fn warm(&self) -> Vec<Rc<LambdaEnvironment>> {
        self.environments.borrow().iter().flatten().cloned().collect()
    }

    /// The sum of a counter over all reports.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.reports().iter().map(|report| report.count(counter)).sum()
    }

    /// Puts mails on the queue of this name, as producers do; they count as accepted.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn put(&self, queue: &str, mails: &[ProducedMail]) {
        let bodies: Vec<Outgoing> = mails.iter().map(|mail| produced(mail.body())).collect();
        self.put_raw(queue, &bodies).await;
        let recipients = mails.iter().map(|mail| (mail.id.clone(), mail.recipients));
        self.enqueued.borrow_mut().extend(recipients);
    }

    /// Puts a mail's content into the store and its pointer on the queue of this name; the object has the mail's id as name,
    /// without other characters than letters and digits. Returns the object's key.
    ///
    /// # Panics
    /// Where the queue does not take it.
    pub async fn put_large(&self, queue: &str, mail: &ProducedMail) -> String {
        let name: String = mail.id.chars().filter(char::is_ascii_alphanumeric).collect();
        let (pointer, object) = split(&mail.body(), &name).unwrap();
        self.store.put(&object.key, object.bytes).await.unwrap();
        self.put_raw(queue, &[produced(pointer)]).await;
        self.enqueued.borrow_mut().insert(mail.id.clone(), mail.recipients);
        object.key
    }

    /// Puts a list of so many rows into the store, from which the scheduler makes mails `row-1` and so on.
    ///
    /// # Panics
    /// Where the store or the ledger does not take it.
    pub async fn upload(&self, campaign: &str, rows: u64) {
        let at = self.universe.now().into();
        let text = [(TemplatePart::Subject, "News"), (TemplatePart::Text, "Dear {{ id }}, news.")];
        let draft = uploaded_draft(campaign, text);
        let token = "abcdef";
        let chunk: Vec<StoredRow> = (1..=rows)
            .map(|row| {
                let to = ("to".to_owned(), format!("row{row}@example.com").into());
                let columns = [to, ("id".to_owned(), format!("row-{row}").into())].into();
                StoredRow { row, line: row + 1, columns }
            })
            .collect();
        let (waits, window) = (Waits::Rows, Window::containing(self.universe.now()));
        let (campaign, token) = (campaign.to_owned(), token.to_owned());
        let first = format!("{token}000000");
        let name =
            ObjectName { waits, window, campaign: campaign.clone(), token: first, mails: rows };
        self.store.put(&name.to_string(), pack(&chunk).unwrap()).await.unwrap();
        let input = RunInput { rows, ..RunInput::default() };
        let mut run = Run::new(&campaign, "november", input, RunSender::default(), at);
        run.uploaded = Some(UploadedRows { token: token.clone(), ..UploadedRows::default() });
        assert!(self.ledger.set_run(&StoredRun { version: 0, run }).await.unwrap());
        let (list, format) = ("in.csv".to_owned(), InputFormat::Json);
        let drafts = StoredDrafts { list, format, cancelled_at: None, drafts: vec![draft] };
        self.store.put(&StoredDrafts::key(&token), drafts.pack().unwrap()).await.unwrap();
        self.enqueued.borrow_mut().extend((1..=rows).map(|row| (format!("row-{row}"), 1)));
    }

    /// Puts messages on the queue of this name, whatever they are.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn put_raw(&self, queue: &str, messages: &[Outgoing]) {
        self.simulated.put_raw(queue, messages).await.unwrap();
    }

    /// Puts `count` mails of one recipient on a campaign's queue, `name-0` and so on.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn fill(&self, campaign: &str, count: usize) {
        self.put(campaign, &ProducedMail::several(campaign, count, 1)).await;
    }

    /// What stands in the ledger.
    ///
    /// # Panics
    /// Never: the memory ledger answers.
    pub async fn ledger_now(&self) -> Standing {
        self.simulated.ledger_now().await.unwrap()
    }

    /// Changes the control record, as an operator does.
    ///
    /// # Panics
    /// Where another writer came in between.
    pub async fn control(&self, change: impl FnOnce(&mut Control)) {
        assert!(self.simulated.control(change).await.unwrap(), "another writer");
    }

    /// The dead letters.
    ///
    /// # Panics
    /// On a message of the dead-letter queue that is none.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let read = |message: QueuedMessage| {
            let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
            DeadLetter::from_queue_message(&message.body, attribute).unwrap()
        };
        self.contents(DEAD_LETTERS).into_iter().map(read).collect()
    }

    /// Asserts that every mail was sent or stands on a queue.
    ///
    /// # Panics
    /// Where one is neither.
    #[track_caller]
    pub fn assert_nothing_lost(&self) {
        assert_eq!(self.lost(), Vec::<String>::new(), "lost");
    }

    /// The run, judged by the records that its pollers log.
    pub fn audit(&self) -> AuditReport {
        let mut judge = Judge::default();
        for run in self.poller_runs().iter() {
            if let PollerEnd::Crashed = run.end {
                judge.killed(run.ended);
            }
            let record = run.report().and_then(|report| report.record.clone());
            for line in record.into_iter().flat_map(|record| record.lines()) {
                judge.line(&line, None);
            }
        }
        judge.report(Vec::new())
    }

    /// What this judgement finds broken.
    pub fn audited(&self) -> Vec<String> {
        let AuditReport { promises, figures, .. } = self.audit();
        let broken = promises.into_iter().filter(|promise| promise.broken > 0);
        broken.map(|promise| format!("{promise:?} among {figures:?}")).collect()
    }

    /// Asserts what holds after every run: nothing lost, nothing refused, nothing sent twice,
    /// no second above ⌈quota⌉, and an audit that finds nothing.
    ///
    /// # Panics
    /// Where one of these does not hold.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.assert_nothing_lost();
        assert_eq!(self.duplicates(), Vec::<String>::new(), "sent twice");
        assert_eq!(self.refused(), 0, "refused");
        let most = rate(self.settings.quota).ceil();
        let worst = measure::worst_second(&self.ses.arrivals());
        assert!(worst <= most, "{worst} in one second, {most} allowed");
        assert_eq!(self.audited(), Vec::<String>::new(), "audit");
    }
}
