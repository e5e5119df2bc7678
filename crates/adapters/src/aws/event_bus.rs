//! `Events` on EventBridge, by `PutEvents` (as decision 52 calls a service without a client).

use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use serde_json::{Value, json};
use tidegate_core::events::{SOURCE, StackEvent};
use tidegate_delivery::ports::{Events, FailureKind, PortError};

use super::error::{own_error, port_error};
use super::json_client::{JsonClient, JsonService, Manner};

const EVENTS: JsonService = JsonService {
    target: "AWSEvents",
    name: "events",
    id: "EventBridge",
    content_type: "application/x-amz-json-1.1",
};
/// The time limits of one attempt, of a call with its retries, and of all calls together: a poller has little time left.
const ATTEMPT: Duration = Duration::from_secs(1);
const OPERATION: Duration = Duration::from_secs(2);
const ALL: Duration = Duration::from_secs(3);
const CALL: &str = "PutEvents";
/// The most events of a call.
const BATCH: usize = 10;
/// Entries that fail single are put so often, after these pauses.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];
/// Codes of entries that may succeed at the next try
/// (<https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html>).
const PASSING: [&str; 3] = ["InternalFailure", "InternalException", "ThrottlingException"];

/// An EventBridge bus.
#[derive(Clone, Debug)]
pub struct EventBus {
    client: JsonClient,
    name: String,
}

impl EventBus {
    /// The bus with this name.
    pub fn new(config: &SdkConfig, name: impl Into<String>) -> Self {
        Self { client: JsonClient::new(&EVENTS, config), name: name.into() }
    }

    /// Puts at most ten events. Returns those that may succeed at the next try, and the last code of an entry that failed.
    async fn batch(&self, entries: Vec<Value>) -> Result<(Vec<Value>, Option<String>), PortError> {
        let body = json!({ "Entries": entries }).to_string();
        let manner = Manner::Retried(ATTEMPT, OPERATION);
        let answer = self.client.call(CALL, body.into(), manner).await;
        let answer =
            answer.map_err(|error| port_error::<ErrorMetadata>(CALL, &self.name, error))?;
        let results = answer["Entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let (mut again, mut failed) = (Vec::new(), None);
        for (index, entry) in entries.into_iter().enumerate() {
            let result = results.get(index).unwrap_or(&Value::Null);
            if result["EventId"].is_string() {
                continue;
            }
            let code = result["ErrorCode"].as_str().unwrap_or("InternalFailure");
            if PASSING.contains(&code) {
                again.push(entry);
            }
            failed = Some(code.to_owned());
        }
        Ok((again, failed))
    }
}

impl Events for EventBus {
    async fn put(&self, events: &[StackEvent]) -> Result<(), PortError> {
        let put = tokio::time::timeout(ALL, self.put_all(events)).await;
        put.unwrap_or_else(|_| Err(own_error(CALL, &self.name, FailureKind::TimedOut)))
    }
}

impl EventBus {
    async fn put_all(&self, events: &[StackEvent]) -> Result<(), PortError> {
        let mut refused = None;
        for events in events.chunks(BATCH) {
            let entry = |event: &StackEvent| {
                json!({
                    "EventBusName": self.name, "Source": SOURCE, "DetailType": event.detail_type,
                    "Detail": event.detail.to_string(),
                })
            };
            let mut entries = events.iter().map(entry).collect();
            let mut pauses = PAUSES.into_iter();
            loop {
                let (again, failed) = self.batch(entries).await?;
                let is_lost = |code: &String| !PASSING.contains(&code.as_str());
                refused = failed.clone().filter(is_lost).or(refused);
                if again.is_empty() {
                    break;
                }
                let Some(pause) = pauses.next() else {
                    refused = failed.or(refused);
                    break;
                };
                tokio::time::sleep(pause).await;
                entries = again;
            }
        }
        match refused {
            Some(code) => Err(own_error(CALL, &self.name, FailureKind::Refused(code))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::tests::fake::{Fake, FakeAnswer, SeenRequest};

    fn events(count: usize) -> Vec<StackEvent> {
        let event = |number| StackEvent {
            detail_type: "Mail Excluded",
            detail: json!({ "number": number }),
        };
        (0..count).map(event).collect()
    }

    /// The answer in which the entries with these numbers fail with a code.
    fn answer(count: usize, failed: &[(usize, &str)]) -> FakeAnswer {
        let entry = |number| match failed.iter().find(|(of, _)| *of == number) {
            Some((_, code)) => json!({ "ErrorCode": code, "ErrorMessage": "" }),
            None => json!({ "EventId": "11710aed" }),
        };
        let entries: Vec<Value> = (0..count).map(entry).collect();
        let body = json!({ "FailedEntryCount": failed.len(), "Entries": entries });
        FakeAnswer::Http(200, &[], body.to_string())
    }

    /// The numbers of the events in each call.
    fn put(calls: &[SeenRequest]) -> Vec<Vec<u64>> {
        let number = |entry: &Value| {
            let detail: Value = serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap();
            detail["number"].as_u64().unwrap()
        };
        let entries = calls.iter().map(|seen| seen.body["Entries"].as_array().unwrap());
        entries.map(|entries| entries.iter().map(number).collect()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_put_ten_a_call_and_those_that_fail_for_a_passing_reason_again() {
        let passing = [(1, "ThrottlingException"), (3, "InternalFailure")];
        let answers = [
            answer(10, &passing),
            answer(2, &[(0, "InternalException")]),
            answer(1, &[]),
            answer(1, &[]),
        ];
        let service = Fake::new(answers);
        let bus = EventBus::new(&service.config(), "outcomes");
        bus.put(&events(11)).await.unwrap();
        let calls = service.seen();
        assert_eq!(put(&calls), [(0..10).collect(), vec![1, 3], vec![1], vec![10]]);
        assert_eq!(calls[0].target.as_deref(), Some("AWSEvents.PutEvents"));
        let entry = json!({
            "EventBusName": "outcomes", "Source": "tidegate", "DetailType": "Mail Excluded",
            "Detail": r#"{"number":0}"#,
        });
        assert_eq!(calls[0].body["Entries"][0], entry);
    }

    #[tokio::test(start_paused = true)]
    async fn no_event_is_put_again_that_is_on_the_bus_or_that_the_bus_will_never_take() {
        let service = Fake::new([
            answer(10, &[(2, "ThrottlingException"), (4, "MalformedDetail")]),
            answer(1, &[]),
            answer(2, &[]),
        ]);
        let bus = EventBus::new(&service.config(), "outcomes");
        let error = bus.put(&events(12)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Refused("MalformedDetail".to_owned()));
        assert_eq!(put(&service.seen()), [(0..10).collect(), vec![2], vec![10, 11]]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poller_waits_three_seconds_for_the_bus_however_many_events_there_are() {
        let throttled = |_: usize| answer(10, &[(0, "ThrottlingException")]);
        let service = Fake::new((0..90).map(throttled));
        let began = tokio::time::Instant::now();
        let bus = EventBus::new(&service.config(), "outcomes");
        let error = bus.put(&events(300)).await.unwrap_err();
        assert_eq!((error.kind, began.elapsed()), (FailureKind::TimedOut, ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bus_that_throttles_on_and_on_is_an_error_after_three_calls() {
        let throttled = || answer(1, &[(0, "ThrottlingException")]);
        let service = Fake::new([throttled(), throttled(), throttled(), answer(1, &[])]);
        let bus = EventBus::new(&service.config(), "outcomes");
        let error = bus.put(&events(1)).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Refused("ThrottlingException".to_owned()));
        assert_eq!(put(&service.seen()), [[0], [0], [0]]);
    }
}
