//! Programs that die, or go away and come back, in the middle of a campaign.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tidegate_devstack::{LocalPlan, Setup};
use tokio::time::{Instant, sleep};

use crate::site::{DEAD_LETTERS, QUOTA, Site, checkout, now, plan};
use crate::traces::get;

/// What holds whatever died: nothing lost, nothing above the quota; and no mail arrived again but such
/// as a poller sent that never reported. A poller reports when all that it sent is deleted. How many
/// mails were not reported: at most `most`.
async fn kept(site: &mut Site, plan: &LocalPlan, most: u64) -> u64 {
    site.complete(plan, 100).await;
    let figures = site.figures(plan);
    assert_eq!((figures.missing, figures.foreign), (0, 0));
    let arrivals = site.arrivals().len() as u64;
    let until = Instant::now() + Duration::from_secs(10);
    let unreported = loop {
        let (_, counters) = site.ledger().await;
        let unreported = arrivals - counters["mails"].unsigned_abs();
        if unreported <= most {
            break unreported;
        }
        assert!(Instant::now() < until, "{unreported} of {arrivals} not reported: {counters:?}");
        sleep(Duration::from_millis(200)).await;
    };
    let again = figures.duplicates;
    println!("{arrivals} arrivals, {again} of them again, {unreported} not reported");
    assert!(again <= unreported, "{again} arrived again, {unreported} were not reported");
    let stats = site.stats().await;
    assert!(stats.refused.is_empty(), "{stats:?}");
    assert!(stats.worst_sliding_second_offered <= QUOTA, "{stats:?}");
    unreported
}

/// Waits for the middle of a second: its window's poller has sent some of its mails.
async fn middle_of_a_window() {
    let (second, middle) = (1_000_000_000, 600_000_000);
    let into = now().as_nanos() % second;
    sleep(Duration::from_nanos((second + middle - into) % second)).await;
}

/// Kills every process of a function, whatever it is doing; how many there were.
#[cfg(target_os = "linux")]
pub(crate) fn kill_all(site: &Site, function: &'static str) -> u64 {
    let processes = site.processes(function);
    for id in &processes {
        // One that has just ended by itself is as dead.
        let _ = kill_process(*id, Signal::KILL);
    }
    processes.len() as u64
}

#[cfg(target_os = "linux")]
fn kill_pollers(site: &Site) -> u64 {
    kill_all(site, "PollerFunction")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn killed_pollers_lose_no_mail_and_double_only_what_they_had_not_deleted() {
    let plan = plan(225, 25);
    let mut site = Site::strict(|setup| setup.schedule = true).await;
    site.fill(&plan).await;
    site.fire().await;
    let mut killed = 0;
    for arrivals in [30, 80, 130] {
        site.wait_for(arrivals, 40).await;
        middle_of_a_window().await;
        killed += kill_pollers(&site);
    }
    // A poller serves one window at a time.
    let unreported = kept(&mut site, &plan, killed * QUOTA).await;
    assert!(unreported > 0, "{killed} pollers were killed, and none had sent a mail");
}

/// Deduplication on the real table: each mail arrived once, or was parked, or both (its poller died
/// between SES's answer and the mark).
#[cfg(target_os = "linux")]
#[tokio::test]
async fn killed_pollers_double_nothing_under_deduplication_that_parks() {
    let plan = plan(108, 12);
    let change = |setup: &mut Setup| {
        setup.schedule = true;
        setup.parameters.push(("Deduplication".to_owned(), "park".to_owned()));
    };
    let mut site = Site::strict(change).await;
    site.fill(&plan).await;
    site.fire().await;
    for arrivals in [20, 50] {
        site.wait_for(arrivals, 40).await;
        middle_of_a_window().await;
        kill_pollers(&site);
    }
    site.wait_until_empty(120).await;
    let copies = site.copies().await;
    let twice: Vec<_> = copies.iter().filter(|(_, mail)| mail.arrived_ns.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let letters = usize::try_from(site.depth(DEAD_LETTERS).await.visible).unwrap();
    let mut known: BTreeSet<String> = copies.into_keys().collect();
    let (arrived, mut parked) = (known.len(), 0);
    for letter in site.dead_letters(letters, 20).await {
        assert_eq!(letter.last_error.code.as_deref(), Some("unknown"), "{letter:?}");
        let body: Value = serde_json::from_str(&letter.message).unwrap();
        known.insert(format!("{}/id/{}", letter.campaign, body["id"].as_str().unwrap()));
        parked += 1;
    }
    println!("{arrived} arrived, {parked} parked");
    assert_eq!(known.len(), 120, "{arrived} arrived, {parked} parked");
    assert!(parked > 0, "two kills hid no mail");
}

/// ministack as a program that keeps what it holds when it is asked to end, and starts again when it
/// is let. The program, `restarting.sh`, is a file of the checkout: one that is written here could not
/// be started as long as another test's new process holds it open for writing (`ETXTBSY`).
struct Restarting {
    folder: TempDir,
}

impl Restarting {
    fn create(python: &Path) -> Self {
        let folder = TempDir::with_prefix("tidegate-restarting-").unwrap();
        let program = checkout("tests/tests/end_to_end/restarting.sh");
        symlink(program.canonicalize().unwrap(), folder.path().join("python")).unwrap();
        std::fs::write(folder.path().join("program"), python.as_os_str().as_bytes()).unwrap();
        Self { folder }
    }

    /// The Python to give to a site.
    fn python(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    /// Ends ministack, and with it SQS, `DynamoDB`, Lambda and `EventBridge`. The functions' processes
    /// live on, with nobody to talk to but SES.
    async fn stop(&self, site: &Site) {
        std::fs::write(self.folder.path().join("down"), "").unwrap();
        let port = site.aws.endpoint().rsplit_once(':').unwrap().1;
        let file = site.aws.folder.join(format!("tmp/ministack-{port}.pid"));
        let id = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let ministack = Pid::from_raw(id).unwrap();
        kill_process(ministack, Signal::TERM).unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while test_kill_process(ministack).is_ok() {
            assert!(Instant::now() < until, "ministack does not end");
            sleep(Duration::from_millis(50)).await;
        }
        assert!(self.folder.path().join("state/sqs.json").is_file(), "it kept nothing");
    }

    /// Starts it again, with what it held.
    async fn start(&self, site: &Site) {
        std::fs::remove_file(self.folder.path().join("down")).unwrap();
        let ready = format!("{}/_ministack/ready", site.aws.endpoint());
        let until = Instant::now() + Duration::from_secs(30);
        while get(&ready).await.is_err() {
            assert!(Instant::now() < until, "ministack does not start again");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn an_outage_of_sqs_ledger_and_lambda_in_mid_campaign_loses_no_mail() {
    let plan = plan(225, 25);
    let mut restarting = None;
    let mut site = Site::strict(|setup| {
        setup.schedule = true;
        let ministack = Restarting::create(&setup.python);
        setup.python = ministack.python();
        restarting = Some(ministack);
    })
    .await;
    let restarting = restarting.unwrap();
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(60, 40).await;
    middle_of_a_window().await;
    restarting.stop(&site).await;
    // The poller that was serving tries its deletes again as long as it lives: its time-out is 15 s. Later it
    // could still report what it could not delete.
    sleep(Duration::from_secs(15)).await;
    let before = site.look().await.len() as u64;
    assert!(before < plan.mails(), "the outage was to come in mid-campaign");
    restarting.start(&site).await;
    site.fire().await;
    // What was under way: a window that was served, one that was prepared, and two not yet settled.
    kept(&mut site, &plan, 4 * QUOTA).await;
}
