use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::control::{Control, HoldReason, StoredControl};
use crate::rate::Rate;
use crate::timestamp::Window;

const NOW: u64 = 1_795_207_000_000;
const HOUR: u64 = 3_600_000;
const POLICY: ReputationPolicy =
    ReputationPolicy { holds: true, bounce_share: 50_000, complaint_share: 1_000, minimum: 1_000 };

/// A ledger with a clock; reviews happen at the times that a test chooses.
#[derive(Clone, Default)]
struct Ledger {
    control: Control,
    sent: BTreeMap<String, u64>,
    hours: u64,
    messages: u32,
}

impl Ledger {
    /// A ledger that was reviewed before anything was sent.
    fn new() -> Self {
        let mut ledger = Self::default();
        ledger.look();
        ledger
    }

    fn send(&mut self, campaign: &str, recipients: u64) {
        *self.sent.entry(campaign.to_owned()).or_default() += recipients;
        self.look();
    }

    fn look(&mut self) {
        self.hear(&[]);
    }

    fn hear(&mut self, heard: &[Notice]) -> usize {
        self.hear_under(&POLICY, heard)
    }

    fn hear_under(&mut self, policy: &ReputationPolicy, heard: &[Notice]) -> usize {
        let now = EpochMillis::new(NOW + self.hours * HOUR);
        review(&mut self.control, policy, &self.sent, heard, now).len()
    }

    fn messages(&mut self, kind: NoticeKind, campaign: &str, count: u32) -> Vec<Notice> {
        let first = self.messages;
        self.messages += count;
        let notice = |number: u32| Notice {
            kind,
            campaign: campaign.to_owned(),
            ses_message_id: format!("0102018f-{number}"),
            recipient: String::new(),
            slots: 1,
            limits: String::new(),
            sent_at: None,
            reason: None,
        };
        (first..first + count).map(notice).collect()
    }

    fn bounce(&mut self, campaign: &str, count: u32) {
        let heard = self.messages(NoticeKind::Bounce, campaign, count);
        self.hear(&heard);
    }

    fn complain(&mut self, campaign: &str, count: u32) {
        let heard = self.messages(NoticeKind::Complaint, campaign, count);
        self.hear(&heard);
    }

    /// Lets hours pass, with one review in each.
    fn pass(&mut self, hours: u64) {
        for _ in 0..hours {
            self.hours += 1;
            self.look();
        }
    }

    fn held(&self) -> Vec<&str> {
        let held = self.control.campaign_holds.iter();
        held.filter(|(_, holds)| holds.get(HoldReason::Reputation).is_some())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn figures(&self, campaign: &str) -> ReputationFigures {
        let reputation = self.control.reputation.as_ref().unwrap();
        reputation.campaigns[campaign].figures(sum(&self.sent, campaign))
    }
}

#[test]
fn a_campaign_is_held_from_the_share_on_and_the_others_are_not() {
    let mut ledger = Ledger::new();
    ledger.send("big", 1_000);
    ledger.send("small", 5_000);
    ledger.bounce("big", 49);
    ledger.complain("small", 4);
    assert!(ledger.held().is_empty());
    ledger.bounce("big", 1);
    assert_eq!(ledger.held(), ["big"]);
    ledger.complain("small", 1);
    assert_eq!(ledger.held(), ["big", "small"]);
    let detail = |name: &str| {
        &ledger.control.campaign_holds[name].get(HoldReason::Reputation).unwrap().detail
    };
    let said =
        "50 bounces of 1000 recipients sent to within four days are 5.00 %; 5.00 % and more hold";
    assert_eq!(detail("big"), said);
    let said =
        "5 complaints of 5000 recipients sent to within four days are 0.10 %; 0.10 % and more hold";
    assert_eq!(detail("small"), said);
}

#[test]
fn below_the_minimum_nothing_is_judged_and_at_it_without_another_bounce() {
    let mut ledger = Ledger::new();
    ledger.send("big", 999);
    ledger.bounce("big", 500);
    assert!(ledger.held().is_empty());
    ledger.send("big", 1);
    assert_eq!(ledger.held(), ["big"]);
}

#[test]
fn one_complaint_alone_holds_nothing() {
    let mut ledger = Ledger::new();
    ledger.send("big", 1_000);
    ledger.complain("big", 1);
    assert!(ledger.held().is_empty());
    ledger.complain("big", 1);
    assert_eq!(ledger.held(), ["big"]);
}

#[test]
fn what_ses_does_not_count_holds_nothing_and_is_told_apart() {
    let mut ledger = Ledger::new();
    ledger.send("big", 1_000);
    let heard = ledger.messages(NoticeKind::Suppressed, "big", 1_000);
    ledger.hear(&heard);
    assert!(ledger.held().is_empty());
    let expected = ReputationFigures { sent: 1_000, suppressed: 1_000, ..Default::default() };
    assert_eq!(ledger.figures("big"), expected);
    ledger.pass(49);
    assert_eq!(ledger.figures("big"), expected, "in the next period, too");
}

#[test]
fn a_campaign_whose_mail_ses_drops_is_held_long_before_the_minimum_and_says_why() {
    let mut ledger = Ledger::new();
    ledger.send("big", 200);
    ledger.send("small", 201);
    let reason = "Attribute 'name' is not present in the rendering data.";
    for (campaign, held) in [("small", false), ("big", true)] {
        let mut heard = ledger.messages(NoticeKind::Dropped, campaign, 10);
        for notice in &mut heard {
            notice.reason = Some(reason.to_owned());
        }
        ledger.hear(&heard[..9]);
        assert!(ledger.held().is_empty(), "nine of {campaign}");
        ledger.hear(&heard[9..]);
        assert_eq!(ledger.held(), if held { vec!["big"] } else { vec![] });
    }
    let said = format!(
        "10 dropped by SES of 200 recipients sent to within four days are 5.00 %; 5.00 % and more hold: {reason}"
    );
    let holds = &ledger.control.campaign_holds["big"];
    assert_eq!(holds.get(HoldReason::Reputation).unwrap().detail, said);
}

#[test]
fn counting_alone_holds_nothing() {
    let mut ledger = Ledger::new();
    ledger.send("big", 1_000);
    let heard = ledger.messages(NoticeKind::Bounce, "big", 1_000);
    ledger = Ledger { control: Control::default(), ..ledger };
    ledger.hear_under(&ReputationPolicy { holds: false, ..POLICY }, &heard);
    assert!(ledger.control.campaign_holds.is_empty());
    assert_eq!(ledger.figures("big").bounced, 1_000);
}

#[test]
fn a_lifted_hold_does_not_return_from_what_it_was_set_for_and_counts_anew() {
    let mut ledger = Ledger::new();
    ledger.send("big", 10_000);
    ledger.bounce("big", 600);
    assert_eq!(ledger.held(), ["big"]);
    ledger.bounce("big", 5);
    assert!(ledger.control.lift(Some("big"), HoldReason::Reputation));
    ledger.pass(50);
    assert!(ledger.held().is_empty());
    assert_eq!(ledger.figures("big"), ReputationFigures::default());
    ledger.send("big", 1_000);
    ledger.bounce("big", 49);
    assert!(ledger.held().is_empty());
    ledger.bounce("big", 1);
    assert_eq!(ledger.held(), ["big"]);
}

#[test]
fn what_was_sent_before_it_was_first_looked_at_does_not_count() {
    let mut ledger = Ledger::default();
    ledger.send("old", 100_000);
    assert_eq!(ledger.figures("old").sent, 0);
    ledger.send("new", 1_000);
    ledger.send("old", 7);
    assert_eq!((ledger.figures("new").sent, ledger.figures("old").sent), (1_000, 7));
}

#[test]
fn after_four_days_without_a_look_it_begins_anew_and_a_hold_stays_its_own() {
    let mut ledger = Ledger::new();
    ledger.send("big", 1_000);
    ledger.bounce("big", 60);
    ledger.send("small", 1_000);
    ledger.bounce("small", 40);
    ledger.hours += 96;
    ledger.send("big", 500);
    assert_eq!(ledger.held(), ["big"]);
    assert_eq!(ledger.figures("big"), ReputationFigures::default());
    assert_eq!(ledger.figures("small"), ReputationFigures::default());
    assert!(ledger.control.lift(Some("big"), HoldReason::Reputation));
    ledger.look();
    assert!(ledger.held().is_empty());
}

#[test]
fn a_message_that_comes_again_is_not_counted_again() {
    let mut ledger = Ledger::new();
    let heard = ledger.messages(NoticeKind::Complaint, "big", 100);
    assert_eq!(ledger.hear(&heard), 100);
    assert_eq!(ledger.hear(&heard), 0);
    assert_eq!(ledger.figures("big").complained, 100);
    // After 100 others the first one is forgotten, which limits the record's size: by then the ledger has its mark.
    let others = ledger.messages(NoticeKind::Bounce, "big", 100);
    assert_eq!((ledger.hear(&others), ledger.hear(&heard[..1])), (100, 1));
}

#[test]
fn a_record_that_nothing_came_back_to_is_short_and_every_record_reads_back() {
    let mut ledger = Ledger::new();
    ledger.send("big", 123_456);
    let stored = StoredControl::of(&ledger.control, 1, &BTreeMap::new()).unwrap();
    let text = serde_json::to_string(&stored.inline).unwrap();
    assert_eq!(
        text,
        r#"{"reputation":{"campaigns":{"big":{"from":0}},"since":"2026-11-20T20:36:40.000Z"}}"#
    );
    ledger.bounce("big", 9_000);
    ledger.pass(49);
    let text = serde_json::to_string(&ledger.control).unwrap();
    assert_eq!(serde_json::from_str::<Control>(&text).unwrap(), ledger.control);
}

#[test]
fn a_record_stays_small_however_much_comes_back() {
    let mut ledger = Ledger::new();
    ledger.send("big", 9_000_000);
    let policy = ReputationPolicy { holds: false, ..POLICY };
    for _ in 0..100 {
        let heard = ledger.messages(NoticeKind::Bounce, "big", 100);
        ledger.hear_under(&policy, &heard);
    }
    let text = serde_json::to_string(&ledger.control.reputation).unwrap();
    assert!(text.len() < 1_250, "{} bytes", text.len());
}

#[test]
fn a_body_that_is_no_notice_is_refused_without_showing_it() {
    let body = |kind: &str, campaign: &str, id: &str| {
        format!(r#"{{"kind": "{kind}", "campaign": "{campaign}", "id": "{id}"}}"#)
    };
    for (body, error) in [
        ("ada@example.com".to_owned(), NoticeError::Form),
        (r#"{"kind": "bounce", "campaign": , "id": "1"}"#.to_owned(), NoticeError::Form),
        (r#"{"kind": "bounce", "campaign": 7, "id": "1"}"#.to_owned(), NoticeError::Form),
        (r#"{"kind": "bounce", "id": "1"}"#.to_owned(), NoticeError::Form),
        (r#"{"kind": "bounce", "campaign": ["a", "b"], "id": "1"}"#.to_owned(), NoticeError::Form),
        (r#"{"kind": "bounce", "campaign": [], "id": "1"}"#.to_owned(), NoticeError::Form),
        (body("delivery", "big", "1"), NoticeError::Kind),
        (body("bounce", "", "1"), NoticeError::Campaign),
        (body("bounce", "ada@example.com", "1"), NoticeError::Campaign),
        (body("bounce", "big", "ada@example.com"), NoticeError::Id),
        (body("bounce", "big", &"x".repeat(129)), NoticeError::Id),
    ] {
        assert_eq!(Notice::parse(&body), Err(error), "{body}");
        assert!(!error.to_string().contains('@'));
    }
    let more = r#"{"kind": "complaint", "campaign": "express", "id": "1", "feedback": "abuse"}"#;
    assert_eq!(Notice::parse(more).unwrap()[0].kind, NoticeKind::Complaint);
}

#[test]
fn the_events_are_notices() {
    let sent_at = Some(EpochMillis::new(1_795_206_967_042));
    let dropped = "Attribute 'name' is not present in the rendering data.";
    for (body, kind, (limits, recipients, reason)) in [
        (include_str!("../../../../../events/bounce.json"), NoticeKind::Bounce, ("", 2, None)),
        (
            include_str!("../../../../../events/complaint.json"),
            NoticeKind::Complaint,
            ("", 1, None),
        ),
        (
            include_str!("../../../../../events/deferral.json"),
            NoticeKind::Deferral,
            ("gmail_com", 1, None),
        ),
        (
            include_str!("../../../../../events/suppressed.json"),
            NoticeKind::Suppressed,
            ("", 1, None),
        ),
        (
            include_str!("../../../../../events/dropped.json"),
            NoticeKind::Dropped,
            ("", 1, Some(dropped)),
        ),
    ] {
        let notices = Notice::parse(body).unwrap();
        assert_eq!(notices.len(), recipients);
        for notice in notices {
            assert_eq!((notice.kind, &*notice.campaign), (kind, "spring"));
            assert_eq!((&*notice.limits, notice.sent_at), (limits, sent_at));
            assert_eq!(notice.reason.as_deref(), reason);
        }
    }
}

#[test]
fn a_dropped_mail_is_one_event_that_counts_for_all_of_its_recipients() {
    let body = r#"{"kind": "dropped", "campaign": "big", "id": "1", "recipients": ["a@x", "b@x"]}"#;
    let notices = Notice::parse(body).unwrap();
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].slots, notices[0].identity()), (2, dropped_identity("1")));
}

#[test]
fn an_event_is_the_same_by_message_kind_and_recipient_and_by_nothing_else() {
    let identities = |kind: &str, id: &str, to: &str| {
        let body = format!(
            r#"{{"kind": "{kind}", "campaign": "big", "id": "{id}", "recipients": [{to}]}}"#
        );
        let notices = Notice::parse(&body).unwrap();
        notices.iter().map(|notice| (notice.identity(), notice.mark())).collect::<Vec<_>>()
    };
    let first = identities("bounce", "1", r#"{"emailAddress": "Ada <Ada@example.com>"}"#);
    assert_eq!(first, identities("bounce", "1", r#""ada@example.com""#));
    for other in [
        identities("complaint", "1", r#""ada@example.com""#),
        identities("bounce", "2", r#""ada@example.com""#),
        identities("bounce", "1", r#""bob@example.com""#),
        identities("bounce", "1", ""),
    ] {
        assert!(other.len() == 1 && other[0].0 != first[0].0 && other[0].1 != first[0].1);
    }
    let both =
        identities("bounce", "1", r#""ada@example.com", "bob@example.com", "Ada@example.com""#);
    assert!(both.len() == 2 && both[0] == first[0]);
    assert!(!first[0].0.as_str().contains("ada"), "a mark tells no address");
}

#[test]
fn a_texts_receipt_is_a_notice_where_it_says_something_of_the_list() {
    let event = include_str!("../../../../../events/text_receipt.json");
    let kind = |event_type: &str| {
        let body = event.replace("TEXT_UNREACHABLE", event_type);
        Notice::parse(&body).map(|notices| notices[0].kind)
    };
    let notice = Notice::parse(event).unwrap().remove(0);
    assert_eq!((notice.kind, &*notice.campaign), (NoticeKind::Bounce, "spring"));
    assert_eq!(
        (&*notice.limits, &*notice.ses_message_id),
        ("campaign_spring", "862a8790-60c0-4430-9b2b-658bdexample")
    );
    assert_eq!((notice.sent_at, notice.slots), (Some(EpochMillis::new(1_795_206_967_042)), 2));
    for bounce in ["TEXT_INVALID", "TEXT_UNREACHABLE", "TEXT_BLOCKED"] {
        assert_eq!(kind(bounce), Ok(NoticeKind::Bounce), "{bounce}");
    }
    for complaint in ["TEXT_SPAM", "TEXT_CARRIER_BLOCKED"] {
        assert_eq!(kind(complaint), Ok(NoticeKind::Complaint), "{complaint}");
    }
    assert_eq!(kind("TEXT_CARRIER_UNREACHABLE"), Ok(NoticeKind::Deferral));
    for silent in ["TEXT_DELIVERED", "TEXT_SUCCESSFUL", "TEXT_PENDING", "TEXT_UNKNOWN"] {
        assert_eq!(kind(silent), Err(NoticeError::Kind), "{silent}");
    }
    let foreign = event.replace("tidegate_campaign", "campaign");
    assert_eq!(Notice::parse(&foreign), Err(NoticeError::Campaign));
}

#[test]
fn a_warm_ups_day_counts_each_kind_of_notice_apart() {
    let mut ledger = Ledger::new();
    let limit = r#"{"ramp": {"from": "2026-11-20", "days": [1000, 2000]}}"#;
    let limit = serde_json::from_str(limit).unwrap();
    ledger.control.limits.insert("campaign:big".parse().unwrap(), Some(limit));
    let kinds = [(NoticeKind::Bounce, 3), (NoticeKind::Complaint, 2), (NoticeKind::Deferral, 4)];
    for (kind, count) in kinds.into_iter().chain([(NoticeKind::Suppressed, 5)]) {
        let mut heard = ledger.messages(kind, "big", count);
        for notice in &mut heard {
            notice.limits = "campaign_big".to_owned();
        }
        let heard: Vec<&Notice> = heard.iter().collect();
        let now = Window::containing(EpochMillis::new(NOW).into());
        adapt(&mut ledger.control, &heard, Rate::per_second(100.0).unwrap(), now);
    }
    let tally = &ledger.control.reputation.as_ref().unwrap().ramps["campaign_big"];
    assert_eq!([tally.bounces, tally.complaints, tally.deferrals], [3, 2, 4]);
}

#[test]
fn marks_of_different_notices_differ() {
    let heard = Ledger::new().messages(NoticeKind::Bounce, "big", 10_000);
    let marks: BTreeSet<u32> = heard.iter().map(Notice::mark).collect();
    assert!(marks.len() > 9_990, "{}", marks.len());
}

proptest! {
    #[test]
    fn a_campaign_is_held_exactly_where_its_share_is_reached(
        sent in 0_u64..1_000_000, bounced in 0_u64..60_000, complained in 0_u64..1_200,
        suppressed in 0_u64..60_000, dropped in 0_u64..60_000,
        bounce_share in 1_000_u64..=1_000_000, complaint_share in 100_u64..=1_000_000,
        minimum in 100_u64..=1_000_000,
    ) {
        let policy = ReputationPolicy { holds: true, bounce_share, complaint_share, minimum };
        let too_many = |events: u64, share: u64| {
            sent >= minimum && events >= 2 && events * 1_000_000 >= share * sent
        };
        let drops = dropped >= 10 && dropped * 1_000_000 >= bounce_share * sent;
        let expected =
            too_many(bounced, bounce_share) || too_many(complained, complaint_share) || drops;
        let figures = ReputationFigures { sent, bounced, complained, suppressed, dropped };
        let verdict = policy.verdict(&figures);
        prop_assert_eq!(verdict.is_some(), expected);
        prop_assert!(verdict.is_none_or(|detail| detail.chars().count() < 128));
    }

    /// However the messages are divided into rounds, with repeated rounds too, each counts once.
    #[test]
    fn rounds_and_repeated_rounds_count_every_message_once(
        kinds in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..300),
        rounds in proptest::collection::vec((1_usize..=REMEMBERED, 1_usize..4), 300),
    ) {
        let mut ledger = Ledger::new();
        let mut left: Vec<Notice> = Vec::new();
        for (big, bounce) in &kinds {
            let campaign = if *big { "big" } else { "small" };
            let kind = if *bounce { NoticeKind::Bounce } else { NoticeKind::Complaint };
            left.extend(ledger.messages(kind, campaign, 1));
        }
        let mut rounds = rounds.iter();
        while !left.is_empty() {
            let (size, times) = rounds.next().unwrap();
            let round: Vec<Notice> = left.drain(..(*size).min(left.len())).collect();
            for _ in 0..*times {
                ledger.hear(&round);
            }
        }
        for (campaign, is_big) in [("big", true), ("small", false)] {
            let of = |bounce| {
                kinds.iter().filter(|(big, b)| *big == is_big && *b == bounce).count() as u64
            };
            let tallies = &ledger.control.reputation.as_ref().unwrap().campaigns;
            let tally = tallies.get(campaign).cloned().unwrap_or_default();
            prop_assert_eq!((tally.running.bounced, tally.running.complained), (of(true), of(false)));
        }
    }

    /// Sent and bounced mail of the last two days counts; mail older than four days does not.
    #[test]
    fn what_counts_is_of_the_last_two_to_four_days(
        hours in proptest::collection::vec((0_u64..400, 0_u32..20), 1..240),
    ) {
        let mut ledger = Ledger::new();
        for (sent, bounced) in &hours {
            ledger.send("big", *sent);
            let policy = ReputationPolicy { holds: false, ..POLICY };
            let heard = ledger.messages(NoticeKind::Bounce, "big", *bounced);
            ledger.hear_under(&policy, &heard);
            ledger.hours += 1;
            ledger.hear_under(&policy, &[]);
        }
        let last = |count: usize| {
            let last = hours.iter().rev().take(count);
            last.fold((0, 0), |(s, b), (sent, bounced)| (s + sent, b + u64::from(*bounced)))
        };
        let ReputationFigures { sent, bounced, .. } = ledger.figures("big");
        prop_assert!((last(47).0..=last(96).0).contains(&sent), "{} sent", sent);
        prop_assert!((last(47).1..=last(96).1).contains(&bounced), "{} bounced", bounced);
    }

    /// Notices of one campaign never hold another, and counts below the shares hold none.
    #[test]
    fn whatever_is_done_only_what_reached_its_share_is_held(
        steps in proptest::collection::vec((0_u8..6, 0_u32..400), 1..80),
    ) {
        let mut ledger = Ledger::new();
        ledger.send("calm", 2_000);
        for (step, count) in steps {
            for _ in 0..if step == 4 { count / 10 } else { 1 } {
                let held_before = ledger.held() == ["big"];
                let mut lifted = false;
                match step {
                    0 | 1 => ledger.send("big", u64::from(count) * 10),
                    2 => ledger.bounce("big", count),
                    3 => ledger.complain("big", count / 50),
                    4 => ledger.pass(1),
                    _ => {
                        lifted = ledger.control.lift(Some("big"), HoldReason::Reputation);
                        ledger.look();
                    }
                }
                let reached = POLICY.verdict(&ledger.figures_or_none("big")).is_some();
                let held = ledger.held();
                prop_assert!(!held.contains(&"calm"));
                prop_assert_eq!(held == ["big"], (held_before && !lifted) || reached);
                prop_assert!(!(lifted && reached), "it returned from what it was lifted for");
            }
        }
    }
}

impl Ledger {
    fn figures_or_none(&self, campaign: &str) -> ReputationFigures {
        let tallies = &self.control.reputation.as_ref().unwrap().campaigns;
        tallies.get(campaign).map_or_else(ReputationFigures::default, |_| self.figures(campaign))
    }
}
