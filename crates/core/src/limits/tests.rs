use super::*;
use crate::channel::{Channel, Content};

fn table(keys: &[&str]) -> LimitTable {
    let limit: Limit = serde_json::from_str(r#"{"rate": "5/s"}"#).unwrap();
    let changes = keys.iter().map(|key| (key.parse().unwrap(), Some(limit.clone()))).collect();
    LimitTable::of(&InitialLimits::default(), &changes)
}

/// The limits under which a message falls, each with the slots that it takes there.
fn demands(keys: &[&str], channel: Channel, body: &str) -> Vec<(String, u32)> {
    let content = Content::parse(channel, body).unwrap();
    let facts = MailFacts { campaign: "news", configuration_set: None, tenant: None };
    let table = table(keys);
    let demands = Demands::of(&content, facts, &table);
    demands.iter().map(|(of, slots)| (table.name(of), slots)).collect()
}

fn text(phone: &str) -> String {
    let text = "a".repeat(161);
    format!(r#"{{"to_phone": "{phone}", "text": "{text}", "origination": "+12065550100"}}"#)
}

#[test]
fn an_address_goes_before_its_domain() {
    let of = |from: &str| {
        let mail = format!(
            r#"{{"to": ["a@b.example", "c@b.example"], "from": "{from}", "subject": "S", "text": "T"}}"#
        );
        let keys = ["sender:example.org", "sender:news@example.org", "sender:*"];
        demands(&keys, Channel::Email, &mail)
    };
    let named = |name: &str| vec![(format!("sender:{name}"), 2)];
    assert_eq!(of("News@example.org"), named("news@example.org"));
    assert_eq!(of("shop@example.org"), named("example.org"));
    assert_eq!(of("a@other.example"), named("other.example"));
}

#[test]
fn the_longest_beginning_of_a_number_is_the_limit_of_its_country() {
    let of = |phone| {
        demands(&["country:1", "+1340", "country:49+43", "country:*"], Channel::Sms, &text(phone))
    };
    let named = |name: &str| vec![(format!("country:{name}"), 2)];
    assert_eq!(of("+12065550100"), named("1"));
    assert_eq!(of("+13405550100"), named("1340"));
    assert_eq!(of("+4312345678"), named("49"));
    assert_eq!(of("+42012345678"), named("420"));
}

#[test]
fn a_text_has_an_origin_and_no_sender() {
    let keys = ["origin:+12065550100", "sender:*", "domain:*", "campaign:news"];
    let found = demands(&keys, Channel::Sms, &text("+4312345678"));
    assert_eq!(found, [("campaign:news".to_owned(), 2), ("origin:12065550100".to_owned(), 2)]);
    let none = Vec::<(String, u32)>::new();
    assert_eq!(demands(&["origin:NEWS"], Channel::Sms, &text("+4312345678")), none);
}

#[test]
fn other_initial_limits_have_another_digest() {
    let digest = |text: &str| text.parse::<InitialLimits>().unwrap().digest();
    assert_eq!(InitialLimits::default().digest(), 0);
    assert_ne!(digest("gmail.com=10/s"), digest("gmail.com=11/s"));
}

#[test]
fn initial_limits_have_their_queues_and_others_one_that_no_initial_limit_has() {
    let limit =
        |queue| Some(Limit { queue, ..serde_json::from_str(r#"{"rate": "5/s"}"#).unwrap() });
    let changes = [("news", Some(2)), ("shop", Some(1)), ("web", None)];
    let changes = changes.map(|(name, queue)| (name.parse().unwrap(), limit(queue)));
    let initial = "gmail.com=10/s, tiny.example=6/m".parse().unwrap();
    let table = LimitTable::of(&initial, &changes.into());
    let queue = |dimension, name| table.queue_of(&table.find(dimension, name).unwrap());
    assert_eq!(
        ["gmail.com", "tiny.example"].map(|name| queue(Dimension::Domain, name)),
        [Some(0), Some(1)]
    );
    assert_eq!(
        ["news", "shop", "web"].map(|name| queue(Dimension::Campaign, name)),
        [Some(2), None, None]
    );
}

#[test]
fn notices_of_a_mail_concern_its_limits_that_follow_them() {
    let limit = |text: &str| Some(serde_json::from_str(text).unwrap());
    let adaptive = limit(r#"{"rate": "5/s", "adaptive": true}"#);
    let warm_up = limit(r#"{"ramp": {"from": "2026-11-20", "days": [30]}}"#);
    let changes =
        [("gmail.com", adaptive), ("news", warm_up), ("example.org", limit(r#"{"rate": "5/s"}"#))];
    let changes = changes.map(|(key, limit)| (key.parse().unwrap(), limit)).into();
    let table = LimitTable::of(&InitialLimits::default(), &changes);
    let tags = |campaign: &str, to: &str| {
        let mail =
            format!(r#"{{"to": "{to}", "from": "a@b.example", "subject": "S", "text": "T"}}"#);
        let content = Content::parse(Channel::Email, &mail).unwrap();
        let facts = MailFacts { campaign, configuration_set: None, tenant: None };
        table.tags(&Demands::of(&content, facts, &table))
    };
    assert_eq!(tags("news", "a@gmail.com").as_deref(), Some("gmail_com__campaign_news"));
    assert_eq!(tags("shop", "a@example.org"), None);
}
