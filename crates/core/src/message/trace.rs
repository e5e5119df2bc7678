//! Traces: a mail's, which its producer began, and the spans that a window adds, in the form of OpenTelemetry's protocol
//! (OTLP/HTTP with JSON, <https://opentelemetry.io/docs/specs/otlp/#otlphttp>).

use std::fmt;

use serde_json::{Value, json};

use crate::text::sha256_hex;
use crate::timestamp::{Timestamp, Window};

/// The message attribute that carries a producer's trace.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The system attribute in which X-Ray puts one.
pub const AWS_TRACE_HEADER: &str = "AWSTraceHeader";
/// The SES tag by which SES's events name a mail's trace.
pub const TRACE_TAG: &str = "tidegate_trace";
/// The most sends of a window that become spans, so that they cost little of its processor time.
pub const MOST_SPANS: usize = 100;
/// Of windows without a traced mail, one in so many becomes a span.
pub const WINDOWS_SAMPLED: u64 = 10;

/// A trace and the span in it that caused a mail, as W3C writes them: `00-TRACE-SPAN-FLAGS`
/// (<https://www.w3.org/TR/trace-context/#traceparent-header>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent(String);

impl TraceParent {
    /// The trace in a message's attributes: `traceparent`, or else X-Ray's header.
    ///
    /// ```
    /// use tidegate_core::trace::TraceParent;
    /// let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    /// let trace = TraceParent::of_attributes(|name| (name == "AWSTraceHeader").then_some(xray)).unwrap();
    /// assert_eq!(trace.as_str(), "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01");
    /// assert!(trace.is_sampled());
    /// ```
    pub fn of_attributes<'a>(attribute: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let w3c = attribute(TRACEPARENT).and_then(Self::of_w3c);
        w3c.or_else(|| Self::of_xray(attribute(AWS_TRACE_HEADER)?))
    }

    /// A later version may have more parts: the four first are as here.
    fn of_w3c(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let is_known = is_hex(version, 2) && version != "ff";
        let is_whole = version != "00" || parts.next().is_none();
        let flags = u8::from_str_radix(flags, 16).ok().filter(|_| is_hex(flags, 2))?;
        Self::new(trace, span, flags & 1 == 1).filter(|_| is_known && is_whole)
    }

    /// `Root=1-TIME-REST;Parent=SPAN;Sampled=1`, in any order and with other parts between.
    fn of_xray(text: &str) -> Option<Self> {
        let part = |name: &str| {
            text.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
        };
        let trace = part("Root")?.strip_prefix("1-")?.replace('-', "");
        Self::new(&trace, part("Parent")?, part("Sampled") == Some("1"))
    }

    fn new(trace: &str, span: &str, is_sampled: bool) -> Option<Self> {
        let is_id = |id: &str, digits| is_hex(id, digits) && id.bytes().any(|digit| digit != b'0');
        let valid = is_id(trace, 32) && is_id(span, 16);
        valid.then(|| Self(format!("00-{trace}-{span}-{:02}", u8::from(is_sampled))))
    }

    /// The text of the attribute and of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether its producer records it.
    pub fn is_sampled(&self) -> bool {
        self.0.ends_with('1')
    }

    fn trace(&self) -> &str {
        &self.0[3..35]
    }

    fn span(&self) -> &str {
        &self.0[36..52]
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A send of a mail whose trace its producer records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendSpan {
    /// The mail's trace.
    pub trace: TraceParent,
    /// The mail's campaign.
    pub campaign: String,
    /// The mail's id.
    pub id: String,
    /// When the request was written.
    pub start: Timestamp,
    /// When SES answered.
    pub end: Timestamp,
    /// SES's message id, or the outcome's name.
    pub result: Result<String, &'static str>,
}

/// The spans of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSpans {
    /// The window.
    pub window: Window,
    /// A text that no other window has, from which the ids of its spans are made.
    pub token: String,
    /// When its poller began.
    pub start: Timestamp,
    /// When its poller ended.
    pub end: Timestamp,
    /// Counts of the window, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// Sends, at most [`MOST_SPANS`].
    pub sends: Vec<SendSpan>,
}

impl WindowSpans {
    /// Whether it is told: it has a send that is, or is one of the windows that are sampled.
    pub fn is_sampled(&self) -> bool {
        !self.sends.is_empty() || self.window.epoch_second().is_multiple_of(WINDOWS_SAMPLED)
    }

    /// The body of a request to an OTLP endpoint. A send is a span in its producer's trace, under the producer's span, and
    /// has a link to the window's span, which is in a trace of its own.
    pub fn to_otlp(&self, stack: &str) -> Value {
        let hash = sha256_hex(&[&self.token, "\n", &self.window.to_string()]);
        let (trace, root) = (&hash[..32], &hash[32..48]);
        let first = u64::from_str_radix(&hash[48..], 16).unwrap_or_default();
        let counts = self.counts.iter().map(|(name, count)| attribute(name, &number(*count)));
        let window = json!({
            "traceId": trace, "spanId": root, "name": "window", "kind": 1,
            "startTimeUnixNano": self.start.as_nanos().to_string(),
            "endTimeUnixNano": self.end.as_nanos().to_string(),
            "attributes": counts.collect::<Vec<_>>(),
        });
        let sends = self.sends.iter().zip(0_u64..).map(|(send, place)| {
            let id = format!("{:016x}", first.wrapping_add(place).max(1));
            let text = |text: &str| json!({ "stringValue": text });
            let mut attributes = vec![
                attribute("messaging.system", &text("aws.ses")),
                attribute("tidegate.campaign", &text(&send.campaign)),
                attribute("tidegate.id", &text(&send.id)),
            ];
            let status = match &send.result {
                Ok(ses_message_id) => {
                    attributes.push(attribute("messaging.message.id", &text(ses_message_id)));
                    json!({})
                }
                Err(outcome) => json!({ "code": 2, "message": outcome }),
            };
            json!({
                "traceId": send.trace.trace(), "spanId": id, "parentSpanId": send.trace.span(),
                "name": "send", "kind": 3,
                "startTimeUnixNano": send.start.as_nanos().to_string(),
                "endTimeUnixNano": send.end.as_nanos().to_string(),
                "attributes": attributes, "status": status,
                "links": [{ "traceId": trace, "spanId": root }],
            })
        });
        let spans: Vec<Value> = std::iter::once(window).chain(sends).collect();
        json!({ "resourceSpans": [{
            "resource": { "attributes": [attribute("service.name", &json!({ "stringValue": stack }))] },
            "scopeSpans": [{ "scope": { "name": "tidegate" }, "spans": spans }],
        }] })
    }
}

/// OTLP writes whole numbers as text.
fn number(count: u64) -> Value {
    json!({ "intValue": count.to_string() })
}

fn attribute(name: &str, value: &Value) -> Value {
    json!({ "key": name, "value": value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(name: &'static str, text: &str) -> Option<String> {
        let found = TraceParent::of_attributes(|asked| (asked == name).then_some(text));
        found.map(|trace| trace.to_string())
    }

    #[test]
    fn a_trace_is_read_from_either_header_and_one_that_is_none_is_left_out() {
        for (text, expected) in [
            (TRACE, Some(TRACE)),
            // A later version, with a part more, and another flag beside.
            (&TRACE.replace("00-0", "01-0").replace("-01", "-03-x"), Some(TRACE)),
            (&TRACE.replace("-01", "-01-x"), None),
            (&TRACE.replace("00-0", "ff-0"), None),
            (&TRACE.to_uppercase(), None),
            (&TRACE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), None),
            (&TRACE.replace("b7ad6b7169203331", &"0".repeat(16)), None),
            ("00-abc-def-01", None),
            ("", None),
        ] {
            assert_eq!(of(TRACEPARENT, text).as_deref(), expected, "{text}");
        }
        let root = "Root=1-0af76519-16cd43dd8448eb211c80319c";
        for (text, expected) in [
            (format!("Self=1-2;{root};Parent=b7ad6b7169203331;Sampled=1"), Some(TRACE.to_owned())),
            (
                format!("Sampled=0; Parent=b7ad6b7169203331; {root}"),
                Some(TRACE.replace("-01", "-00")),
            ),
            // Without a parent it is no span's.
            (root.to_owned(), None),
        ] {
            assert_eq!(of(AWS_TRACE_HEADER, &text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_trace_that_is_read_again_or_none(text in ".{0,60}|[0-9a-f-]{50,60}") {
            if let Some(trace) = of(TRACEPARENT, &text) {
                prop_assert_eq!(of(TRACEPARENT, &trace), Some(trace));
            }
        }
    }

    #[test]
    fn a_send_is_a_span_of_its_producers_trace_with_a_link_to_the_windows() {
        let at = Timestamp::from_millis;
        let send = |number: u64, result| SendSpan {
            trace: TraceParent::of_w3c(TRACE).unwrap(),
            campaign: "big".to_owned(),
            id: format!("m-{number}"),
            start: at(5_000 + number),
            end: at(5_080 + number),
            result,
        };
        let spans = WindowSpans {
            window: Window::from_epoch_second(5),
            token: "t".to_owned(),
            start: at(4_600),
            end: at(6_200),
            counts: vec![("mails", 2)],
            sends: vec![send(0, Ok("0102".to_owned())), send(1, Err("transient"))],
        };
        let body = spans.to_otlp("mail");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "mail");
        let [window, first, second] =
            resource["scopeSpans"][0]["spans"].as_array().unwrap().as_slice()
        else {
            panic!("{body}")
        };
        assert_eq!(
            window["attributes"][0],
            json!({ "key": "mails", "value": { "intValue": "2" } })
        );
        assert_eq!(window["startTimeUnixNano"], "4600000000");
        for send in [first, second] {
            assert_eq!(send["traceId"], "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(send["parentSpanId"], "b7ad6b7169203331");
            let link = json!({ "traceId": window["traceId"], "spanId": window["spanId"] });
            assert_eq!(send["links"], json!([link]));
        }
        assert_ne!(first["spanId"], second["spanId"]);
        assert_eq!((&first["status"], &second["status"]["code"]), (&json!({}), &json!(2)));
        assert!(spans.is_sampled());
        let idle = WindowSpans { sends: Vec::new(), ..spans };
        assert!(!idle.is_sampled());
        assert!(WindowSpans { window: Window::from_epoch_second(10), ..idle }.is_sampled());
    }
}
