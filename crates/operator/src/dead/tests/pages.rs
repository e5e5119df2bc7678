use super::*;
use crate::page::Page;
use crate::redact::AddressVisibility;

/// Letters of all kinds, put there within a day.
async fn day() -> Bench {
    let bench = Bench::new();
    let hours = |hours: u64| Duration::from_mins(hours * 60);
    bench.put(&[refused("big", "order-17", "MessageRejected")]).await;
    tokio::time::sleep(hours(3)).await;
    let refusal = "Address <ada@example.net> is on the suppression list";
    let mut two = letter("big", "order-18", (Some("MessageRejected"), Some(400)), refusal);
    two.body = two
        .body
        .replace(r#"["order-18@example.com"]"#, r#"["a@example.net","b@example.com"]"#)
        .into();
    bench.put(&[two]).await;
    tokio::time::sleep(hours(5)).await;
    bench
        .put(&[letter("small", "w-1", (Some("ConnectionFailed"), None), "connection reset")])
        .await;
    bench.put(&[parked("small", "w-2")]).await;
    bench.put(&[raw("a message of something else".to_owned(), Vec::new())]).await;
    tokio::time::sleep(hours(1)).await;
    bench
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_day() {
    let bench = day().await;
    let now = EpochMillis::from(bench.universe.now());
    let mut reading = bench.read().await;
    for (number, letter) in reading.letters.iter_mut().enumerate() {
        letter.message_id = format!("5a1f0c52-{number}");
    }
    let page = |view: &dyn Fn(&mut Page)| {
        let mut page = Page::default();
        view(&mut page);
        page.plain()
    };
    let masked = AddressVisibility::Masked;
    let all = LetterFilter::default();
    let by_reason = groups(&reading, &all, Grouping::Reason, masked);
    assert_answer("dead", &by_reason);
    let by_reason = Page::of(&by_reason).plain();
    snapbox::assert_data_eq!(by_reason, snapbox::file!["../../../tests/golden/dead.txt"]);
    let listed = list(&reading, &all, now, masked);
    assert_answer("dead_list", &listed);
    let listed = Page::of(&listed).plain();
    snapbox::assert_data_eq!(listed, snapbox::file!["../../../tests/golden/dead_list.txt"]);
    let shown = show(&reading, "order-18", now, masked, false);
    assert_answer("dead_show", &shown);
    snapbox::assert_data_eq!(
        page(&|page| crate::page::View::view(&shown, page)),
        snapbox::file!["../../../tests/golden/dead_show.txt"]
    );
    let by_domain = groups(&reading, &all, Grouping::Domain, masked);
    assert_eq!((by_domain.groups[0].key.as_str(), by_domain.groups[0].letters), ("example.com", 4));
}

#[tokio::test(start_paused = true)]
async fn the_page_of_a_dry_run() {
    let bench = day().await;
    let review = bench.review(LetterFilter::default(), false).await;
    let page = Page::of(&review).plain();
    snapbox::assert_data_eq!(page, snapbox::file!["../../../tests/golden/dead_replay.txt"]);
}

#[tokio::test(start_paused = true)]
async fn no_page_shows_an_address_or_a_body_unless_asked() {
    let bench = day().await;
    let (reading, now) = (bench.read().await, EpochMillis::new(1_795_300_000_000));
    let mut lines = Vec::new();
    let exported = export(&reading, &LetterFilter::default(), now, false, &mut lines).unwrap();
    assert_eq!((exported.letters, exported.perhaps_sent, exported.foreign), (5, 2, 1));
    let masked = String::from_utf8(lines).unwrap();
    for text in ["ada@", "order-17@", "a@example", "Text."] {
        assert!(!masked.contains(text), "{text}: {masked}");
    }
    let mut lines = Vec::new();
    export(&reading, &LetterFilter::default(), now, true, &mut lines).unwrap();
    let whole = String::from_utf8(lines).unwrap();
    assert_eq!(whole.lines().count(), 5);
    let first: serde_json::Value = serde_json::from_str(whole.lines().next().unwrap()).unwrap();
    assert_eq!(first["body"], body("order-17"));
    assert_eq!(first["identity"], "big/id/order-17");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_an_address_is_masked_as_recipients_are() {
    let bench = Bench::new();
    bench.put(&[refused("big", "ada@example.net", "MessageRejected")]).await;
    bench.put(&[refused("big", "bob%40example.net", "MessageRejected")]).await;
    let (mut reading, now) = (bench.read().await, EpochMillis::from(bench.universe.now()));
    for letter in &mut reading.letters {
        if let LetterContent::Entry(entry) = &mut letter.content {
            // The bench makes them of the ids, SQS does not.
            "sqs-1".clone_into(&mut entry.message_id);
        }
    }
    let of = |addresses| {
        let listed = list(&reading, &LetterFilter::default(), now, addresses);
        let ids = ["ada@example.net", "bob%40example.net"];
        let shown = ids.map(|id| show(&reading, id, now, addresses, true)).concat();
        assert_eq!(shown.len(), 2);
        let mut pages = Page::of(&listed).plain();
        let mut page = Page::default();
        crate::page::View::view(&shown, &mut page);
        pages += &page.plain();
        pages += &serde_json::to_string(&(&listed, &shown)).unwrap();
        pages
    };
    let masked = of(AddressVisibility::Masked);
    for text in ["ada", "bob"] {
        assert!(!masked.contains(&format!("{text}@")), "{masked}");
        assert!(!masked.contains(&format!("{text}%")), "{masked}");
    }
    assert!(masked.contains("big/id/***@example.net"), "{masked}");
    assert!(of(AddressVisibility::Shown).contains("big/id/ada@example.net"));
    let mut lines = Vec::new();
    export(&reading, &LetterFilter::default(), now, false, &mut lines).unwrap();
    assert!(!String::from_utf8(lines).unwrap().contains("ada"));
}

#[tokio::test(start_paused = true)]
async fn letters_of_one_fault_are_one_line_and_hide_no_other_of_the_same_code() {
    let bench = Bench::new();
    let said = |id: String, text: &str| letter("big", &id, (Some("InvalidMessage"), None), text);
    let envelope =
        |n: usize| said(format!("sns-{n}"), &format!("`Type`: unknown member of p{n}@example.org"));
    let mut letters: Vec<_> = (0..100).map(envelope).collect();
    letters.extend((0..3).map(|n| said(format!("m-{n}"), "`to_address`: missing")));
    bench.put(&letters).await;
    let all = LetterFilter::default();
    let groups = groups(&bench.read().await, &all, Grouping::Reason, AddressVisibility::Masked);
    let found: Vec<_> = groups.groups.iter().map(|one| (&*one.key, one.letters)).collect();
    assert_eq!(found, [("big: InvalidMessage", 100), ("big: InvalidMessage", 3)]);
    assert!(groups.groups[1].said.contains("missing"), "{groups:?}");
}
