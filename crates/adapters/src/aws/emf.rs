//! `CloudWatch` Embedded Metric Format: a JSON line in the log from which `CloudWatch` extracts metrics.
//!
//! ```
//! use tidegate_adapters::aws::emf::{MetricsLine, Unit};
//! use tidegate_core::Timestamp;
//! let line = MetricsLine::new(Timestamp::from_millis(1_700_000_000_000))
//!     .dimension("Campaign", "spring")
//!     .metric("Sent", Unit::Count, 13.0)
//!     .property("window", "2023-11-14T22:13:20Z")
//!     .into_value()
//!     .unwrap();
//! assert_eq!(line["Sent"], 13.0);
//! assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Namespace"], "Tidegate");
//! ```

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate_core::Timestamp;

/// The namespace of all of Tidegate's metrics in `CloudWatch`.
pub const NAMESPACE: &str = "Tidegate";
/// `CloudWatch` accepts at most 100 metrics per line.
const MAX_METRICS: usize = 100;
/// `CloudWatch` accepts at most 30 dimensions per metric.
const MAX_DIMENSIONS: usize = 30;

/// The unit that `CloudWatch` shows for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    Count,
    Milliseconds,
    Seconds,
    /// A percentage, from 0 to 100.
    Percent,
    /// A number without a unit, such as a level.
    None,
}

/// A metrics line that is being built.
#[derive(Clone, Debug)]
pub struct MetricsLine {
    at: Timestamp,
    dimensions: Vec<String>,
    metrics: Vec<Value>,
    members: Map<String, Value>,
}

impl MetricsLine {
    /// Starts a line with the time `at`.
    pub fn new(at: Timestamp) -> Self {
        Self { at, dimensions: Vec::new(), metrics: Vec::new(), members: Map::new() }
    }

    /// Adds a dimension to all metrics of this line, such as the campaign. Left out are empty values, which
    /// `CloudWatch` refuses, and dimensions beyond the thirtieth.
    pub fn dimension(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() && self.dimensions.len() < MAX_DIMENSIONS {
            self.dimensions.push(name.to_owned());
            self.members.insert(name.to_owned(), Value::from(value));
        }
        self
    }

    /// Adds a metric. Left out are zeros, since CloudWatch bills a metric for each hour in which it is
    /// published; values that are not finite; and metrics beyond the hundredth.
    pub fn metric(mut self, name: &str, unit: Unit, value: f64) -> Self {
        if value.is_finite() && value != 0.0 && self.metrics.len() < MAX_METRICS {
            self.metrics.push(json!({"Name": name, "Unit": unit}));
            self.members.insert(name.to_owned(), Value::from(value));
        }
        self
    }

    /// Adds a member that can be searched in the log but is not a metric.
    pub fn property(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the line; `None` if it has no metric. The log line must contain this JSON object and nothing
    /// else.
    pub fn into_value(self) -> Option<Value> {
        if self.metrics.is_empty() {
            return None;
        }
        let mut members = self.members;
        let directive = json!({
            "Namespace": NAMESPACE,
            "Dimensions": [self.dimensions],
            "Metrics": self.metrics,
        });
        let metadata = json!({
            "Timestamp": self.at.as_millis(),
            "CloudWatchMetrics": [directive],
        });
        members.insert("_aws".to_owned(), metadata);
        Some(Value::Object(members))
    }
}

/// Adds a dimension, such as the stack, to all metrics of `line`. Without it, two stacks in one account and
/// region would add up to one metric. An empty value is left out.
pub fn add_dimension(line: &mut Value, name: &str, value: &str) {
    let sets = line.pointer_mut("/_aws/CloudWatchMetrics/0/Dimensions/0");
    if let (false, Some(Value::Array(set))) = (value.is_empty(), sets) {
        set.insert(0, Value::from(name));
        line[name] = Value::from(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_is_added_in_front_of_a_lines_own_and_an_empty_one_is_not() {
        let line = MetricsLine::new(Timestamp::default()).dimension("Function", "poller");
        let mut line = line.metric("Sent", Unit::Count, 1.0).into_value().unwrap();
        add_dimension(&mut line, "Stack", "");
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Function"]]));
        add_dimension(&mut line, "Stack", "mail");
        assert_eq!(
            line["_aws"]["CloudWatchMetrics"][0]["Dimensions"],
            json!([["Stack", "Function"]])
        );
        assert_eq!(line["Stack"], "mail");
    }

    #[test]
    fn a_line_declares_its_metrics_and_holds_their_values_beside() {
        let line = MetricsLine::new(Timestamp::from_millis(1_700_000_000_123))
            .dimension("Function", "poller")
            .metric("Sent", Unit::Count, 13.0)
            .metric("Lateness", Unit::Milliseconds, 1.5)
            .property("window", 1_700_000_000_u64)
            .into_value()
            .unwrap();
        let expected = json!({
            "_aws": {
                "Timestamp": 1_700_000_000_123_u64,
                "CloudWatchMetrics": [{
                    "Namespace": "Tidegate",
                    "Dimensions": [["Function"]],
                    "Metrics": [
                        {"Name": "Sent", "Unit": "Count"},
                        {"Name": "Lateness", "Unit": "Milliseconds"},
                    ],
                }],
            },
            "Function": "poller",
            "Sent": 13.0,
            "Lateness": 1.5,
            "window": 1_700_000_000_u64,
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn without_a_dimension_the_metrics_stand_alone() {
        let line = MetricsLine::new(Timestamp::default()).metric("Sent", Unit::Count, 1.0);
        let line = line.into_value().unwrap();
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([[]]));
    }

    #[test]
    fn a_zero_is_no_metric_and_a_line_without_metrics_is_none() {
        let line = MetricsLine::new(Timestamp::default()).property("window", "now");
        let zeros = line.clone().metric("Sent", Unit::Count, 0.0).metric("Fed", Unit::Count, -0.0);
        assert_eq!((line.into_value(), zeros.into_value()), (None, None));
    }

    #[test]
    fn what_cloudwatch_would_refuse_is_left_out() {
        let mut line = MetricsLine::new(Timestamp::default()).dimension("Campaign", "").metric(
            "Broken",
            Unit::None,
            f64::NAN,
        );
        for n in 0..101 {
            line = line.metric(&format!("m{n}"), Unit::Percent, 1.0);
        }
        let line = line.into_value().unwrap();
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Metrics"].as_array().map(Vec::len), Some(100));
        assert_eq!(directive["Dimensions"], json!([[]]));
        assert!(line.get("Broken").is_none() && line.get("m100").is_none());
    }
}
