use proptest::prelude::*;

use super::*;

const PREFIX: &str = "mail-campaign-";

/// The listing if the tags of all queues could be read.
fn listing(prefix: &str, queues: &[TaggedQueue], before: &[Campaign]) -> Listing {
    super::listing(prefix, queues, &BTreeSet::new(), before)
}

#[test]
fn a_queue_that_was_not_asked_stays_as_it_stood() {
    let before = [campaign("old", "old", 1), campaign("gone", "gone", 1)];
    let unasked = ["mail-campaign-old".to_owned(), "mail-campaign-new".to_owned()].into();
    let found = super::listing(PREFIX, &[weighted("other", "7")], &unasked, &before);
    let names: Vec<String> = found.campaigns.unwrap().into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["old", "other"]);
}

fn url(name: &str) -> String {
    format!("https://sqs.example/1/{PREFIX}{name}")
}

fn queue(name: &str, tags: &[(&str, &str)]) -> TaggedQueue {
    let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TaggedQueue { url: url(name), tags: tags.collect() }
}

fn weighted(name: &str, weight: &str) -> TaggedQueue {
    queue(name, &[(WEIGHT_TAG, weight)])
}

fn campaign(name: &str, queue: &str, weight: u32) -> Campaign {
    let (name, queue_url) = (name.to_owned(), url(queue));
    Campaign { name, queue_url, weight, ..Campaign::default() }
}

fn found(queues: &[TaggedQueue], before: &[Campaign]) -> Vec<Campaign> {
    listing(PREFIX, queues, before).campaigns.unwrap()
}

#[test]
fn a_queue_with_a_weight_is_a_campaign_and_one_without_is_none() {
    let queues = [
        queue("b", &[(WEIGHT_TAG, "30"), ("team", "news")]),
        queue("second", &[(WEIGHT_TAG, "10000"), (CAMPAIGN_TAG, "a")]),
        queue("named", &[(CAMPAIGN_TAG, "c")]),
        queue("of-acme", &[(WEIGHT_TAG, "10"), (TENANT_TAG, "acme_EU-1")]),
        queue("plain", &[("team", "news")]),
    ];
    let listing = listing(PREFIX, &queues, &[]);
    let tenant = Some("acme_EU-1".to_owned());
    let of_acme = Campaign { tenant, ..campaign("of-acme", "of-acme", 10) };
    let expected = [campaign("a", "second", 10_000), campaign("b", "b", 30), of_acme];
    assert_eq!(listing, Listing { campaigns: Ok(expected.to_vec()), invalid: vec![] });
}

#[test]
fn an_invalid_tag_is_told_with_queue_tag_value_and_what_is_allowed() {
    let long = "n".repeat(65);
    let weights = ["", "0", "10001", "-1", "+5", "1.5", " 7", "many", "99999999999999999999"];
    let weights = weights.map(|weight| (weighted("q", weight), "tag tidegate:weight", weight));
    let names = ["", "a b", "express", "é", "a/b", &long];
    let named = |name: &str| queue("q", &[(WEIGHT_TAG, "5"), (CAMPAIGN_TAG, name)]);
    let names = names.map(|name| (named(name), "tag tidegate:campaign", name));
    let by_name = ["", "express"];
    let by_name = by_name.map(|name| (weighted(name, "5"), "the name after the prefix", name));
    let tenants = ["", "acme corp", "acme/eu", &long];
    let tenanted = |tenant: &str| queue("q", &[(WEIGHT_TAG, "5"), (TENANT_TAG, tenant)]);
    let tenants = tenants.map(|tenant| (tenanted(tenant), "tag tidegate:tenant", tenant));
    let names = names.into_iter().chain(tenants);
    let fifo = (weighted("q.fifo", "5"), "the name", "mail-campaign-q.fifo");
    for (queue, what, value) in weights.into_iter().chain(names).chain(by_name).chain([fifo]) {
        let listing = listing(PREFIX, &[weighted("other", "7"), queue.clone()], &[]);
        assert_eq!(listing.campaigns, Ok(vec![campaign("other", "other", 7)]), "{value:?}");
        let fault = &listing.invalid[0];
        assert!(!fault.kept, "{fault}");
        let said = format!("queue {}: {what} is {value:?}; allowed is ", queue_name(&queue.url));
        assert!(fault.to_string().starts_with(&said), "{fault}");
    }
}

#[test]
fn a_queue_whose_tags_went_wrong_stays_as_it_stood() {
    let before = [campaign("spring", "q", 30), campaign("other", "other", 7)];
    for wrong in [
        weighted("q", "lots"),
        queue("q", &[(WEIGHT_TAG, "40"), (CAMPAIGN_TAG, "not so")]),
        queue("q", &[(WEIGHT_TAG, "0"), (CAMPAIGN_TAG, "autumn")]),
    ] {
        let listing = listing(PREFIX, &[wrong, weighted("other", "8")], &before);
        let expected = vec![campaign("other", "other", 8), campaign("spring", "q", 30)];
        assert_eq!(listing.campaigns, Ok(expected));
        assert!(listing.invalid[0].kept);
    }
}

fn urgent(name: &str, campaign: &str, priority: &str) -> TaggedQueue {
    queue(name, &[(CAMPAIGN_TAG, campaign), (PRIORITY_TAG, priority)])
}

fn with(campaign: Campaign, queues: &[(Priority, &str)]) -> Campaign {
    let priority_queues = queues.iter().map(|(priority, queue)| (*priority, url(queue)));
    Campaign { priority_queues: priority_queues.collect(), ..campaign }
}

#[test]
fn a_queue_with_a_priority_belongs_to_the_campaign_that_it_names() {
    let queues = [urgent("news-1", "news", "high"), weighted("news", "3"), weighted("other", "7")];
    let news = with(campaign("news", "news", 3), &[(Priority::High, "news-1")]);
    let expected = vec![news, campaign("other", "other", 7)];
    let listed = listing(PREFIX, &queues, &[]);
    assert_eq!(listed, Listing { campaigns: Ok(expected.clone()), invalid: vec![] });
    // It stays while nobody asked it, or its tag is wrong, and goes with its tag.
    let unasked = ["mail-campaign-news-1".to_owned()].into();
    let kept = super::listing(PREFIX, &queues[1..], &unasked, &expected);
    assert_eq!(kept.campaigns, Ok(expected.clone()));
    let wrong = [urgent("news-1", "news", "urgent"), weighted("news", "3"), weighted("other", "7")];
    let kept = listing(PREFIX, &wrong, &expected);
    assert_eq!((kept.campaigns, kept.invalid[0].kept), (Ok(expected.clone()), true));
    let gone = found(&[queue("news-1", &[]), weighted("news", "3")], &expected);
    assert_eq!(gone, [campaign("news", "news", 3)]);
}

#[test]
fn a_priority_queue_that_no_campaign_can_have_is_told() {
    for (queue, said) in [
        (
            urgent("q", "nobody", "high"),
            r#"tag tidegate:campaign is "nobody"; allowed is the name"#,
        ),
        (
            queue("q", &[(PRIORITY_TAG, "high")]),
            r#"tag tidegate:campaign is ""; allowed is 1 to 64"#,
        ),
        (
            urgent("q", "news", "normal"),
            r#"tag tidegate:priority is "normal"; allowed is critical"#,
        ),
        (urgent("q", "news", "low"), r#"tag tidegate:priority is "low"; allowed is critical"#),
    ] {
        let queues = [weighted("news", "3"), urgent("a", "news", "low"), queue];
        let listing = listing(PREFIX, &queues, &[]);
        let expected = with(campaign("news", "news", 3), &[(Priority::Low, "a")]);
        assert_eq!(listing.campaigns, Ok(vec![expected]), "{said}");
        let fault = listing.invalid[0].to_string();
        assert!(fault.contains(said), "{fault}");
    }
}

#[test]
fn what_gives_no_list_is_refused_as_a_whole() {
    let refused = |queues: &[TaggedQueue]| {
        listing(PREFIX, queues, &[campaign("old", "old", 1)]).campaigns.unwrap_err()
    };
    for none in [&[][..], &[queue("old", &[])]] {
        assert!(refused(none).to_string().contains("no queue carries a valid tag"));
    }
    let twice = [weighted("a", "1"), queue("b", &[(WEIGHT_TAG, "2"), (CAMPAIGN_TAG, "a")])];
    assert_eq!(
        refused(&twice).to_string(),
        "campaign a is both queue mail-campaign-a and queue mail-campaign-b; allowed is one queue"
    );
    let heavy = [weighted("a", "9999"), weighted("b", "2")];
    assert!(refused(&heavy).to_string().contains("a sum of at most 10000"));
    let many: Vec<_> = (0..1_001).map(|n| weighted(&n.to_string(), "1")).collect();
    let said = refused(&many).to_string();
    assert!(
        said.starts_with("1001 queues are tagged as campaigns; allowed are at most 1000"),
        "{said}"
    );
    assert_eq!(found(&many[1..], &[]).len(), 1_000);
}

/// Tags as people write them: correct, wrong, or missing.
fn queues() -> impl Strategy<Value = Vec<TaggedQueue>> {
    let weight = prop_oneof![
        6 => (1_u32..=200).prop_map(|weight| Some(weight.to_string())),
        1 => Just(None),
        1 => "[a-z0-9.+-]{0,6}".prop_map(Some),
    ];
    let name = prop_oneof![
        6 => Just(None),
        2 => "[a-d]{1,2}".prop_map(Some),
        1 => ".{0,3}".prop_map(Some),
    ];
    let priority = prop_oneof![
        6 => Just(None),
        3 => prop_oneof!["critical", "high", "low"].prop_map(Some),
        1 => ".{0,3}".prop_map(Some),
    ];
    let tags = (weight, name, priority).prop_map(|(weight, name, priority)| {
        let tag = |key: &str, value: Option<String>| value.map(|value| (key.to_owned(), value));
        let tags = [tag(WEIGHT_TAG, weight), tag(CAMPAIGN_TAG, name), tag(PRIORITY_TAG, priority)];
        tags.into_iter().flatten().collect()
    });
    let queue = ("[a-z]{1,3}", tags);
    prop::collection::btree_map(queue.0, queue.1, 0..8).prop_map(|queues| {
        queues.into_iter().map(|(name, tags)| TaggedQueue { url: url(&name), tags }).collect()
    })
}

/// A list that any earlier run may have left.
fn before() -> impl Strategy<Value = Vec<Campaign>> {
    queues().prop_map(|queues| listing(PREFIX, &queues, &[]).campaigns.unwrap_or_default())
}

proptest! {
    #[test]
    fn whatever_the_tags_say_a_list_is_one_that_pollers_take(queues in queues(), before in before()) {
        if let Ok(list) = listing(PREFIX, &queues, &before).campaigns {
            prop_assert!(Campaign::valid(&list), "{list:?}");
        }
    }

    #[test]
    fn the_order_in_which_queues_are_listed_says_nothing(
        queues in queues(), before in before(), turn in 0_usize..8,
    ) {
        let mut turned = queues.clone();
        turned.rotate_left(turn % queues.len().max(1));
        turned.reverse();
        prop_assert_eq!(
            listing(PREFIX, &queues, &before).campaigns, listing(PREFIX, &turned, &before).campaigns
        );
    }

    #[test]
    fn tags_that_do_not_change_change_nothing(queues in queues(), before in before()) {
        if let Ok(list) = listing(PREFIX, &queues, &before).campaigns {
            prop_assert_eq!(listing(PREFIX, &queues, &list).campaigns, Ok(list));
        }
    }

    #[test]
    fn one_bad_tag_takes_no_campaign_away(
        queues in queues(), at in any::<prop::sample::Index>(), value in "[a-z]{0,4}",
    ) {
        let Ok(before) = listing(PREFIX, &queues, &[]).campaigns else { return Ok(()) };
        let mut broken = queues;
        let tags = &mut at.get_mut(&mut broken).tags;
        let tag = if tags.contains_key(PRIORITY_TAG) { PRIORITY_TAG } else { WEIGHT_TAG };
        tags.insert(tag.to_owned(), format!("{value}!"));
        let after = listing(PREFIX, &broken, &before);
        prop_assert_eq!(after.campaigns, Ok(before));
        prop_assert!(!after.invalid.is_empty());
    }

    #[test]
    fn a_list_is_the_same_in_any_order(list in before(), turn in 0_usize..8) {
        let mut turned = list.clone();
        turned.rotate_left(turn % list.len().max(1));
        prop_assert!(same(&list, &turned));
        if let Some(first) = turned.first_mut() {
            first.weight += 1;
            prop_assert!(!same(&list, &turned));
        }
    }
}
