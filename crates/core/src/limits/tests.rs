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
