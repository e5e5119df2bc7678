//! A list that was uploaded: the stack makes the mail of each row, once, whoever dies meanwhile.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::control::{Cancel, Hold, HoldReason};
use tidegate_core::draft::{
    CampaignDraft, DraftContent, MailOrigin, TemplatePart, TemplateSource, Templates,
};
use tidegate_core::runs::{RUNS_KEPT, RowRanges, Run, RunInput, RunSender, RunStage, THE_STACK};
use tidegate_core::store::rows::StoredDrafts;
use tidegate_delivery::ports::{Clock as _, Runs as _, Store as _, StoredRun};
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_operator::results::{ResultsError, RunJournal};
use tidegate_operator::send::{
    CheckOptions, InputFormat, Upload, UploadReport, check, replace_draft,
};
use tidegate_tests::simulation::{World, WorldSettings, measure, uploaded_draft};

const FORMAT: InputFormat = InputFormat::Csv { delimiter: b',', multiline: false };

fn settings(quota: f64, merge: bool) -> WorldSettings {
    WorldSettings::new(quota, merge)
        .variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=1h")
        .variable("TIDEGATE_STORE", "s3://tides/store")
}

fn templates(text: &str) -> Templates {
    let parts = [(TemplatePart::Subject, "Hello {{ name }}"), (TemplatePart::Text, text)];
    let parts = parts.map(|(part, text)| (part, TemplateSource::new("mail.txt", text)));
    Templates::compile(parts, &[]).unwrap()
}

/// The configuration set tells which version a mail is.
fn draft(campaign: &str, version: &str) -> CampaignDraft {
    let text = "Dear {{ name }}, news {{ number }}.";
    let parts = [(TemplatePart::Subject, "Hello {{ name }}"), (TemplatePart::Text, text)];
    let configuration_set = Some(version.to_owned());
    CampaignDraft { configuration_set, ..uploaded_draft(campaign, parts) }
}

fn list(rows: u64) -> String {
    let lines = (1..=rows).map(|row| format!("ada{row}@example.com,Ada {row},{row}"));
    let all = std::iter::once("to,name,number".to_owned()).chain(lines);
    all.collect::<Vec<_>>().join("\n")
}

async fn upload(world: &World, campaign: &str, rows: u64) -> UploadReport {
    upload_list(world, campaign, list(rows)).await
}

async fn upload_list(world: &World, campaign: &str, list: String) -> UploadReport {
    let draft = draft(campaign, "v1");
    let checking = CheckOptions {
        format: FORMAT,
        max_faults: 1,
        allow_duplicates: false,
        first_of_duplicates: false,
        skip_invalid: false,
        recipients: None,
    };
    let checked = check(&draft, "in.csv", list.as_bytes(), checking, |_, _| {}).unwrap();
    let clock = world.universe.clock();
    let (list_hash, message) = (checked.sha256.clone(), "m".to_owned());
    let input = RunInput { list: list_hash, message, rows: checked.rows };
    let sender = RunSender { token: "ada".to_owned(), ..RunSender::default() };
    let run = Run::new(campaign, "november", input, sender, clock.wall().into());
    let stored = StoredRun { version: 0, run };
    let token = format!("token{campaign}");
    let upload = Upload { file: "in.csv", format: FORMAT, checked: &checked, token: &token };
    let (store, ledger) = (&world.store, &world.ledger);
    upload.run(draft, list.as_bytes(), stored, store, ledger, &clock).await.unwrap()
}

async fn run(world: &World, campaign: &str) -> Run {
    let runs = world.ledger.runs(RUNS_KEPT).await.unwrap().into_iter().map(|stored| stored.run);
    runs.into_iter().find(|run| run.campaign == campaign).unwrap()
}

fn row_of(address: &str) -> u64 {
    address.strip_prefix("ada").unwrap().split_once('@').unwrap().0.parse().unwrap()
}

/// The row numbers by the version that SES got, each once.
fn sent(world: &World) -> BTreeMap<String, RowRanges> {
    let mut sent: BTreeMap<String, RowRanges> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for arrival in world.ses.accepted() {
        let address = &arrival.addresses[0];
        assert!(seen.insert(address.clone()), "{address} got two mails");
        let row = row_of(address);
        sent.entry(arrival.configuration_set.unwrap()).or_default().insert(row, row);
    }
    sent
}

/// Plays until the run is done and its mail is sent; how many minutes that took.
async fn until_done(world: &World, campaign: &str, most: u64) -> u64 {
    let script = async |_| {
        for minute in 0..most {
            if run(world, campaign).await.stage == RunStage::Done && world.is_drained() {
                return minute;
            }
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        panic!("not done: {:?}, {:?}", run(world, campaign).await, world.store.contents().len());
    };
    world.play_until_done(script).await
}

#[tokio::test(start_paused = true)]
async fn each_row_gets_its_mail_at_the_quotas_pace_and_the_queue_holds_minutes_of_it() {
    for merge in crate::MODES {
        let world = World::new(settings(14.0, merge));
        // The quota is known from the second minute on.
        world.run(60).await;
        let report = upload(&world, "big", 5_000).await;
        assert_eq!((report.rows, world.store.contents().len()), (5_000, 3));
        let deepest = Cell::new(0);
        let watch = async |_: Window| {
            for _ in 0..60 {
                deepest.set(deepest.get().max(world.contents("big").len()));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let first = world.play(60, watch).await;
        // Of 60 windows those after the scheduler's first minute began: it was told at once.
        let arrivals = world.ses.accepted();
        assert!(Window::containing(arrivals[0].at).saturating_since(first) <= 60);
        assert!(deepest.get() <= 14 * 180, "{deepest:?}");
        let minutes = until_done(&world, "big", 20).await;
        assert!(minutes <= 7, "5,000 rows at 14 a second took {minutes} minutes more");
        world.assert_clean();
        assert_eq!(sent(&world)["v1"].count(), 5_000);
        let run = run(&world, "big").await;
        assert_eq!((run.enqueued, run.sender.host.as_str()), (5_000, THE_STACK));
        assert_eq!(world.store.contents(), [], "nothing stays in the store");
        assert!(measure::worst_second(&world.ses.arrivals()) <= 14);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_one_run_of_the_scheduler_enqueues_is_over_with_that_run() {
    let world = World::new(settings(14.0, true));
    // The quota is known from the second minute on.
    world.run(60).await;
    upload(&world, "big", 3).await;
    world.run(20).await;
    assert_eq!(run(&world, "big").await.stage, RunStage::Done);
    let has = async |key: String| world.store.get(&key).await.unwrap().is_some();
    assert!(!has(StoredDrafts::key("tokenbig")).await, "the drafts of a run that is over");
    assert!(has(StoredDrafts::key_once_over("tokenbig")).await);
}

/// Schedulers and pollers die; half-way the template is replaced.
#[tokio::test(start_paused = true)]
async fn killed_anywhere_each_of_20_000_gets_one_version_and_the_run_tells_which() {
    for merge in crate::MODES {
        let settings = settings(50.0, merge).variable("TIDEGATE_DEDUPLICATION", "park");
        let world = World::new(settings);
        upload(&world, "big", 20_000).await;
        for operation in [Operation::ReplaceObject, Operation::GetObject, Operation::DeleteObject] {
            world.faults.add(Rule::new(Fault::HangBefore).on(operation).chance(0.015));
            world.faults.add(Rule::new(Fault::HangAfter).on(operation).chance(0.015));
        }
        world.faults.add(Rule::new(Fault::HangAfter).on(Operation::SetRun).chance(0.1));
        world.faults.add(Rule::new(Fault::HangBefore).on(Operation::SetRun).chance(0.1));
        let first = async |_: Window| {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                world.crash();
            }
        };
        world.play(200, first).await;
        for version in ["v2", "v3"] {
            let run = run(&world, "big").await;
            let set =
                |draft| Ok(CampaignDraft { configuration_set: Some(version.to_owned()), ..draft });
            let report = replace_draft(&run, &world.store, 1, set).await.unwrap();
            assert!(report.rows > 0, "{report:?}");
            world.play(60, async |_| {}).await;
        }
        world.play(300, first).await;
        until_done(&world, "big", 180).await;
        let run = run(&world, "big").await;
        let told: BTreeMap<String, RowRanges> = run
            .uploaded
            .unwrap()
            .versions
            .into_iter()
            .map(|(version, rows)| (format!("v{version}"), rows))
            .collect();
        assert_eq!(run.enqueued, 20_000);
        assert!(told.len() == 3, "{told:?}");
        let mut gone = sent(&world);
        // Of a mail whose poller died nobody knows whether SES took it.
        for letter in world.dead_letters() {
            let MailOrigin { row, .. } = MailOrigin::of(&letter.message).unwrap();
            let message: serde_json::Value = serde_json::from_str(&letter.message).unwrap();
            let version = message["configuration_set"].as_str().unwrap().to_owned();
            gone.entry(version).or_default().insert(row, row);
        }
        assert_eq!(told, gone);

        // Whoever has the list finds each row's mail without a journal.
        let (run, list) = (self::run(&world, "big").await, list(20_000));
        let key = StoredDrafts::key_once_over("tokenbig");
        let drafts =
            StoredDrafts::unpack(&world.store.get(&key).await.unwrap().unwrap().0).unwrap();
        let other = RunJournal::of_upload(run.clone(), &drafts, "big", "in.csv".into(), || {
            Ok(&list.as_bytes()[1..])
        });
        assert!(matches!(other, Err(ResultsError::InputChanged { .. })), "{other:?}");
        let journal =
            RunJournal::of_upload(run, &drafts, "big", "in.csv".into(), || Ok(list.as_bytes()))
                .unwrap();
        for arrival in world.ses.accepted() {
            let row = row_of(&arrival.addresses[0]);
            assert_eq!(journal.id(row), Some(arrival.id.as_str()));
            let version = journal.version(row).map(|version| format!("v{version}"));
            assert_eq!(version, arrival.configuration_set);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_a_later_version_refuses_are_told_and_the_others_go() {
    let world = World::new(settings(14.0, true));
    upload(&world, "big", 3_000).await;
    world.play(70, async |_| {}).await;
    let run_before = run(&world, "big").await;
    let content =
        || DraftContent::Templates(templates("{% if number == '2900' %}{{ gone }}{% endif %}x"));
    let refused = replace_draft(&run_before, &world.store, 5, |draft| {
        Ok(CampaignDraft { content: content(), ..draft })
    });
    let said = refused.await.unwrap_err();
    assert!(
        matches!(&said, tidegate_operator::send::ReplaceError::Rows { faults, .. }
        if faults.len() == 1 && faults[0].line == 2_901),
        "{said:?}"
    );
    // Whoever writes it all the same: the scheduler does not enqueue that row.
    let key = StoredDrafts::key("tokenbig");
    let bytes = world.store.get(&key).await.unwrap().unwrap().0;
    let mut drafts = StoredDrafts::unpack(&bytes).unwrap();
    drafts.drafts.push(CampaignDraft { content: content(), ..draft("big", "v2") });
    world.store.put(&key, drafts.pack().unwrap()).await.unwrap();
    until_done(&world, "big", 20).await;
    let run = run(&world, "big").await;
    assert_eq!((run.enqueued, run.stage), (2_999, RunStage::Done));
    let uploaded = run.uploaded.unwrap();
    assert_eq!(Vec::from(uploaded.refused), [2_899, 1]);
    let sent = sent(&world);
    assert_eq!(
        (sent["v1"].clone(), sent["v2"].clone()),
        (uploaded.versions[&1].clone(), uploaded.versions[&2].clone())
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_run_and_a_pause_keeps_its_rows_where_they_are() {
    let world = World::new(settings(14.0, true));
    upload(&world, "big", 6_000).await;
    upload(&world, "small", 3_000).await;
    world.play(90, async |_| {}).await;
    let pause = |control: &mut tidegate_core::control::Control| {
        control.hold(Some("small"), HoldReason::Paused, Hold::new("lunch", world.universe.now()));
    };
    world.control(pause).await;
    let paused = run(&world, "small").await.enqueued;
    let at = world.universe.now().into();
    world.control(|control| control.cancel("big", Cancel { at, keep: false }, "wrong")).await;
    world.play(200, async |_| {}).await;
    let cancelled = run(&world, "big").await;
    assert_eq!(cancelled.stage, RunStage::Cancelled);
    // Regression: the rows that it had not come to were told as left out.
    let bytes = world.store.get(&StoredDrafts::key_once_over("tokenbig")).await.unwrap().unwrap().0;
    let (drafts, list) = (StoredDrafts::unpack(&bytes).unwrap(), list(6_000));
    let journal = RunJournal::of_upload(cancelled.clone(), &drafts, "big", "in.csv".into(), || {
        Ok(list.as_bytes())
    });
    assert_eq!(journal.unwrap().ended, None);
    assert!(cancelled.enqueued < 6_000, "{cancelled:?}");
    let left = world.store.contents();
    assert!(left.iter().all(|(key, _)| key.campaign != "big"), "{left:?}");
    assert!(left.iter().any(|(key, _)| key.campaign == "small"));
    let small = run(&world, "small").await;
    assert!(small.enqueued <= paused + 14 * 180, "{small:?}");
    assert_eq!(small.stage, RunStage::Sending);
}

/// Regression: the check refused a row whose message is too large for SQS. A killed scheduler enqueues such a row twice, and
/// the second copy became a dead letter without content.
#[tokio::test(start_paused = true)]
async fn a_row_whose_message_is_too_large_for_a_queue_goes_by_the_store() {
    for merge in crate::MODES {
        let world = World::new(settings(14.0, merge).variable("TIDEGATE_DEDUPLICATION", "park"));
        let large = "news ".repeat(300_000);
        upload_list(&world, "big", format!("{},{large}\n", list(3).trim_end_matches(",3"))).await;
        // Of the chunk's progress the second write comes after the messages.
        let killed = Rule::new(Fault::HangBefore).on(Operation::ReplaceObject).at("progress/rows");
        world.faults.add(killed.nth(3));
        let objects = Cell::new(0);
        let script = async |_| {
            for second in 0..200 {
                let found = world.store.list("large", None).await.unwrap().objects.len();
                objects.set(objects.get().max(found));
                if second == 90 {
                    world.crash();
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        world.play(200, script).await;
        assert!(!world.faults.strikes().is_empty(), "nobody was killed");
        until_done(&world, "big", 20).await;
        assert_eq!((sent(&world)["v1"].count(), objects.get()), (3, 1));
        assert_eq!(world.store.contents(), [], "nothing stays in the store");
        world.assert_clean();
    }
}
