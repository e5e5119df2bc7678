//! A list in S3 that the stack makes mail of, while its programs die and its template is replaced.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::crashes::kill_all;
use crate::site::{Site, bin_dir};
use crate::traces::get;

const ROWS: usize = 20_000;
const RATE: f64 = 100.0;

/// A mail in the sandbox's mailbox.
#[derive(Debug, Deserialize)]
struct Mail {
    seq: u64,
    to: Vec<String>,
    subject: String,
}

/// Runs a command on the site's stack in a folder of its own.
async fn tidegate(site: &Site, folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(std::path::absolute(bin_dir()).unwrap().join("tidegate"));
    command.args(args).args(["--json", "--local", "--local-runs"]).arg(&site.aws.folder);
    command.current_dir(folder).stdin(Stdio::null()).output().await.unwrap()
}

/// One that ends with exit code 0; its JSON.
async fn done(site: &Site, folder: &Path, args: &[&str]) -> Value {
    let output = tidegate(site, folder, args).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The subjects that each address got.
async fn subjects(site: &Site) -> BTreeMap<String, Vec<String>> {
    let (mut subjects, mut after) = (BTreeMap::<String, Vec<String>>::new(), 0);
    loop {
        let url = format!("{}/_sandbox/mails?limit=1000&after={after}", site.aws.sandbox.url());
        let mails: Vec<Mail> = serde_json::from_str(&get(&url).await.unwrap()).unwrap();
        let Some(last) = mails.last() else { return subjects };
        after = last.seq;
        for mail in mails {
            subjects.entry(mail.to[0].clone()).or_default().push(mail.subject);
        }
    }
}

/// Puts the list into a bucket.
async fn put_list(site: &Site) {
    let mut list = "to,name\n".to_owned();
    for row in 1..=ROWS {
        writeln!(list, "ada{row}@example.com,Ada {row}").unwrap();
    }
    let config = aws_sdk_s3::config::Builder::from(&site.sdk).force_path_style(true).build();
    let s3 = aws_sdk_s3::Client::from_conf(config);
    s3.create_bucket().bucket("lists").send().await.unwrap();
    let put = s3.put_object().bucket("lists").key("2026/news.csv");
    put.body(ByteStream::from(list.into_bytes())).send().await.unwrap();
}

#[tokio::test]
async fn each_of_20_000_uploaded_rows_gets_one_version_of_the_mail_whoever_is_killed() {
    // Alone: filling a queue with thousands of rows takes all of the processor.
    let mut site = Site::alone(|setup| {
        setup.schedule = true;
        setup.settings.plan.quota = RATE;
    })
    .await;
    let folder = TempDir::with_prefix("tidegate-upload-").unwrap();
    let folder = folder.path();
    put_list(&site).await;
    std::fs::write(folder.join("mail.txt"), "Dear {{ name }}, news.").unwrap();
    let mail = ["--text", "mail.txt", "--from", "news@example.org", "--subject"];
    let sent = ["send", "s3://lists/2026/news.csv", "--campaign", "big", "--upload", "--yes"];
    let sent = done(&site, folder, &[&sent[..], &mail, &["first to {{ name }}"]].concat()).await;
    assert_eq!(sent["rows"], ROWS, "{sent}");
    let uploaded = Instant::now();
    // The command woke the stack.
    site.wait_for(1, 60).await;
    println!("the first mail came {:?} after the upload", uploaded.elapsed());

    // In the midst of its first rows, of which three minutes' worth fit on the queue. Its ticks end, too, until the next minute.
    site.wait_for(100, 120).await;
    let mut killed = kill_all(&site, "SchedulerFunction");
    for arrived in [1_500, 3_000] {
        site.wait_for(arrived, 300).await;
        killed += kill_all(&site, "PollerFunction");
    }
    let replaced = ["campaign", "replace-template", "big", "news", "--reason", "typo"];
    let replaced = [&replaced[..], &["--subject", "second to {{ name }}"]].concat();
    let report = done(&site, folder, &replaced).await;
    assert_eq!(report["version"], 2, "{report}");
    println!("{report}");
    for arrived in [6_000, 10_000] {
        site.wait_for(arrived, 300).await;
        killed += kill_all(&site, "PollerFunction");
    }
    killed += kill_all(&site, "SchedulerFunction");
    let until = Instant::now() + Duration::from_mins(8);
    loop {
        let status = done(&site, folder, &["results", "news"]).await;
        if status[0]["stage"] == "done" {
            break;
        }
        assert!(Instant::now() < until, "{status}");
        sleep(Duration::from_secs(5)).await;
    }
    assert!(killed >= 6, "{killed} processes were killed");
    site.wait_until_empty(300).await;

    // Without deduplication nothing tells of a row whether it was sent, and a killed poller counted nothing: some are missing by
    // the counts. Which version each got stands in the ledger.
    let said = tidegate(&site, folder, &["results", "news", "--csv", "results.csv"]).await;
    assert!([Some(0), Some(1), Some(5)].contains(&said.status.code()), "{said:?}");
    let results = std::fs::read_to_string(folder.join("results.csv")).unwrap();
    let mut subjects = subjects(&site).await;
    let (mut versions, mut again) = (BTreeMap::<&str, usize>::new(), 0);
    for (row, line) in (1..).zip(results.lines().skip(1)) {
        let cells: Vec<&str> = line.split(',').collect();
        let (to, version) = (cells[0], *cells.last().unwrap());
        assert_eq!((to, cells[1]), (&*format!("ada{row}@example.com"), &*row.to_string()));
        *versions.entry(version).or_default() += 1;
        let which = if version == "1" { "first" } else { "second" };
        let got = subjects.remove(to).unwrap_or_default();
        let meant = format!("{which} to Ada {row}");
        assert!(!got.is_empty() && got.iter().all(|got| *got == meant), "{line}: {got:?}");
        again += got.len() - 1;
    }
    println!("rows by version: {versions:?}; {again} mails came again, {killed} processes killed");
    assert_eq!(versions.values().sum::<usize>(), ROWS);
    assert!(versions.len() == 2 && versions["2"] > ROWS / 20, "{versions:?}");
    assert!(subjects.is_empty(), "{subjects:?}");
    // Of each poller what it had not deleted; the merge queue drops what a scheduler enqueues twice.
    assert!(again as u64 <= killed * 100, "{again} came again, {killed} were killed");
}
