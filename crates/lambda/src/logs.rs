//! Log lines: JSON with the keys of Powertools for AWS Lambda, which dashboards and queries know.
//! Source: <https://docs.aws.amazon.com/powertools/python/latest/core/logger/>, standard structured keys.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tidegate_adapters::aws::SystemClock;
use tidegate_core::{Timestamp, in_full};
use tidegate_delivery::ports::Clock as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{self, Layer};

use crate::metrics::stack_of;

/// The invocation under way. An environment has one at a time.
static INVOCATION: Mutex<Option<Invocation>> = Mutex::new(None);

struct Invocation {
    is_first: bool,
    request_id: String,
    arn: String,
    trace_id: Option<String>,
}

/// Notes which invocation the following lines are of: Lambda's id of the request, the function's ARN, and X-Ray's header if there is
/// one.
pub fn begin_invocation(request_id: &str, arn: &str, trace: Option<&str>) {
    let mut current = INVOCATION.lock().unwrap_or_else(PoisonError::into_inner);
    *current = Some(Invocation {
        is_first: current.is_none(),
        request_id: request_id.to_owned(),
        arn: arn.to_owned(),
        trace_id: trace.map(root_of),
    });
}

/// X-Ray's id of a trace in a header such as `Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1`.
fn root_of(header: &str) -> String {
    let root = header.split(';').find_map(|part| part.trim().strip_prefix("Root="));
    root.unwrap_or(header).to_owned()
}

/// Writes each event as a line.
pub struct LogLines<W> {
    to: Mutex<W>,
    clock: SystemClock,
    function: String,
    memory_size: Option<u64>,
}

impl<W: Write> LogLines<W> {
    /// Lines of a function with this name and so many megabytes.
    pub fn new(to: W, function: String, memory_size: Option<u64>) -> Self {
        Self { to: Mutex::new(to), clock: SystemClock::new(), function, memory_size }
    }

    fn members(&self, event: &Event<'_>, now: Timestamp) -> Members {
        let mut line = Members::default();
        line.add("timestamp", Timestamp::from_millis(now.as_millis()).to_string());
        line.add("level", event.metadata().level().as_str());
        event.record(&mut line);
        line.add("service", stack_of(&self.function));
        if let Some(of) = &*INVOCATION.lock().unwrap_or_else(PoisonError::into_inner) {
            line.add("cold_start", of.is_first);
            line.add("function_name", self.function.as_str());
            line.add("function_memory_size", self.memory_size);
            line.add("function_arn", of.arn.as_str());
            line.add("function_request_id", of.request_id.as_str());
            if let Some(trace) = &of.trace_id {
                line.add("xray_trace_id", trace.as_str());
            }
        }
        line
    }
}

impl<S: Subscriber, W: Write + Send + 'static> Layer<S> for LogLines<W> {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        let line = format!("{}\n", self.members(event, self.clock.wall()));
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // Where a line cannot be written, nobody can be told.
        let _ = to.write_all(line.as_bytes());
    }
}

/// The members of a line, in their order.
#[derive(Default)]
struct Members(Vec<(&'static str, Value)>);

impl Members {
    fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{}:{value}", if at == 0 { "{" } else { "," }, json!(name))?;
        }
        f.write_str("}")
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value);
    }

    /// With all its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field.name(), in_full(value));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the ledger is out of reach")]
    struct Outer(#[source] std::io::Error);

    fn lines_of(log: &Log) -> Vec<Value> {
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_powertools_keys_and_an_errors_causes_and_only_the_first_invocation_is_a_cold_start()
     {
        let log = Log::default();
        let lines = LogLines::new(log.clone(), "mail-poller".to_owned(), Some(256));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        tracing::info!("before");
        for id in ["r-1", "r-2"] {
            let trace =
                "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
            begin_invocation(
                id,
                "arn:aws:lambda:eu-west-1:123456789012:function:mail-poller",
                Some(trace),
            );
            let error = Outer(std::io::Error::other("no route"));
            tracing::error!(sent = 3_u64, share = 0.5, why = ?Some(1), error = &error as &dyn std::error::Error, "not \"served\"");
        }
        drop(guard);
        let [before, first, second] = <[Value; 3]>::try_from(lines_of(&log)).unwrap();
        assert_eq!(
            (&before["message"], &before["service"], &before["function_request_id"]),
            (&json!("before"), &json!("mail"), &Value::Null)
        );
        let mut rest = first.clone();
        let timestamp = rest.as_object_mut().unwrap().remove("timestamp").unwrap();
        let timestamp = timestamp.as_str().unwrap();
        assert!(
            timestamp.starts_with("20") && timestamp.ends_with('Z') && timestamp.len() <= 24,
            "{timestamp}"
        );
        assert_eq!(
            rest,
            json!({
                "level": "ERROR", "message": "not \"served\"", "sent": 3, "share": 0.5, "why": "Some(1)",
                "error": "the ledger is out of reach: no route", "service": "mail", "cold_start": true,
                "function_name": "mail-poller", "function_memory_size": 256, "function_request_id": "r-1",
                "function_arn": "arn:aws:lambda:eu-west-1:123456789012:function:mail-poller",
                "xray_trace_id": "1-5759e988-bd862e3fe1be46a994272793",
            })
        );
        assert_eq!(
            (&second["cold_start"], &second["function_request_id"]),
            (&json!(false), &json!("r-2"))
        );
    }
}
