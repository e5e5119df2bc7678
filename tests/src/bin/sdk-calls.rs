//! The AWS calls that a poller makes for its mails, and nothing else, at a poller's pace. `make bench`
//! compares a poller's processor time with this program's, which the machine makes slow or fast alike.
//!
//! `sdk-calls merge|direct MAILS PER_SECOND [KB]` fills a queue, sends that many mails from it, and prints
//! `{"mails": …, "cpu_ms_per_mail": …}`; filling is not counted. Texts have KB kilobytes, 0 if none are given. SQS and SES are where
//! `AWS_ENDPOINT_URL_SQS` and `AWS_ENDPOINT_URL_SESV2` say.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement: a failure ends it, and its figures are printed"
)]

use std::time::Duration;

use aws_sdk_sesv2::types::{Body, Content, Destination, EmailContent, Message as Mail};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, SendMessageBatchRequestEntry};
use rustix::time::{ClockId, clock_gettime};
use tidegate_adapters::aws::Clients;
use tokio::task::JoinSet;
use tokio::time::Instant;

const BATCH: u32 = 10;
const TEXT: &str = "Hello,\n\nthis is a mail of the campaign big.\n";

#[derive(Clone)]
struct Calls {
    sqs: aws_sdk_sqs::Client,
    ses: aws_sdk_sesv2::Client,
    campaign: String,
    merge: String,
    /// Bodies that fit into a call, which may have 1 MiB.
    fitting: usize,
}

impl Calls {
    async fn connect(kb: usize) -> Self {
        let clients = Clients::connect().await;
        let endpoint = std::env::var("AWS_ENDPOINT_URL_SQS").unwrap();
        Self {
            sqs: aws_sdk_sqs::Client::new(clients.sqs_config()),
            ses: aws_sdk_sesv2::Client::new(clients.ses_config()),
            campaign: format!("{endpoint}/000000000000/campaign"),
            merge: format!("{endpoint}/000000000000/merge.fifo"),
            fitting: (1_000 / kb.max(1)).clamp(1, 10),
        }
    }

    async fn put(&self, queue: &str, bodies: impl Iterator<Item = String>) {
        let bodies: Vec<String> = bodies.collect();
        for bodies in bodies.chunks(self.fitting) {
            self.put_batch(queue, bodies).await;
        }
    }

    async fn put_batch(&self, queue: &str, bodies: &[String]) {
        let fifo = queue == self.merge;
        let entry = |(number, body): (usize, &String)| {
            let entry = SendMessageBatchRequestEntry::builder().id(number.to_string());
            let entry = entry.message_body(body);
            let entry = if fifo {
                let address = address_and_text(body).0;
                entry.message_group_id(address).message_deduplication_id(address)
            } else {
                entry
            };
            entry.build().unwrap()
        };
        let entries = bodies.iter().enumerate().map(entry).collect();
        let answer = self.sqs.send_message_batch().queue_url(queue).set_entries(Some(entries));
        assert!(answer.send().await.unwrap().failed().is_empty());
    }

    async fn receive(&self, queue: &str) -> Vec<Message> {
        let answer = self.sqs.receive_message().queue_url(queue).wait_time_seconds(1);
        let answer = answer.max_number_of_messages(10).send().await.unwrap();
        answer.messages.unwrap_or_default()
    }

    async fn delete(&self, queue: &str, messages: &[Message]) {
        if messages.is_empty() {
            return;
        }
        let entry = |(number, message): (usize, &Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string());
            entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap()
        };
        let entries = messages.iter().enumerate().map(entry).collect();
        let answer = self.sqs.delete_message_batch().queue_url(queue).set_entries(Some(entries));
        answer.send().await.unwrap();
    }

    async fn send(&self, body: &str) {
        let (to, more) = address_and_text(body);
        let text = |text: &str| Content::builder().data(text).charset("UTF-8").build().unwrap();
        let mail = Mail::builder()
            .subject(text("News"))
            .body(Body::builder().text(text(&format!("{TEXT}{more}"))).build());
        self.ses
            .send_email()
            .from_email_address("news@example.org")
            .destination(Destination::builder().to_addresses(to).build())
            .content(EmailContent::builder().simple(mail.build()).build())
            .send()
            .await
            .unwrap();
    }

    /// The calls for up to ten mails, whose sends are `gap` apart; the number of mails.
    async fn batch(self, merge: bool, gap: Duration) -> u32 {
        let mut queue = &self.campaign;
        let mut messages = self.receive(queue).await;
        if merge && !messages.is_empty() {
            let bodies = messages.iter().map(|message| message.body().unwrap().to_owned());
            self.put(&self.merge, bodies).await;
            self.delete(queue, &messages).await;
            queue = &self.merge;
            messages = self.receive(queue).await;
        }
        let mut sends = JoinSet::new();
        let mut due = Instant::now();
        for message in &messages {
            let (calls, body) = (self.clone(), message.body().unwrap().to_owned());
            sends.spawn(async move { calls.send(&body).await });
            due += gap;
            tokio::time::sleep_until(due).await;
        }
        sends.join_all().await;
        self.delete(queue, &messages).await;
        u32::try_from(messages.len()).unwrap()
    }
}

/// A body is an address, and perhaps a space and more text for the mail.
fn address_and_text(body: &str) -> (&str, &str) {
    body.split_once(' ').unwrap_or((body, ""))
}

fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let (mode, mails, per_second, kb) = match given.as_slice() {
        [mode, mails, per_second] => (mode, mails, per_second, 0),
        [mode, mails, per_second, kb] => (mode, mails, per_second, kb.parse().unwrap()),
        _ => panic!("sdk-calls merge|direct MAILS PER_SECOND [KB]"),
    };
    let more = "letters ".repeat(kb * 128);
    let merge = mode == "merge";
    let (mails, gap) = (mails.parse::<u32>().unwrap(), 1.0 / per_second.parse::<f64>().unwrap());
    let calls = Calls::connect(kb).await;
    for first in (0..mails).step_by(BATCH as usize) {
        let bodies = first..mails.min(first + BATCH);
        calls.put(&calls.campaign, bodies.map(|n| format!("big-{n}@example.com {more}"))).await;
    }
    let (before, mut due) = (cpu(), Instant::now());
    let (mut batches, mut sent) = (JoinSet::new(), 0);
    let gap = Duration::from_secs_f64(gap);
    // A receive may find fewer than ten: then further batches send the rest.
    while sent < mails {
        let expected = sent + BATCH * u32::try_from(batches.len()).unwrap();
        if expected < mails {
            batches.spawn(calls.clone().batch(merge, gap));
            due += gap * BATCH;
            tokio::time::sleep_until(due).await;
        } else if let Some(ended) = batches.join_next().await {
            sent += ended.unwrap();
        }
        while let Some(ended) = batches.try_join_next() {
            sent += ended.unwrap();
        }
    }
    let each = cpu().saturating_sub(before).as_secs_f64() * 1e3 / f64::from(mails);
    println!("{{\"mails\": {sent}, \"cpu_ms_per_mail\": {each:.4}}}");
}
