//! The operator's command on a running stack, as a user runs it: in a terminal, and by its JSON.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use serde_json::{Value, json};
use tidegate_delivery::ports::QueueDepth;
use tokio::process::Command;
use tokio::time::sleep;

use crate::site::{DEAD_LETTERS, SMALL, Site, bin_dir, mail, now, plan};
use crate::terminal::Terminal;

/// Output and exit code of a run of `tidegate`.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The options that lead to a site's stack.
fn on(site: &Site) -> Vec<String> {
    let folder = site.aws.folder.display().to_string();
    vec!["--local".to_owned(), "--local-runs".to_owned(), folder]
}

/// Runs `tidegate` on a site's stack, without a terminal.
pub(crate) async fn tidegate(site: &Site, args: &[&str]) -> Run {
    let output = Command::new(bin_dir().join("tidegate"))
        .args(args)
        .args(on(site))
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn done(site: &Site, args: &[&str]) -> Run {
    let run = tidegate(site, args).await;
    assert_eq!(run.code, 0, "{args:?}: {run:?}");
    run
}

/// Mails of `campaign` that arrive from two seconds from now on, for so many seconds.
async fn arrive(site: &mut Site, campaign: &str, seconds: u64) -> usize {
    sleep(Duration::from_secs(2)).await;
    let (from, span) = (now(), Duration::from_secs(seconds));
    sleep(span + Duration::from_millis(200)).await;
    let in_span = from.as_nanos()..(from + span).as_nanos();
    let arrivals = site.look().await.iter();
    arrivals.filter(|mail| mail.campaign == campaign && in_span.contains(&mail.at_ns)).count()
}

async fn it_is_paused_and_resumed_within_two_seconds(site: &mut Site) {
    let paused = done(site, &["pause", "big", "--reason", "typo", "--for", "1h", "--json"]).await;
    assert_eq!(paused.json()["campaign"], "big");
    assert_eq!(arrive(site, "big", 3).await, 0, "sent two seconds after the pause");
    let status = done(site, &["status", "--json"]).await.json();
    assert_eq!(status["holds"][0]["reason"], "paused", "{status}");
    assert_eq!(status["serving"]["state"], "serving", "{status}");
    let error = tidegate(site, &["pause", "bgi", "--reason", "typo"]).await;
    assert_eq!(error.code, 2, "{error:?}");
    assert!(error.err.contains("there is no campaign bgi; there is big, small"), "{error:?}");
    done(site, &["resume", "big", "--reason", "corrected"]).await;
    assert!(arrive(site, "big", 3).await > 0, "nothing two seconds after it was resumed");
}

async fn it_is_capped_and_uncapped(site: &mut Site) {
    done(site, &["rate", "--cap", "4", "--reason", "the other system sends"]).await;
    let sent = arrive(site, "big", 4).await + arrive(site, "small", 0).await;
    assert!((8..=16).contains(&sent), "{sent} of the big campaign in 4 s at 4/s");
    let rate = done(site, &["rate", "--json"]).await.json();
    assert_eq!((&rate["operator_cap"], &rate["in_force"]), (&4.0.into(), &4.0.into()));
    done(site, &["rate", "--uncap", "--reason", "it is done"]).await;
}

async fn a_terminal_shows_it_and_steers_it(site: &Site) {
    let mut args = vec!["top".to_owned()];
    args.extend(on(site));
    let mut top = Terminal::start(&bin_dir().join("tidegate"), &args);
    top.shows("  yes", 10).await;
    top.shows(" of 13.73/s", 20).await;
    for shown in ["big", "small", "90.0 %", "full height: 14/s", "q end"] {
        top.shows(shown, 5).await;
    }
    done(site, &["pause", "small", "--reason", "it is late"]).await;
    top.shows("paused", 10).await;
    done(site, &["resume", "small", "--reason", "it is on time"]).await;
    top.press("q");
    assert_eq!(top.ended(5).await, 0);
    // Ctrl-C ends it as well, and the terminal is given back.
    let mut top = Terminal::start(&bin_dir().join("tidegate"), &args);
    top.shows("  yes", 10).await;
    top.press("\u{3}");
    assert_eq!(top.ended(5).await, 130);
}

async fn the_history_names_who_and_why(site: &Site) {
    let history = done(site, &["history", "--json"]).await.json();
    let history = history.as_array().unwrap();
    let whys: Vec<&str> = history.iter().map(|change| change["reason"].as_str().unwrap()).collect();
    assert_eq!(
        whys,
        // A replay is noted as it begins, and as it ends.
        [
            "it is on time",
            "it is late",
            "it is done",
            "the other system sends",
            "corrected",
            "typo",
            "left the list",
            "it is lifted",
            "it is lifted",
        ]
    );
    assert!(history.iter().all(|change| !change["by"].as_str().unwrap().is_empty()));
}

/// The local deployment switches the ledger's expiry on, which ministack leaves off; without it the doctor finds that.
async fn the_doctor_finds_what_is_wrong_and_then_nothing(site: &Site) {
    let switch = async |is_on| {
        let expiry = TimeToLiveSpecification::builder().attribute_name("expires_at").enabled(is_on);
        aws_sdk_dynamodb::Client::new(&site.sdk)
            .update_time_to_live()
            .table_name(site.aws.stack.output("LedgerTable").unwrap())
            .time_to_live_specification(expiry.build().unwrap())
            .send()
            .await
            .unwrap();
    };
    switch(false).await;
    let found = tidegate(site, &["doctor", "--json"]).await;
    assert_eq!((found.code, checks(&found, "failed")), (1, vec!["ledger: expiry".to_owned()]));
    switch(true).await;
    let found = tidegate(site, &["doctor", "--json"]).await;
    let wrong = (checks(&found, "failed"), checks(&found, "unknown"));
    assert_eq!((found.code, wrong), (0, (vec![], vec![])), "{found:?}");
    assert_eq!(checks(&found, "warning"), ["express: after a pause", "senders"], "{found:?}");
    assert!(checks(&found, "ok").len() > 15, "{found:?}");
}

fn checks(run: &Run, state: &str) -> Vec<String> {
    let report = run.json();
    let findings = report["findings"].as_array().unwrap().iter();
    let found = findings.filter(|finding| finding["state"] == state);
    found.map(|finding| finding["check"].as_str().unwrap().to_owned()).collect()
}

/// A file of 30 rows, of which SES refuses one; and the command that sends it.
fn campaign(folder: &Path) -> Vec<String> {
    let rows = (0..30).map(|row| match row {
        7 => format!("{row},x@refused.example,Row {row}"),
        _ => format!("{row},to{row}@example.com,Row {row}"),
    });
    let rows: Vec<String> = std::iter::once("id,to,name".to_owned()).chain(rows).collect();
    let template = "<title>Hello {{ name }}</title><p>News for {{ name }}.</p>";
    let (file, html) = (folder.join("november.csv"), folder.join("mail.html"));
    std::fs::write(&file, rows.join("\n")).unwrap();
    std::fs::write(&html, template).unwrap();
    let path = |path: &Path| path.display().to_string();
    let journal = folder.join("november.journal");
    let args = [
        "send",
        &path(&file),
        "--campaign",
        "small",
        "--template",
        &path(&html),
        "--from",
        "news@example.org",
        "--journal",
        &path(&journal),
    ];
    args.map(str::to_owned).to_vec()
}

async fn a_file_is_sent_found_again_and_accounted_for(site: &mut Site) {
    site.change(json!({ "faults": ["BadRequestException,status=400,to=*@refused.example"] })).await;
    let folder = site.aws.folder.clone();
    let mut args = campaign(&folder);
    let journal = folder.join("november.journal").display().to_string();
    // A misspelt column is found before anything is sent.
    let html = folder.join("mail.html");
    let template = std::fs::read_to_string(&html).unwrap();
    std::fs::write(&html, template.replace("{{ name }}.", "{{ nmae }}.")).unwrap();
    let misspelt: Vec<&str> = args.iter().map(String::as_str).collect();
    let refused = tidegate(site, &misspelt).await;
    assert!(refused.code == 2 && refused.out.contains("nmae"), "{refused:?}");
    assert_eq!(site.depth(SMALL).await, QueueDepth::default());
    std::fs::write(&html, template).unwrap();

    args.extend(on(site));
    let mut send = Terminal::start(&bin_dir().join("tidegate"), &args);
    send.shows("[y/N]", 10).await;
    send.press("y\r");
    assert_eq!(send.ended(10).await, 0, "{}", send.shown());
    site.wait_for(29, 50).await;
    site.counters_with("dead", 1).await;

    let why = done(site, &["why", "3", "--campaign", "small"]).await;
    assert!(why.out.contains("sent"), "{why:?}");
    let dead = done(site, &["dead", "list", "--json"]).await;
    assert!(
        dead.out.contains("BadRequestException") && !dead.out.contains("x@refused"),
        "{dead:?}"
    );
    let why = done(site, &["why", "7", "--campaign", "small"]).await;
    assert!(why.out.contains("BadRequestException"), "{why:?}");
    done(site, &["results", &journal]).await;

    // Shown is not done.
    site.change(json!({ "faults": [] })).await;
    done(site, &["dead", "replay", "--code", "BadRequestException"]).await;
    assert_eq!(site.depth(DEAD_LETTERS).await.visible, 1);
    let go = [
        "dead",
        "replay",
        "--code",
        "BadRequestException",
        "--go",
        "--yes",
        "--reason",
        "it is lifted",
    ];
    done(site, &go).await;
    site.wait_for(30, 40).await;
    site.counters_with("mails", 30).await;
    assert_eq!(site.depth(DEAD_LETTERS).await, QueueDepth::default());
    let accounted = done(site, &["results", &journal, "--json"]).await;
    let accounted: Value = serde_json::from_str(&accounted.out).unwrap();
    assert_eq!(accounted["by_status"], json!({ "sent": 30 }), "{accounted}");
}

async fn an_excluded_recipient_gets_no_mail(site: &mut Site) {
    let exclude = ["exclude", "add", "--address", "out@example.com", "--reason", "left the list"];
    done(site, &[&exclude[..], &["--yes"]].concat()).await;
    // A window that was claimed before knows the list as it was.
    sleep(Duration::from_secs(2)).await;
    let before = site.look().await.len();
    site.put(SMALL, &[mail("Out@Example.com"), mail("in@example.com")]).await;
    site.fire().await;
    site.counters_with("excluded", 1).await;
    site.wait_for(before + 1, 20).await;
    site.wait_until_empty(20).await;
    assert_eq!(site.look().await.len(), before + 1);
}

#[tokio::test]
async fn an_operator_steers_a_running_stack_from_a_terminal() {
    let parameters = [("Deduplication", "resend"), ("Unsent", "release")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut site = Site::start(|setup| setup.parameters.extend(parameters)).await;
    site.fire().await;
    a_file_is_sent_found_again_and_accounted_for(&mut site).await;
    an_excluded_recipient_gets_no_mail(&mut site).await;
    let plan = plan(2_000, 400);
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(72, 20).await;
    it_is_paused_and_resumed_within_two_seconds(&mut site).await;
    it_is_capped_and_uncapped(&mut site).await;
    a_terminal_shows_it_and_steers_it(&site).await;
    the_history_names_who_and_why(&site).await;
    the_doctor_finds_what_is_wrong_and_then_nothing(&site).await;
    let stats = site.stats().await;
    // The one that the test asked for, and none for the rate.
    assert_eq!(stats.refused, [("BadRequestException".to_owned(), 1)].into(), "{stats:?}");
}
