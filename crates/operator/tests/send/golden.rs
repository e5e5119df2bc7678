//! Compares the command's output with the examples in `docs/commands/send.md`.

use std::time::Duration;

use snapbox::{assert_data_eq, file};
use tidegate_operator::page::Page;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::send::{
    CheckOptions, DryRun, Estimate, FaultReport, Preview, RunEnd, SendReport, TemplatePart, check,
};

use super::world::{CHECKING, FILE, Journal, KEPT, World, checked, draft, recipients, templates};

#[test]
fn preview() {
    let mut preview = Preview::new(1, AddressVisibility::Masked);
    let csv = recipients(3);
    check(&draft(), FILE, csv.as_bytes(), CHECKING, |message, content| {
        preview.see(message, content);
    })
    .unwrap();
    assert_data_eq!(Page::of(&preview).plain(), file!["../golden/send-preview.txt"]);
    assert!(!serde_json::to_string(&preview).unwrap().contains("ada1@"));
}

#[tokio::test(start_paused = true)]
async fn dry_run() {
    let world = World::new(1);
    let checked = checked(&draft(), &recipients(20_000)).unwrap();
    let header = world.header(&checked);
    let estimate = Estimate {
        quota_per_second: Some(14.0),
        share: 0.9,
        ahead: 250,
        ends_after_seconds: Some(1_607.0),
        warnings: Vec::new(),
        assumptions: vec!["nothing else sends from the account".to_owned()],
    };
    let journal = ".tidegate/big-recipients.journal";
    let of = |enqueued, kept, estimate| {
        DryRun::new(FILE, journal, &header, enqueued, &checked, kept, estimate)
    };
    let dry = of(0, None, estimate.clone());
    assert_eq!(dry.question(), "Enqueue 20,000 mails for campaign big?");
    assert_data_eq!(Page::of(&dry).plain(), file!["../golden/send-dry-run.txt"]);
    let quota_per_second = Some(13.999_999_999_7);
    let dry = of(19_999, KEPT, Estimate { quota_per_second, ..estimate.clone() });
    assert_eq!(dry.question(), "Enqueue 1 mail more for campaign big?");
    let page = Page::of(&dry).plain();
    assert!(page.contains("at its share of 90 % of 14/s\n"), "{page}");
    let held = "big keeps 20250 mails: held (paused) until that is lifted".to_owned();
    let ends_after_seconds = None;
    let held = of(19_999, KEPT, Estimate { ends_after_seconds, warnings: vec![held], ..estimate });
    assert_eq!((held.seconds_alone, held.estimate.ends_after_seconds), (None, None));
    let page = Page::of(&held).plain();
    assert!(page.contains("takes            no end is known (see below)\n"), "{page}");
    assert!(page.contains("Note: big keeps 20250 mails: held (paused)"), "{page}");
}

#[test]
fn faults() {
    let draft = tidegate_operator::send::CampaignDraft {
        content: tidegate_operator::send::DraftContent::Templates(templates(&[
            (TemplatePart::Subject, "--subject", "Hello {{ first_name }}"),
            (
                TemplatePart::Html,
                "mail.html",
                "<p>Dear {{ first_name }},</p>\n<p>{{ offer }}</p>\n",
            ),
        ])),
        ..draft()
    };
    let csv = "to,first_name\nada@example.com,Ada\nbob@example,Bob\nada@example.com,Ada\n,Eve\n\
               carol@example.com,Carol,7\n";
    let faults = check(&draft, FILE, csv.as_bytes(), CHECKING, |_, _| {}).unwrap_err();
    let refused = |faults: Vec<tidegate_operator::send::InputFault>, more| FaultReport {
        file: FILE.to_owned(),
        faults: faults.into_iter().map(|fault| fault.shown(AddressVisibility::Masked)).collect(),
        more,
    };
    let page = Page::of(&refused(faults, false)).plain();
    assert_data_eq!(page, file!["../golden/send-faults.txt"]);
    let checking = CheckOptions { max_faults: 2, ..CHECKING };
    let faults = check(&draft, FILE, csv.as_bytes(), checking, |_, _| {}).unwrap_err();
    assert_eq!(faults.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn report() {
    let world = World::new(1);
    let csv = recipients(1_000);
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(100));
    let report = world.run(&csv, &mut journal, stop).await.unwrap();
    assert_eq!(report.ended, RunEnd::Interrupted);
    assert_data_eq!(Page::of(&report).plain(), file!["../golden/send-interrupted.txt"]);
    let report = world.run(&csv, &mut journal, std::future::pending()).await.unwrap();
    assert_data_eq!(Page::of(&report).plain(), file!["../golden/send.txt"]);
    let gave_up = SendReport { ended: RunEnd::GaveUp("no".to_owned()), enqueued: 7, ..report };
    assert!(Page::of(&gave_up).plain().starts_with("Given up after 7 mails: no\n"));
}
