//! The events of a log group in CloudWatch Logs, by `FilterLogEvents` (as decision 52 calls a service without a client).

use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use serde_json::json;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::PortError;

use super::error::port_error;
use super::json_client::{JsonClient, JsonService, Manner};

const LOGS: JsonService = JsonService {
    target: "Logs_20140328",
    name: "logs",
    id: "CloudWatch Logs",
    content_type: "application/x-amz-json-1.1",
};
/// The time limits of one attempt, which scans a part of the group, and of a call with its retries.
const ATTEMPT: Duration = Duration::from_secs(30);
const OPERATION: Duration = Duration::from_mins(1);
const CALL: &str = "FilterLogEvents";
/// The most events of an answer.
const PAGE: usize = 10_000;

/// CloudWatch Logs of one region.
#[derive(Clone, Debug)]
pub struct CloudWatchLogs(JsonClient);

impl CloudWatchLogs {
    /// The service of `config`'s region.
    pub fn new(config: &SdkConfig) -> Self {
        Self(JsonClient::new(&LOGS, config))
    }

    /// Gives `take` each event since `from`: its text, and when it was logged.
    ///
    /// # Errors
    /// [`PortError`]; some events may have been taken.
    pub async fn events(
        &self,
        group: &str,
        from: Timestamp,
        mut take: impl FnMut(&str, Timestamp),
    ) -> Result<(), PortError> {
        let mut request = json!({ "logGroupName": group, "startTime": from.as_millis() });
        loop {
            let manner = Manner::Retried(ATTEMPT, OPERATION);
            let answer = self.0.call(CALL, request.to_string().into(), manner).await;
            let answer = answer.map_err(|error| port_error::<ErrorMetadata>(CALL, group, error))?;
            let events = answer["events"].as_array().map(Vec::as_slice).unwrap_or_default();
            for event in events {
                let at = Timestamp::from_millis(event["timestamp"].as_u64().unwrap_or(0));
                take(event["message"].as_str().unwrap_or_default(), at);
            }
            let newest = events.last().map(|event| &event["timestamp"]);
            if answer["nextToken"].is_string() {
                request["nextToken"] = answer["nextToken"].clone();
            } else if let Some(newest) = newest
                && events.len() == PAGE
                && request["startTime"] != *newest
            {
                // A local AWS answers without a token: its next page begins with events that were taken.
                request["startTime"] = newest.clone();
            } else {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    #[tokio::test]
    async fn events_are_taken_page_by_page_until_there_is_no_token() {
        let page = |events: Value, token: Option<&str>| {
            let answer = json!({ "events": events, "nextToken": token });
            FakeAnswer::Http(200, &[], answer.to_string())
        };
        let event = |message: &str, at: u64| json!({ "message": message, "timestamp": at });
        // A page may be empty and have a successor.
        let pages = [
            page(json!([event("one", 5), event("two", 6)]), Some("a")),
            page(json!([]), Some("b")),
            page(json!([event("three", 7)]), None),
        ];
        let service = Fake::new(pages);
        let mut taken = Vec::new();
        let take = |text: &str, at: Timestamp| taken.push((text.to_owned(), at.as_millis()));
        let logs = CloudWatchLogs::new(&service.config());
        logs.events("group", Timestamp::from_millis(3), take).await.unwrap();
        let expected = [("one", 5), ("two", 6), ("three", 7)];
        assert_eq!(taken, expected.map(|(text, at)| (text.to_owned(), at)));
        let asked: Vec<Value> = service.seen().iter().map(|seen| seen.body.clone()).collect();
        let first = json!({ "logGroupName": "group", "startTime": 3 });
        assert_eq!(asked[0], first);
        assert_eq!(
            (asked[1]["nextToken"].as_str(), asked[2]["nextToken"].as_str()),
            (Some("a"), Some("b"))
        );
    }
}
