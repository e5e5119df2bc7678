//! Events for what SES does not tell: mail that it was not given, holds, incidents and runs that are over.
//!
//! EventBridge gets them from the source [`SOURCE`]. With SES's own events, whose tag `tidegate_id` is the same, a program
//! knows what became of every mail. `events/schemas` has the form of each.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use strum::IntoStaticStr;

use crate::email::ses_tag_value;
use crate::identity::{EpochMillis, Identity};
use crate::incidents::IncidentChanges;
use crate::runs::Run;

/// The source of all events.
pub const SOURCE: &str = "tidegate";
/// The most mails of an event: ten such events, the most of a call, stay below its 256 KB
/// (<https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html>), and each below the 64 KB that are
/// billed as one event.
pub const MAILS: usize = 50;

/// An event, as EventBridge gets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackEvent {
    /// The kind, such as `Mail Dead-Lettered`.
    pub detail_type: &'static str,
    /// The stack's name, and what the kind's schema says.
    pub detail: Value,
}

/// Why a mail is on no queue any more though it was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
pub enum FateKind {
    /// It is among the dead letters.
    #[strum(serialize = "Mail Dead-Lettered")]
    DeadLettered,
    /// An operator cancelled it; where the cancel keeps it, it is among the dead letters.
    #[strum(serialize = "Mail Cancelled")]
    Cancelled,
    /// A recipient is on the exclusion list.
    #[strum(serialize = "Mail Excluded")]
    Excluded,
}

/// One mail that is gone unsent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailFate {
    /// Why it is gone.
    pub kind: FateKind,
    /// The mail's campaign.
    pub campaign: String,
    /// The mail's identity, which its events at SES name by its hash or id.
    pub identity: Identity,
    /// The dead letter's code, such as `MessageRejected`; none without a dead letter.
    pub code: Option<String>,
}

/// The events of a window's mails: each of one kind and campaign, with at most [`MAILS`] of them.
///
/// ```
/// use tidegate_core::events::{FateKind, MailFate, of_mails};
/// use tidegate_core::identity::Identity;
/// let identity = Identity::from_body_id("spring", "order 7");
/// let kind = FateKind::Excluded;
/// let events = of_mails("mail", [MailFate { kind, campaign: "spring".into(), identity, code: None }]);
/// assert_eq!(events[0].detail_type, "Mail Excluded");
/// assert_eq!(events[0].detail["campaign"], "spring");
/// ```
pub fn of_mails(stack: &str, fates: impl IntoIterator<Item = MailFate>) -> Vec<StackEvent> {
    let mut mails: BTreeMap<(FateKind, String), Vec<Value>> = BTreeMap::new();
    for MailFate { kind, campaign, identity, code } in fates {
        let mut mail = json!({ "tidegate_id": ses_tag_value(identity.id().as_ref()) });
        if let Some(code) = code {
            mail["code"] = code.into();
        }
        mails.entry((kind, campaign)).or_default().push(mail);
    }
    let events = mails.iter().flat_map(|((kind, campaign), mails)| {
        mails.chunks(MAILS).map(move |mails| StackEvent {
            detail_type: kind.into(),
            detail: json!({ "stack": stack, "campaign": campaign, "mails": mails }),
        })
    });
    events.collect()
}

/// The events of incidents that begin and that are over; those of holds have a kind of their own.
pub fn of_incidents(stack: &str, changes: &IncidentChanges) -> Vec<StackEvent> {
    let event = |name: &str, hold, incident, said: Value| {
        let mut detail = json!({ "stack": stack, "name": name });
        let held = name.strip_prefix("held.");
        if let Some((reason, campaign)) = held.and_then(|rest| rest.split_once('.')) {
            detail["reason"] = reason.into();
            detail["campaign"] = campaign.into();
        } else if let Some(reason) = held {
            detail["reason"] = reason.into();
        }
        if let (Value::Object(detail), Value::Object(said)) = (&mut detail, said) {
            detail.extend(said);
        }
        StackEvent { detail_type: if held.is_some() { hold } else { incident }, detail }
    };
    let begun = changes
        .begun
        .iter()
        .map(|(name, text)| event(name, "Hold Begun", "Incident Begun", json!({ "text": text })));
    let ended = changes.ended.iter().map(|(name, since)| {
        event(name, "Hold Lifted", "Incident Over", json!({ "since": since.to_string() }))
    });
    begun.chain(ended).collect()
}

/// The event of a run that is over.
pub fn of_run(stack: &str, run: &Run, at: EpochMillis) -> StackEvent {
    let Run { campaign, name, enqueued, .. } = run;
    let detail = json!({
        "stack": stack, "campaign": campaign, "run": name, "rows": run.input.rows, "enqueued": enqueued,
        "began": run.began.to_string(), "finished": at.to_string(),
    });
    StackEvent { detail_type: "Run Finished", detail }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use boon::{Compiler, Schemas};

    use super::*;
    use crate::runs::{RunInput, RunSender};

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events");

    /// Each kind with its example and its schema.
    const EXAMPLES: [(&str, &str, &str); 8] = [
        ("Mail Dead-Lettered", "outcome_dead_lettered.json", "mails.json"),
        ("Mail Cancelled", "outcome_cancelled.json", "mails.json"),
        ("Mail Excluded", "outcome_excluded.json", "mails.json"),
        ("Hold Begun", "outcome_hold_begun.json", "hold.json"),
        ("Hold Lifted", "outcome_hold_lifted.json", "hold.json"),
        ("Incident Begun", "outcome_incident_begun.json", "incident.json"),
        ("Incident Over", "outcome_incident_over.json", "incident.json"),
        ("Run Finished", "outcome_run_finished.json", "run.json"),
    ];

    fn at(text: &str) -> EpochMillis {
        text.parse().unwrap()
    }

    fn fate(kind: FateKind, id: &str, code: Option<&str>) -> MailFate {
        let (campaign, identity) = ("spring".to_owned(), Identity::from_body_id("spring", id));
        MailFate { kind, campaign, identity, code: code.map(str::to_owned) }
    }

    fn changes(name: &str, text: &str) -> [IncidentChanges; 2] {
        let begun = [(name.to_owned(), text.to_owned())].into();
        let ended = [(name.to_owned(), at("2026-11-20T20:36:07.042Z"))].into();
        [
            IncidentChanges { begun, ..IncidentChanges::default() },
            IncidentChanges { ended, ..IncidentChanges::default() },
        ]
    }

    /// One event of each kind.
    fn all() -> Vec<StackEvent> {
        let mut events = of_mails(
            "mail",
            [
                fate(FateKind::Excluded, "welcome-4713", None),
                fate(FateKind::DeadLettered, "welcome-4711", Some("MessageRejected")),
                fate(FateKind::Cancelled, "welcome-4712", None),
                fate(FateKind::DeadLettered, "order 7", Some("MissingMember")),
            ],
        );
        let held = changes("held.reputation.spring", "the campaign spring is held: reputation");
        let missed =
            changes("windows-missed", "seconds pass that no poller serves: ticks are lost or late");
        for changes in held.iter().chain(&missed) {
            events.extend(of_incidents("mail", changes));
        }
        let input = RunInput { rows: 500, ..RunInput::default() };
        let began = at("2026-11-20T19:36:07.042Z");
        let run = Run::new("spring", "news", input, RunSender::default(), began);
        let run = Run { enqueued: 499, ..run };
        events.push(of_run("mail", &run, at("2026-11-20T20:36:07.042Z")));
        events
    }

    #[test]
    fn every_kind_of_event_has_its_example_and_keeps_its_schema() {
        for event in all() {
            let (_, example, schema) =
                EXAMPLES.into_iter().find(|(kind, ..)| *kind == event.detail_type).unwrap();
            let example = fs::read_to_string(format!("{FOLDER}/{example}")).unwrap();
            let example: Value = serde_json::from_str(&example).unwrap();
            assert_eq!(example["detail-type"], event.detail_type);
            assert_eq!((&example["source"], &example["detail"]), (&SOURCE.into(), &event.detail));
            let mut schemas = Schemas::new();
            let mut compiler = Compiler::new();
            compiler.enable_format_assertions();
            let path = format!("{FOLDER}/schemas/{schema}");
            let schema = compiler.compile(&path, &mut schemas).unwrap();
            schemas.validate(&example, schema).map_err(|error| error.to_string()).unwrap();
        }
        let mut kinds: Vec<&str> = all().iter().map(|event| event.detail_type).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), EXAMPLES.len());
    }

    #[test]
    fn mails_stand_together_by_kind_and_campaign_and_fifty_at_most() {
        let id = |number: usize| fate(FateKind::Excluded, &number.to_string(), None);
        let express = MailFate { campaign: "express".to_owned(), ..id(0) };
        let events = of_mails("mail", (1..=101).map(id).chain([express]));
        let told = events.iter().map(|event| {
            (event.detail["campaign"].as_str().unwrap(), event.detail["mails"].as_array().unwrap())
        });
        let sizes: Vec<_> = told.map(|(campaign, mails)| (campaign, mails.len())).collect();
        assert_eq!(sizes, [("express", 1), ("spring", 50), ("spring", 50), ("spring", 1)]);
        assert_eq!(events[2].detail["mails"][0]["tidegate_id"], "51");
    }

    #[test]
    fn a_hold_of_all_sending_has_a_reason_and_no_campaign() {
        let [begun, _] = changes("held.account", "all sending is held: account");
        let event = of_incidents("mail", &begun).remove(0);
        assert_eq!((event.detail_type, &event.detail["reason"]), ("Hold Begun", &"account".into()));
        assert_eq!(event.detail["campaign"], Value::Null);
    }
}
