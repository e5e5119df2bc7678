use super::*;

fn targets(names: &[&str]) -> Targets {
    let campaign = |name: &&str| Campaign {
        name: (*name).to_owned(),
        queue_url: format!("https://sqs.example/1/{name}"),
        weight: 1,
        tenant: None,
        priority_queues: BTreeMap::new(),
    };
    Targets {
        campaigns: names.iter().map(campaign).collect(),
        express: Some(QueueUrl::new("https://sqs.example/1/express")),
        default: None,
    }
}

fn rules() -> CampaignRules {
    serde_json::from_str(
        r#"{"configuration_sets": {"receipts": "express"}, "users": {"shop": "orders.high"},
            "senders": {"example.org": "news", "alerts@example.org": "orders"}}"#,
    )
    .unwrap()
}

fn chosen(hints: CampaignHints<'_>, targets: &Targets) -> (String, Option<Priority>) {
    let choice = rules().choose(hints, targets).unwrap();
    (choice.campaign, choice.priority)
}

#[test]
fn the_first_that_says_something_chooses() {
    let targets = targets(&["news", "orders", "big"]);
    let all = CampaignHints {
        named: Some("big.low"),
        configuration_set: Some("receipts"),
        user: Some("shop"),
        sender: "Any@Example.org",
    };
    assert_eq!(chosen(all, &targets), ("big".to_owned(), Some(Priority::Low)));
    let unnamed = CampaignHints { named: None, ..all };
    assert_eq!(chosen(unnamed, &targets), ("express".to_owned(), None));
    let by_user = CampaignHints { configuration_set: Some("other"), ..unnamed };
    assert_eq!(chosen(by_user, &targets), ("orders".to_owned(), Some(Priority::High)));
    let by_domain = CampaignHints { user: None, ..by_user };
    assert_eq!(chosen(by_domain, &targets).0, "news");
    let by_address = CampaignHints { sender: "alerts@example.org", ..by_domain };
    assert_eq!(chosen(by_address, &targets).0, "orders");
    let by_its_name = CampaignHints { user: Some("big"), ..by_address };
    assert_eq!(chosen(by_its_name, &targets).0, "big");
}

#[test]
fn the_only_campaign_takes_what_nobody_names_and_of_several_the_default() {
    let stranger = CampaignHints { sender: "a@example.net", ..CampaignHints::default() };
    assert_eq!(chosen(stranger, &targets(&["solo"])).0, "solo");
    let several = targets(&["news", "orders"]);
    let error = rules().choose(stranger, &several).unwrap_err().to_string();
    assert!(error.ends_with("allowed is one of: news, orders, express"), "{error}");
    let default = Targets { default: Some("orders".to_owned()), ..several };
    assert_eq!(chosen(stranger, &default).0, "orders");
}

#[test]
fn a_campaign_that_is_not_there_is_refused_with_those_that_are() {
    let targets = targets(&["news", "orders"]);
    for name in ["nwes", "news.highest", "news.high.low", ""] {
        let hints = CampaignHints { named: Some(name), ..CampaignHints::default() };
        let error = rules().choose(hints, &targets).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("news, orders"), "{error}");
    }
    let check = |others: &[&'static str], targets: &Targets| {
        let others = others.iter().map(|name| (*name, "a key pair".to_owned()));
        rules().check(others, targets).map_err(|fault| fault.to_string())
    };
    assert_eq!(check(&["news", "express"], &targets), Ok(()));
    assert!(check(&["nwes"], &targets).unwrap_err().contains("a key pair names"));
    let fewer = Targets { campaigns: Vec::new(), ..targets };
    assert!(check(&[], &fewer).unwrap_err().contains("the rule for shop"));
}
