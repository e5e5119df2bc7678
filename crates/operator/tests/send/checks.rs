//! Tests of the first pass over the input, and of the ids that mails get.

use std::collections::BTreeSet;

use tidegate_core::channel::Content;
use tidegate_core::email::AllowedSenders;
use tidegate_operator::page::Page;
use tidegate_operator::send::{
    AddressList, CampaignDraft, CheckOptions, DraftContent, InputFault, InputFormat, InputReport,
    RecipientFilter, TemplatePart, check,
};

use super::world::{CHECKING, CSV, FILE, checked, draft, recipients, templates};

fn ids(draft: &CampaignDraft, csv: &str) -> Vec<String> {
    let mut ids = Vec::new();
    check(draft, FILE, csv.as_bytes(), CHECKING, |message, _| ids.push(message.id.clone()))
        .unwrap();
    ids
}

fn first_fault(draft: &CampaignDraft, csv: &str) -> String {
    let faults = checked(draft, csv).unwrap_err();
    faults.first().map(InputFault::to_string).unwrap()
}

#[test]
fn ids_are_the_same_for_the_same_run_and_others_for_any_other() {
    let csv = recipients(30);
    let first = ids(&draft(), &csv);
    assert_eq!(ids(&draft(), &csv), first);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 30);
    let again = CampaignDraft { run: "again".to_owned(), ..draft() };
    let words = templates(&[
        (TemplatePart::Subject, "s", "Hello"),
        (TemplatePart::Text, "t", "Other news."),
    ]);
    let other = CampaignDraft { content: DraftContent::Templates(words), ..draft() };
    for changed in [again, other] {
        assert!(ids(&changed, &csv).iter().all(|id| !first.contains(id)));
    }
    // A row that is there twice is two mails.
    let twice = "to,first_name,token\na@example.com,A,t\na@example.com,A,t\n";
    let checking = CheckOptions { allow_duplicates: true, ..CHECKING };
    let mut ids = BTreeSet::new();
    let found = check(&draft(), FILE, twice.as_bytes(), checking, |message, _| {
        ids.insert(message.id.clone());
    });
    assert_eq!((ids.len(), found.unwrap().repeated_addresses), (2, 1));
}

#[test]
fn an_id_column_is_taken_as_it_is_and_must_not_repeat() {
    let csv = "id,to,first_name,token\n7,a@example.com,A,t\n8,b@example.com,B,t\n";
    assert_eq!(ids(&draft(), csv), ["7", "8"]);
    let named = CampaignDraft { id_column: Some("token".to_owned()), ..draft() };
    let csv = "token,to,first_name\nx,a@example.com,A\nx,b@example.com,B\n";
    let said =
        "recipients.csv:3: id: must be another one in each row; line 2 has the same, not \"x\"";
    assert_eq!(first_fault(&named, csv), said);
    let said = "recipients.csv:1: column token: is missing; there are: to, first_name";
    assert_eq!(first_fault(&named, "to,first_name\na@example.com,A\n"), said);
}

#[test]
fn what_the_poller_would_refuse_is_refused_here() {
    let csv = "to,first_name,token\na@example.com,A,t\n";
    let senders: AllowedSenders = "other@example.org".parse().unwrap();
    let rules = senders.into();
    let said = first_fault(&CampaignDraft { rules, ..draft() }, csv);
    assert!(said.starts_with("--from: must be a sender that TIDEGATE_ALLOWED"), "{said}");
    let priority = Some("soon".to_owned());
    let said = first_fault(&CampaignDraft { priority, ..draft() }, csv);
    assert!(said.starts_with("--priority: must be one of critical, high, normal, low"), "{said}");
    let csv = "to,first_name,token\na@example.com,\"A\nB\",t\n";
    let checking =
        CheckOptions { format: InputFormat::Csv { delimiter: b',', multiline: true }, ..CHECKING };
    let faults = check(&draft(), FILE, csv.as_bytes(), checking, |_, _| {}).unwrap_err();
    let subject = faults.first().map(InputFault::to_string).unwrap();
    assert!(subject.contains(": subject: must not hold CR, LF"), "{subject}");
    let large = format!("to,first_name,token\na@example.com,{},t\n", "x".repeat(600_000));
    let said = first_fault(&draft(), &large);
    assert!(said.contains(": body: must be at most 10"), "{said}");
    assert!(said.ends_with("bytes"), "{said}");
}

#[test]
fn a_quote_that_is_not_closed_mails_nobody_another_s_text() {
    let csv = "to,first_name,token\na@example.com,\"Ada,t1\nb@example.com,Bob,t2\n\
               c@example.com,\"Carol\",t3\n";
    let said = "recipients.csv:2: first_name: must be on one line (a quote that is not closed?), or \
                with --multiline";
    assert_eq!(first_fault(&draft(), csv), said);
    // At the end there is no later quote that would give it away.
    let csv = "to,token,first_name\na@example.com,t1,\"Ada\nb@example.com,t2,Bob\n";
    assert_eq!(first_fault(&draft(), csv), said);
}

#[test]
fn a_recipient_s_column_may_have_another_name_and_must_be_there() {
    let csv = "Email,first_name,token\na@example.com,A,t\n";
    assert!(checked(&draft(), csv).is_ok());
    let csv = "address,first_name,token\na@example.com,A,t\n";
    let named = CampaignDraft { to_column: Some("address".to_owned()), ..draft() };
    assert!(checked(&named, csv).is_ok());
    assert!(first_fault(&draft(), "to,first_name,token\n").contains("rows: must be at least one"));
}

#[test]
fn what_all_rows_share_is_said_once_with_the_option_that_mends_it() {
    let rows = "a@example.com,A,t\nb@example.com,B,t\n";
    let missing = "recipients.csv:1: column to or email: is missing; there are: ";
    for (header, said) in [
        (
            "E-Mail,first_name,token",
            "E-Mail, first_name, token; if it is that one, add --to-column E-Mail",
        ),
        (
            "address,first_name,token",
            "address, first_name, token; if it is that one, add --to-column address",
        ),
        (
            "to;first_name;token",
            "to;first_name;token; if that is the separator, add --delimiter ';'",
        ),
        ("to\tfirst_name", "to\tfirst_name; if that is the separator, add --delimiter tab"),
        (
            "z@example.com,Z,t",
            "3 (not shown: they may be values); the first line has to name the columns, such as: to,first_name",
        ),
        ("name,token", "name, token"),
    ] {
        let faults = checked(&draft(), &format!("{header}\n{rows}")).unwrap_err();
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults, [format!("{missing}{said}")]);
    }
    let csv = format!("to,first_name,token\n{rows}");
    for (changed, option) in [
        (CampaignDraft { from: Some("news".to_owned()), ..draft() }, "--from: must be one address"),
        (CampaignDraft { from: None, ..draft() }, "--from: must be one address"),
        (CampaignDraft { reply_to: vec!["x".to_owned()], ..draft() }, "--reply-to: must be"),
        (CampaignDraft { tags: [("a b".to_owned(), "c".to_owned())].into(), ..draft() }, "--tag: "),
        (
            CampaignDraft { configuration_set: Some("a b".to_owned()), ..draft() },
            "--configuration-set: ",
        ),
    ] {
        let faults = checked(&changed, &csv).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let said = faults[0].to_string();
        assert!(said.starts_with(option), "{said}");
    }
}

#[test]
fn a_campaign_of_which_all_are_excluded_and_a_file_without_addresses_are_refused() {
    let mut filter = RecipientFilter::default();
    filter.exclude.read("left.txt", "a@example.com\n".as_bytes()).unwrap();
    let said = "recipients.csv:1: rows: must be at least one that is not excluded; there are 1";
    let csv = "to,first_name,token\nA@example.com,A,t\n";
    let checking = CheckOptions { recipients: Some(&filter), ..CHECKING };
    let faults = check(&draft(), FILE, csv.as_bytes(), checking, |_, _| {}).unwrap_err();
    assert_eq!(faults[0].to_string(), said);
    let fault = filter.exclude.read("left.txt", "a@example.com\n\u{0}\n".as_bytes());
    let said = fault.unwrap_err().to_string();
    assert!(said.starts_with("left.txt:2: text: must be UTF-8"), "{said}");
}

#[test]
fn a_file_in_another_encoding_is_told_which_it_seems_to_be() {
    let read = |bytes: &[u8]| {
        let faults = check(&draft(), FILE, bytes, CHECKING, |_, _| {}).unwrap_err();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let text = "to,first_name,token\na@example.com,J\u{e4}n,t\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let said = "recipients.csv:1: text: must be UTF-8: save the file so; it looks like UTF-16";
    assert_eq!(read(&utf16), [said]);
    assert_eq!(read(&[&[0xff, 0xfe], utf16.as_slice()].concat()), [said]);
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let said = "recipients.csv:2: text: must be UTF-8: save the file so; byte E4 ('\u{e4}') looks like Latin-1";
    assert_eq!(read(&latin), [said]);
}

#[test]
fn json_lines_and_a_template_of_ses_s() {
    let content = DraftContent::SesTemplate {
        name: "welcome".to_owned(),
        headers: templates(&[(
            TemplatePart::UnsubscribeUrl,
            "--list-unsubscribe",
            "https://example.org/{{ n }}",
        )]),
    };
    let draft = CampaignDraft { content, ..draft() };
    let lines = "{\"to\": \"a@example.com\", \"n\": 19.5, \"order\": {\"id\": 7}}\n";
    let checking = CheckOptions { format: InputFormat::Json, ..CHECKING };
    let mut bodies = Vec::new();
    let seen = |message: &tidegate_operator::send::RenderedMessage, _: &Content| {
        bodies.push(message.body.clone());
    };
    check(&draft, "in.jsonl", lines.as_bytes(), checking, seen).unwrap();
    let body: serde_json::Value = serde_json::from_str(&bodies[0]).unwrap();
    assert_eq!(body["template"]["data"]["order"]["id"], 7);
    assert_eq!(body["list_unsubscribe"]["url"], "https://example.org/19.5");
}

#[test]
fn characters_that_sqs_refuses_arrive_all_the_same() {
    let csv = "to,first_name,token\na@example.com,A\u{ffff}\u{fffe},t\n";
    let mut subject = None;
    check(&draft(), FILE, csv.as_bytes(), CHECKING, |message, content| {
        assert!(!message.body.contains(['\u{fffe}', '\u{ffff}']));
        let Content::Email(email) = content else { panic!("a mail") };
        subject = Some(format!("{:?}", email.content));
    })
    .unwrap();
    assert!(subject.unwrap().contains("A\\u{ffff}\\u{fffe}"));
}

#[test]
fn an_input_is_known_by_its_bytes() {
    let first = checked(&draft(), &recipients(3)).unwrap();
    assert_eq!(first.sha256.len(), 64);
    let other = check(
        &draft(),
        FILE,
        recipients(4).as_bytes(),
        CheckOptions { format: CSV, ..CHECKING },
        |_, _| {},
    );
    assert_ne!(first.sha256, other.unwrap().sha256);
}

#[test]
fn only_the_addresses_of_only_get_mail_and_none_that_is_suppressed() {
    let mut only = AddressList::default();
    let exported = r#"{"to": ["Recipient <A@example.com>"], "body": null}"#;
    only.read("unsent.jsonl", format!("{exported}\n{{\"to\": [\"c@example.com\"]}}\n").as_bytes())
        .unwrap();
    let mut filter = RecipientFilter { only: Some(only), ..RecipientFilter::default() };
    filter.suppressed.add("C@example.com");
    let checking = CheckOptions { recipients: Some(&filter), ..CHECKING };
    let csv = "to,first_name,token\na@example.com,Ada,1\nb@example.com,Bob,2\nc@example.com,Cy,3\n";
    let summary = check(&draft(), FILE, csv.as_bytes(), checking, |_, _| {}).unwrap();
    assert_eq!((summary.rows, summary.excluded), (1, 2));
}

#[test]
fn a_template_has_the_recipients_address_alone_and_the_mail_the_name_too() {
    let parts = [
        (TemplatePart::Subject, "s", "{{ row['Email'] }}"),
        (TemplatePart::Text, "t", "<{{ Email }}>"),
        (TemplatePart::UnsubscribeUrl, "u", "https://example.org/out?e={{ Email }}"),
    ];
    let content = DraftContent::Templates(templates(&parts));
    let draft = CampaignDraft { content, ..draft() };
    for cell in
        ["Ada L <ada@example.com>", " ada@example.com ", "\"\"\"L, A\"\" <ada@example.com>\""]
    {
        let mut bodies = Vec::new();
        let csv = format!("Email\n{cell}\n");
        check(&draft, FILE, csv.as_bytes(), CHECKING, |message, _| {
            bodies.push(message.body.clone());
        })
        .unwrap();
        let body: serde_json::Value = serde_json::from_str(&bodies[0]).unwrap();
        assert_eq!(
            (&body["subject"], &body["text"]),
            (&"ada@example.com".into(), &"<ada@example.com>".into())
        );
        assert_eq!(body["list_unsubscribe"]["url"], "https://example.org/out?e=ada@example.com");
        assert_eq!(body["to"].as_str().unwrap().contains("<ada"), cell.contains('<'));
    }
}

#[test]
fn an_address_that_would_be_another_in_a_link_is_refused_once_for_all_rows() {
    let link =
        (TemplatePart::UnsubscribeUrl, "--list-unsubscribe", "https://example.org/out?e={{ to }}");
    let parts = [(TemplatePart::Subject, "s", "News"), (TemplatePart::Text, "t", "News"), link];
    let draft = CampaignDraft { content: DraftContent::Templates(templates(&parts)), ..draft() };
    let csv = "to\na+1@example.com\nb@example.com\nc+1@example.com\n";
    let faults = checked(&draft, csv).unwrap_err();
    assert_eq!(faults.len(), 1);
    let said = faults[0].to_string();
    assert!(
        said.starts_with("--list-unsubscribe:1: {{ to }}: must hold no '+' inside a link"),
        "{said}"
    );
    assert!(said.ends_with("(recipients.csv:2 and 1 more)"), "{said}");
}

#[test]
fn html_that_gmail_clips_and_a_subject_longer_than_a_line_get_a_word_and_are_sent() {
    let parts = [
        (TemplatePart::Subject, "s", "{{ 'x' * n|int }}"),
        (TemplatePart::Html, "h", "{{ 'é' * (n|int * 52) }}"),
    ];
    let draft = CampaignDraft { content: DraftContent::Templates(templates(&parts)), ..draft() };
    let csv = "to,n\na@example.com,998\nb@example.com,999\nc@example.com,1005\nd@example.com,1\n";
    let summary = checked(&draft, csv).unwrap();
    assert_eq!(summary.rows, 4);
    let report = InputReport { file: FILE.to_owned(), checked: summary };
    assert_eq!((report.checked.notes.long_subjects, report.checked.notes.clipped), (2, 1));
    let page = Page::of(&report).plain();
    assert!(page.contains("Note: 1 mail with HTML above 102 KB: Gmail shows its end"), "{page}");
    assert!(page.contains("Note: 2 mails with a subject above 998 bytes"), "{page}");
}
