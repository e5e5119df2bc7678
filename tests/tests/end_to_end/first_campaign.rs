//! The page "Your first campaign": its commands run as they stand there, in a shell, one block after the other.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::site::{Site, bin_dir, checkout};

const READERS: usize = 400;

/// The blocks of shell commands on the page.
pub(crate) fn blocks(page: &str) -> Vec<String> {
    let page = std::fs::read_to_string(checkout(page)).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(str::to_owned).collect()
}

/// A folder to work in, and one in which `--local` finds this site's run alone.
pub(crate) fn folders(site: &Site) -> (TempDir, TempDir) {
    let state = TempDir::new().unwrap();
    let runs = state.path().join("tidegate/runs");
    std::fs::create_dir_all(&runs).unwrap();
    symlink(&site.aws.folder, runs.join("first")).unwrap();
    (TempDir::new().unwrap(), state)
}

/// A shell that runs a block.
pub(crate) fn shell(block: &str, (work, state): &(TempDir, TempDir)) -> Command {
    let path = format!("{}:{}", bin_dir().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", block])
        .current_dir(work.path())
        .env("PATH", path)
        .env("XDG_STATE_HOME", state.path())
        .stdin(Stdio::null());
    shell
}

pub(crate) async fn run(block: &str, folders: &(TempDir, TempDir)) {
    let shell = shell(block, folders).output().await.unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&shell.stdout), said(&shell.stderr));
    assert!(shell.status.success(), "{block}\n{:?}\n{out}\n{err}", shell.status);
    println!("{block}\n{out}");
}

/// Waits for so many mails, and fires the scheduler every 50 s, as a rule does every minute.
async fn wait_for(site: &mut Site, mails: usize) {
    let until = Instant::now() + Duration::from_mins(2);
    let mut fire = Instant::now();
    while site.look().await.len() < mails {
        let arrived = site.arrivals().len();
        assert!(Instant::now() < until, "{arrived} of {mails} mails");
        if Instant::now() >= fire {
            site.fire().await;
            fire += Duration::from_secs(50);
        }
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn the_page_your_first_campaign_sends_every_reader_one_mail_and_accounts_for_it() {
    let mut site = Site::start(|setup| {
        setup.parameters.push(("Unsent".to_owned(), "release".to_owned()));
        setup.parameters.push(("Deduplication".to_owned(), "resend".to_owned()));
    })
    .await;
    let folders = folders(&site);
    for block in blocks("docs/first-campaign.md") {
        match block.split(' ').nth(1) {
            Some("pause") => wait_for(&mut site, 60).await,
            Some("cancel" | "'s/exmaple/example/'") => site.fire().await,
            Some("results") => {
                wait_for(&mut site, READERS + 1).await;
                sleep(Duration::from_secs(66)).await;
            }
            _ => {}
        }
        run(&block, &folders).await;
    }
    let results = std::fs::read_to_string(folders.0.path().join("results.csv")).unwrap();
    let of = |status: &str| {
        results.lines().filter(|line| line.split(',').nth(3) == Some(status)).count()
    };
    assert!((200..=340).contains(&of("sent")), "{results}");
    assert_eq!(of("excluded"), READERS - of("sent"), "{results}");
    let mut arrived = BTreeMap::new();
    for mail in site.look().await {
        *arrived.entry(mail.key.clone()).or_insert(0) += 1;
    }
    assert_eq!(arrived.remove("me@example.org"), Some(1));
    assert_eq!(arrived.len(), READERS);
    assert!(arrived.values().all(|mails| *mails == 1), "{arrived:?}");
}
