//! Texts: what a row becomes, what it costs, and that a run of them is journalled and resumed as one of mails.

use std::time::Duration;

use proptest::prelude::*;
use snapbox::assert_data_eq;
use tidegate_core::channel::{Channel, Content, MessageRules};
use tidegate_core::email::AllowedSenders;
use tidegate_core::text_message::AllowedTexts;
use tidegate_operator::page::Page;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::send::{
    AddressList, CampaignDraft, CheckOptions, DraftContent, DryRun, Estimate, InputFault,
    InputSummary, Preview, RecipientFilter, RunEnd, TemplatePart, TestMail, TextDraft, check,
    send_test,
};

use super::world::{CHECKING, CSV, FILE, Journal, World, draft, templates};

const TEXT: &str = "Dear {{ first_name }}, your parcel is here.\n";

/// Texts that a stack for texts from two origins to Germany and the USA sends.
fn texts(template: &str, prices: &[&str]) -> CampaignDraft {
    let templates = templates(&[(TemplatePart::Text, "parcel.txt", template)]);
    let prices = prices.iter().map(|price| price.parse().unwrap()).collect();
    let (origins, countries) = ("+12065550199,NEWS".parse().unwrap(), "+1,+49".parse().unwrap());
    let texts = AllowedTexts { origins, countries };
    CampaignDraft {
        from: None,
        reply_to: Vec::new(),
        content: DraftContent::Text(TextDraft { templates, message_type: None, prices }),
        rules: MessageRules { channel: Channel::Sms, texts, ..AllowedSenders::everyone().into() },
        ..draft()
    }
}

fn phones(rows: u64) -> String {
    let row = |row: u64| format!("+1206555{row:04},Ada {row}");
    let lines = std::iter::once("to_phone,first_name".to_owned()).chain((1..=rows).map(row));
    lines.collect::<Vec<_>>().join("\n")
}

fn checked(draft: &CampaignDraft, csv: &str) -> Result<InputSummary, Vec<InputFault>> {
    check(draft, FILE, csv.as_bytes(), CHECKING, |_, _| {})
}

fn first_fault(draft: &CampaignDraft, csv: &str) -> String {
    checked(draft, csv).unwrap_err()[0].clone().shown(AddressVisibility::Masked).to_string()
}

fn contents(draft: &CampaignDraft, csv: &str) -> Vec<Content> {
    let mut contents = Vec::new();
    check(draft, FILE, csv.as_bytes(), CHECKING, |_, content| contents.push(content.clone()))
        .unwrap();
    contents
}

#[test]
fn a_row_becomes_a_text_from_the_first_origin_without_the_templates_last_line_break() {
    let draft = texts(TEXT, &[]);
    let contents = contents(&draft, "to_phone,first_name\n+12065550100,Ada\n");
    let [Content::Text(text)] = &contents[..] else { panic!("one text") };
    assert_eq!(text.text, "Dear Ada, your parcel is here.");
    assert_eq!(
        (text.to.as_str(), text.origination.as_deref()),
        ("+12065550100", Some("+12065550199"))
    );
    assert_eq!(text.tags["edition"], "2026-11");
    // A line break would make the second part.
    let full = format!("{}\n", "a".repeat(160));
    assert_eq!(checked(&texts(&full, &[]), &phones(1)).unwrap().slots, 1);
}

#[test]
fn what_the_poller_would_refuse_is_refused_with_the_column_and_a_masked_number() {
    let csv = |to: &str| format!("to_phone,first_name\n{to},Ada\n");
    let e164 = "must be one phone number in E.164: + and 7 to 15 digits with the country code";
    for wrong in ["12065550100", "+1 206 555 0100", "ada@example.com"] {
        let said = first_fault(&texts(TEXT, &[]), &csv(wrong));
        assert!(said.starts_with(&format!("recipients.csv:2: to_phone: {e164}")), "{said}");
    }
    let said = first_fault(&texts(TEXT, &[]), &csv("+447700900123"));
    let country = "to_phone: must be in a country that TIDEGATE_ALLOWED_COUNTRIES names";
    assert_eq!(said, format!("recipients.csv:2: {country}, not \"+***23\""));
    let twice = format!("{}+12065550100,Bob\n", csv("+12065550100"));
    let said = first_fault(&texts(TEXT, &[]), &twice);
    assert!(said.starts_with("recipients.csv:3: to_phone: must stand in one row only"), "{said}");
    assert!(said.ends_with("not \"+***00\""), "{said}");
    let long = first_fault(&texts(&"a".repeat(1_531), &[]), &csv("+12065550100"));
    assert!(long.contains(": text: must be at most 1530 characters of GSM-7"), "{long}");
}

#[test]
fn what_all_texts_share_is_said_once_with_the_option_that_mends_it() {
    let german = MessageRules {
        texts: AllowedTexts { countries: "+49".parse().unwrap(), ..AllowedTexts::default() },
        ..texts(TEXT, &[]).rules
    };
    let csv = "to_phone,first_name\n+4917012345678,Ada\n";
    assert!(checked(&CampaignDraft { rules: german, ..texts(TEXT, &[]) }, csv).is_ok());
    let from = Some("OTHER".to_owned());
    let said = first_fault(&CampaignDraft { from, ..texts(TEXT, &[]) }, csv);
    assert!(said.starts_with("--from: must be an origin that TIDEGATE_ORIGINS names"), "{said}");
    let mut typed = texts(TEXT, &[]);
    if let DraftContent::Text(text) = &mut typed.content {
        text.message_type = Some("both".to_owned());
    }
    let said = first_fault(&typed, csv);
    assert!(said.starts_with("--type: must be transactional or promotional"), "{said}");
    let tags = ["a", "b", "c"].map(|name| (name.to_owned(), "1".to_owned())).into();
    let said = first_fault(&CampaignDraft { tags, ..texts(TEXT, &[]) }, csv);
    assert!(said.starts_with("--tag: must be at most 2"), "{said}");
    for (header, hint) in [
        ("Mobile,first_name", "; if it is that one, add --to-column Mobile"),
        ("to,first_name", "; if it is that one, add --to-column to"),
        (
            "+4917012345678,Ada",
            "2 (not shown: they may be values); the first line has to name the columns, such as: to_phone,first_name",
        ),
        ("name,city", ""),
    ] {
        let said = first_fault(&texts(TEXT, &[]), &format!("{header}\n+12065550100,Ada\n"));
        let columns = if header.contains('+') { String::new() } else { header.replace(',', ", ") };
        let missing = "recipients.csv:1: column to_phone: is missing; there are: ";
        assert_eq!(said, format!("{missing}{columns}{hint}"));
    }
}

#[test]
fn numbers_on_the_lists_of_exclude_and_only_are_left_out_and_kept() {
    let csv = phones(3);
    let mut filter = RecipientFilter::default();
    filter.exclude.read("stop.csv", "phone,since\n+12065550001,2026\n".as_bytes()).unwrap();
    let left = |filter: &RecipientFilter| {
        let checking = CheckOptions { recipients: Some(filter), ..CHECKING };
        check(&texts(TEXT, &[]), FILE, csv.as_bytes(), checking, |_, _| {}).unwrap()
    };
    let summary = left(&filter);
    assert_eq!((summary.rows, summary.excluded, summary.slots), (2, 1, 2));
    let mut only = AddressList::default();
    only.read("dead.jsonl", "{\"to\": [\"+12065550003\"]}\n".as_bytes()).unwrap();
    filter.only = Some(only);
    assert_eq!(left(&filter).rows, 1);
}

#[test]
fn preview() {
    let mut draft = texts("Grüße, {{ first_name }} 🌊 from {{ to_phone }}", &[]);
    draft.from = Some("NEWS".to_owned());
    let mut preview = Preview::new(1, AddressVisibility::Masked);
    check(&draft, FILE, phones(2).as_bytes(), CHECKING, |message, content| {
        preview.see(message, content);
    })
    .unwrap();
    assert_data_eq!(Page::of(&preview).plain(), snapbox::file!["../golden/send-texts-preview.txt"]);
    assert!(!serde_json::to_string(&preview).unwrap().contains("5550001"));
}

/// A table of texts of one, two and three parts, one of which has a character that GSM-7 does not have.
const MIXED: &str = "to_phone,words\n+12065550100,short\n+4917012345678,“quoted”\n+4917012345679,LONG\n+12065550101,LONG\n";

fn mixed(prices: &[&str]) -> CampaignDraft {
    let template = format!("{{{{ words|replace('LONG', '{}') }}}}", "a".repeat(320));
    texts(&template, prices)
}

#[tokio::test(start_paused = true)]
async fn dry_run() {
    let draft = mixed(&["0.0075", "+49=0.1"]);
    let checked = checked(&draft, MIXED).unwrap();
    let header = World::new(1).header(&checked);
    let estimate = Estimate {
        quota_per_second: Some(2.0),
        share: 0.9,
        ends_after_seconds: Some(5.0),
        ..Estimate::default()
    };
    let journal = ".tidegate/first-recipients.journal";
    let dry = DryRun::new(FILE, journal, &header, 0, &checked, None, estimate);
    assert_eq!(dry.question(), "Enqueue 4 texts for campaign big?");
    assert_data_eq!(Page::of(&dry).plain(), snapbox::file!["../golden/send-texts.txt"]);
    // Eight slots at two a second, although there are four rows.
    assert_eq!((checked.slots, dry.seconds_alone), (8, Some(4.0)));
    let json = serde_json::to_value(&dry).unwrap();
    assert_eq!((&json["channel"], &json["texts"]["parts"]), (&"sms".into(), &8.into()));
    assert_eq!(json["texts"]["ucs2_characters"]["“"], 1);
    assert_eq!(json["texts"]["rows"][2]["line"], 4);
}

#[test]
fn a_price_that_is_not_given_is_not_made_up() {
    let page = |prices| {
        let summary = checked(&mixed(prices), MIXED).unwrap();
        Page::of(&summary.texts.unwrap()).plain()
    };
    let none = page(&[]);
    assert!(
        none.contains("price     not known: --price-per-part DOLLARS, or CODE=DOLLARS"),
        "{none}"
    );
    assert!(none.contains("https://aws.amazon.com/end-user-messaging/pricing/"), "{none}");
    let some = page(&["+49=0.1"]);
    assert!(
        some.contains("price     $0.40 for 2 texts, not known for 2: --price-per-part"),
        "{some}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_of_texts_goes_on_where_it_was() {
    let mut world = World::new(3);
    world.draft = || texts(TEXT, &[]);
    let csv = phones(300);
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(40));
    let report = world.run(&csv, &mut journal, stop).await.unwrap();
    assert_eq!((report.ended.clone(), report.enqueued < 300), (RunEnd::Interrupted, true));
    assert!(Page::of(&report).plain().starts_with("Interrupted: "));
    assert!(report.unfinished().contains(" texts not enqueued: run the same command"));
    let report = world.run(&csv, &mut journal, std::future::pending()).await.unwrap();
    assert!(Page::of(&report).plain().contains(" texts enqueued for campaign big\n"));
    let mut numbers: Vec<String> = world.queues.contents(&world.queue).iter().map(phone).collect();
    numbers.sort_unstable();
    let expected: Vec<String> = (1..=300).map(|row| format!("+1206555{row:04}")).collect();
    assert_eq!(numbers, expected);
}

fn phone(message: &tidegate_fakes::QueuedMessage) -> String {
    match Content::parse(Channel::Sms, &message.body).unwrap() {
        Content::Text(text) => text.to.clone(),
        Content::Email(_) => String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_goes_to_a_phone_number_alone() {
    let world = World::new(1);
    let (draft, csv) = (texts(TEXT, &[]), phones(2));
    let test = async |to| {
        let at = tidegate_core::identity::EpochMillis::new(7);
        let (draft, queue) = (&draft, &world.queue);
        let (rows, express) = (1, true);
        let mail = TestMail { draft, file: FILE, format: CSV, to, rows, queue, express };
        send_test(mail, csv.as_bytes(), &world.queues, at).await
    };
    let refused = test("me@example.org").await.unwrap_err().to_string();
    assert!(refused.starts_with("--test: must be one phone number in E.164"), "{refused}");
    let report = test("+12065550177").await.unwrap();
    assert!(Page::of(&report).plain().starts_with("1 test text to +12065550177 on the queue\n"));
    let contents = world.queues.contents(&world.queue);
    assert_eq!(contents.iter().map(phone).collect::<Vec<_>>(), ["+12065550177"]);
}

proptest! {
    /// The number that is shown, the poller's slots and AWS's parts are one number.
    #[test]
    fn the_parts_of_the_dry_run_are_the_slots_that_the_poller_takes(
        texts_of in prop::collection::vec("[a-z €🌊“]{1,200}", 1..12)
    ) {
        let texts_of: Vec<&String> = texts_of.iter().filter(|text| !text.trim().is_empty()).collect();
        prop_assume!(!texts_of.is_empty());
        let rows = texts_of.iter().enumerate().map(|(n, text)| format!("+1206555{n:04},{text}\n"));
        let csv: String = std::iter::once("to_phone,words\n".to_owned()).chain(rows).collect();
        let (mut slots, draft) = (Vec::new(), texts("{{ words }}", &["0.01"]));
        let summary = check(&draft, FILE, csv.as_bytes(), CHECKING, |message, _| {
            let read = draft.rules.read(&message.body).unwrap();
            slots.push(read.slots());
        });
        let summary = summary.unwrap();
        let tally = summary.texts.unwrap();
        let shown: Vec<u32> = tally.rows.iter().map(|row| row.parts).collect();
        prop_assert_eq!(&shown, &slots);
        let all: u64 = slots.iter().map(|slots| u64::from(*slots)).sum();
        prop_assert_eq!((summary.slots, tally.parts), (all, all));
        prop_assert!((tally.dollars - 0.01 * f64::from(slots.iter().sum::<u32>())).abs() < 1e-9);
    }
}
