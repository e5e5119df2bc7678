//! Measures how the scheduler makes and enqueues the messages of uploaded lists: processor time and memory.
//!
//! S3 and SQS are in memory and answer at once, so the figures are of the scheduler's own work. First 20,000 rows of 30 KB of
//! HTML, beside gzip of the same bodies alone; then 10 million rows (or as many as the first argument says) of one campaign at 200
//! a second, and of 1,000 at 1,000, in simulated time, with the calls of S3 and SQS that it takes. The last line is JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measurement: a failure ends it, its figures are printed, and it reads the clock"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_core::draft::{InputFormat, TemplatePart, TemplateSource, Templates};
use tidegate_core::store::refill::due_until;
use tidegate_core::store::rows::{ROWS, StoredDrafts, StoredRow, run_of};
use tidegate_core::store::{ObjectName, Waits, pack};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{
    Body, Clock as _, Entry, Outgoing, PortError, QueueDepth, QueueUrl, Queues, Received, Store,
    StorePage, StoredObject, Version,
};
use tidegate_delivery::schedule::refill::{Bounds, Destinations, RefillPorts, bring_back};
use tidegate_fakes::{MemoryStore, Universe, list_draft};

const HTML_ROWS: usize = 20_000;
const HTML_BYTES: usize = 30_000;
const CAMPAIGNS: usize = 1_000;
/// Least time between two starts of the scheduler, and how long one fills queues.
const MINUTE: Duration = Duration::from_mins(1);
const WITHIN: Duration = Duration::from_secs(40);

fn main() {
    // Cargo passes `--bench`.
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let html = html();
    println!("{html}");
    let rows = asked.unwrap_or(10_000_000);
    // First, since the lists of one campaign are all in memory.
    let many = lists(CAMPAIGNS, rows, 1_000.0);
    println!("{many}");
    let one = lists(1, rows, 200.0);
    println!("{}", json!({ "html": html, "one": one, "many": many }));
}

fn played<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(work)
}

fn html() -> Value {
    let line =
        "<p>Dear {{ name }}, here is <a href='https://example.org/?t={{ number }}'>more</a>.</p>\n";
    let text = line.repeat(HTML_BYTES / line.len());
    let world = World::new(1, HTML_ROWS, TemplatePart::Html, &text);
    let began = cpu_seconds();
    played(world.run(1e6));
    let seconds = cpu_seconds() - began;
    let drafts = StoredDrafts::unpack(&world.store.drafts("c000")).unwrap();
    let body = drafts.drafts[0].message(&row(7).of_list(&"in.csv".into())).unwrap().0.body;
    let began = cpu_seconds();
    for _ in 0..HTML_ROWS {
        drop(Body::from(body.clone()).compress());
    }
    let gzip = cpu_seconds() - began;
    json!({ "rows": HTML_ROWS, "bytes": body.len(), "seconds": seconds, "gzip_seconds": gzip,
        "rows_a_second": HTML_ROWS as f64 / seconds })
}

fn lists(campaigns: usize, rows: usize, mails_a_second: f64) -> Value {
    let world =
        World::new(campaigns, rows / campaigns, TemplatePart::Text, "Dear {{ name }}, news.");
    let (before, began) = (peak_mb(), cpu_seconds());
    let minutes = played(world.run(mails_a_second));
    let seconds = cpu_seconds() - began;
    json!({ "rows": rows, "campaigns": campaigns, "calls": world.calls(), "minutes": minutes, "seconds": seconds,
        "rows_a_second": rows as f64 / seconds, "before_mb": before, "peak_mb": peak_mb() })
}

fn row(row: usize) -> StoredRow {
    let columns = [
        ("to".to_owned(), format!("ada{row}@example.com").into()),
        ("name".to_owned(), format!("Ada {row}").into()),
        ("number".to_owned(), row.into()),
    ];
    StoredRow { row: row as u64 + 1, line: row as u64 + 2, columns: columns.into() }
}

struct World {
    store: Lists,
    queues: Sink,
    destinations: Destinations,
    rows: usize,
}

impl World {
    fn new(campaigns: usize, rows_each: usize, part: TemplatePart, text: &str) -> Self {
        let names: Vec<String> = (0..campaigns).map(|number| format!("c{number:03}")).collect();
        let queues =
            names.iter().map(|name| (name.clone(), QueueUrl::new(name.as_str()))).collect();
        let chunk = |first: usize| {
            let rows = first..(first + ROWS).min(rows_each);
            pack(&rows.map(row).collect::<Vec<_>>()).unwrap()
        };
        let chunks: Vec<Vec<u8>> = (0..rows_each).step_by(ROWS).map(chunk).collect();
        let parts = [(TemplatePart::Subject, "News"), (part, text)];
        let parts = parts.map(|(part, text)| (part, TemplateSource::new("mail", text)));
        let templates = Templates::compile(parts, &[]).unwrap();
        let mut objects = BTreeMap::new();
        for name in &names {
            for (number, first) in (0..rows_each).step_by(ROWS).enumerate() {
                let (mails, campaign) = ((rows_each - first).min(ROWS) as u64, name.clone());
                let (waits, window) = (Waits::Rows, Window::from_epoch_second(1_795_207_000));
                let token = format!("{name}{number:06}");
                let name = ObjectName { waits, window, campaign, token, mails };
                objects.insert(name.to_string(), number);
            }
        }
        let store = Lists {
            templates,
            chunks,
            objects: RefCell::new(objects),
            other: MemoryStore::default(),
            calls: RefCell::default(),
        };
        let destinations = Destinations { queues, ..Destinations::default() };
        let queues = Sink { depths: RefCell::default(), sent: Cell::new(0), calls: Cell::new(0) };
        Self { store, queues, destinations, rows: campaigns * rows_each }
    }

    /// Calls of S3 and SQS by name.
    fn calls(&self) -> Value {
        let mut calls = self.store.calls.take();
        calls.insert("SendMessageBatch", self.queues.calls.get());
        json!(calls)
    }

    /// Plays until every row is enqueued; how many minutes that took.
    async fn run(&self, mails_a_second: f64) -> usize {
        let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_200_000));
        let clock = universe.clock();
        for minute in 1.. {
            let until = universe.now() + MINUTE;
            let bounds = Bounds {
                deferred: 0,
                timed: due_until(clock.wall()),
                mails_a_second,
                until: clock.monotonic() + WITHIN,
            };
            let (store, queues, destinations) = (&self.store, &self.queues, &self.destinations);
            let site = RefillPorts { store, queues, clock: &clock, destinations, me: "ada" };
            let done = RefCell::default();
            bring_back(site, &bounds, &done).await.unwrap();
            if self.queues.sent.get() >= self.rows {
                return minute;
            }
            universe.sleep_until(until).await;
            for depth in self.queues.depths.borrow_mut().values_mut() {
                *depth = (*depth - 60.0 * mails_a_second / self.destinations.queues.len() as f64)
                    .max(0.0);
            }
        }
        unreachable!("the minutes do not end")
    }
}

/// Uploaded lists: each campaign has the same. A chunk is gone once its rows are all enqueued, by its progress.
struct Lists {
    templates: Templates,
    chunks: Vec<Vec<u8>>,
    objects: RefCell<BTreeMap<String, usize>>,
    /// Progress.
    other: MemoryStore,
    calls: RefCell<BTreeMap<&'static str, u64>>,
}

impl Lists {
    fn count(&self, call: &'static str) {
        *self.calls.borrow_mut().entry(call).or_default() += 1;
    }

    fn drafts(&self, campaign: &str) -> Vec<u8> {
        let draft = list_draft(campaign, self.templates.clone());
        let (list, format, cancelled_at) = ("in.csv".to_owned(), InputFormat::Json, None);
        StoredDrafts { list, format, cancelled_at, drafts: vec![draft] }.pack().unwrap()
    }
}

impl Store for Lists {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), PortError> {
        Ok(())
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<StorePage, PortError> {
        self.count("ListObjectsV2");
        let names: Vec<String> = match folder {
            "rows" => self.objects.borrow().keys().cloned().collect(),
            "runs" => {
                let tokens = self.objects.borrow();
                let names = tokens.keys().map(|key| key.parse::<ObjectName>().unwrap());
                let mut keys: Vec<String> =
                    names.map(|name| StoredDrafts::key(run_of(&name.token))).collect();
                keys.dedup();
                keys
            }
            _ => Vec::new(),
        };
        let begin = names.partition_point(|name| after.is_some_and(|after| name.as_str() <= after));
        let page = names[begin..].iter().take(1_000).cloned();
        let objects: Vec<StoredObject> = page.map(|key| StoredObject { key, bytes: 1 }).collect();
        let next = objects.last().filter(|_| begin + objects.len() < names.len());
        Ok(StorePage { next: next.map(|object| object.key.clone()), objects })
    }

    async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, PortError> {
        self.count("GetObject");
        let version = Version::new("1".to_owned());
        if let Some(token) = StoredDrafts::token(key) {
            return Ok(Some((self.drafts(&token), version)));
        }
        let found = self.objects.borrow().get(key).copied();
        match found {
            Some(number) => Ok(Some((self.chunks[number].clone(), version))),
            None => self.other.get(key).await,
        }
    }

    async fn get_most(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, PortError> {
        Ok(None)
    }

    async fn delete(&self, _: &str) -> Result<(), PortError> {
        Ok(())
    }

    async fn replace(
        &self,
        key: &str,
        bytes: Vec<u8>,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        self.count("PutObject");
        let progress: tidegate_core::store::Progress = serde_json::from_slice(&bytes).unwrap();
        let object = key.trim_start_matches("progress/");
        let mails = object.parse::<ObjectName>().unwrap().mails;
        if progress.count() as u64 >= mails {
            self.objects.borrow_mut().remove(object);
        }
        self.other.replace(key, bytes, stands).await
    }
}

/// Queues that only count.
struct Sink {
    depths: RefCell<BTreeMap<String, f64>>,
    sent: Cell<usize>,
    calls: Cell<u64>,
}

impl Queues for Sink {
    async fn receive(
        &self,
        _: &QueueUrl,
        _: usize,
        _: Duration,
    ) -> Result<Vec<Received>, PortError> {
        Ok(Vec::new())
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        *self.depths.borrow_mut().entry(queue.as_str().to_owned()).or_default() +=
            messages.len() as f64;
        self.sent.set(self.sent.get() + messages.len());
        self.calls.set(self.calls.get() + 1);
        Ok(messages.iter().map(|_| Ok(())).collect())
    }

    async fn delete(&self, _: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        Ok(receipts.iter().map(|_| Ok(())).collect())
    }

    async fn set_visibility(
        &self,
        _: &QueueUrl,
        receipts: &[String],
        _: Duration,
    ) -> Result<Vec<Entry>, PortError> {
        Ok(receipts.iter().map(|_| Ok(())).collect())
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
        let depth = self.depths.borrow().get(queue.as_str()).copied().unwrap_or_default();
        let visible = tidegate_core::number::whole(depth);
        Ok(QueueDepth { visible, ..QueueDepth::default() })
    }

    fn calls(&self) -> u64 {
        self.calls.get()
    }
}

/// User and system time of this process, as Linux tells them in hundredths of seconds; elsewhere the time that passed.
fn cpu_seconds() -> f64 {
    thread_local!(static BEGAN: Instant = Instant::now());
    let passed = BEGAN.with(Instant::elapsed).as_secs_f64();
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return passed };
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that this process has used so far, in MB; 0 where Linux does not tell.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1_000
}
