//! The same input once more.

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_operate::page::Page;
use tidegate_operate::send::{
    DryRun, Estimate, RestartError, Resume, RunEnd, RunState, SendReport, check_resend, restart_run,
};

use super::world::{FILE, Journal, KEPT, World, checked, draft, recipients};

const OWN_IDS: &str = "id,to,first_name,token\n7,a@example.com,A,t\n8,b@example.com,B,t\n";

/// A folder of journals, gone when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn journal(&self, run: &str) -> PathBuf {
        self.0.join(format!("big-{run}.journal"))
    }

    fn write(&self, run: &str, journal: &Journal) {
        fs::write(self.journal(run), &journal.0).unwrap();
    }

    fn restart(&self) -> Result<String, RestartError> {
        let (run, journal) = restart_run("nov", |_, run| self.journal(run), true)?;
        assert_eq!(journal, self.journal(&run));
        Ok(run)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run that is interrupted, its journal then, and its journal at its end.
async fn interrupted_and_ended() -> (SendReport, Journal, Journal) {
    let world = World::new(1);
    let csv = recipients(200);
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(20));
    let report = world.run(&csv, &mut journal, stop).await.unwrap();
    assert_eq!(report.ended, RunEnd::Interrupted);
    let interrupted = journal.clone();
    let ended = world.run(&csv, &mut journal, pending()).await.unwrap();
    assert_eq!(ended.ended, RunEnd::Done);
    (report, interrupted, journal)
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_restart_is_gone_on_with_and_not_begun_once_more() {
    let (_, interrupted, ended) = interrupted_and_ended().await;
    let folder = Folder::new("restarts");
    folder.write("nov", &interrupted);
    assert_eq!(folder.restart().unwrap(), "nov-2");
    // Killed before anything stood in its journal: nothing was sent.
    folder.write("nov-2", &Journal::default());
    assert_eq!(folder.restart().unwrap(), "nov-2");
    folder.write("nov-2", &interrupted);
    let error = folder.restart().unwrap_err().to_string();
    let said = "the restart nov-2 is unfinished; nothing was sent. To go on with it: --run nov-2 \
                instead of --restart; to leave it as well, and send everything once more: --again \
                NAME";
    assert_eq!(error, said);
    folder.write("nov-2", &ended);
    assert_eq!(folder.restart().unwrap(), "nov-3");
    // The newest counts, whichever of those before it are gone.
    folder.write("nov-7", &interrupted);
    assert!(folder.restart().unwrap_err().to_string().contains("--run nov-7"));
    folder.write("nov-7", &ended);
    assert_eq!(folder.restart().unwrap(), "nov-8");
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_a_journal_of_its_own_is_gone_on_with_by_both_options() {
    let (_, interrupted, _) = interrupted_and_ended().await;
    let folder = Folder::new("own-journal");
    let path = folder.0.join("x.2.journal");
    fs::write(&path, &interrupted.0).unwrap();
    let nth = |n: u32, _: &str| folder.0.join(format!("x.{n}.journal"));
    let error = restart_run("nov", nth, false).unwrap_err().to_string();
    let said = format!("--run nov-2 --journal {} instead of --restart", path.display());
    assert!(error.contains(&said), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_restart_s_report_names_the_options_that_go_on_with_it() {
    let (report, ..) = interrupted_and_ended().await;
    let left = report.left();
    let same = format!("{left} mails not enqueued: run the same command again");
    assert_eq!(report.unfinished().to_string(), same);
    for (journal, options) in [
        (None, "--run nov-2"),
        (Some(Path::new("x.2.journal")), "--run nov-2 --journal x.2.journal"),
    ] {
        let report = SendReport { resume: Some(Resume::new("nov-2", journal)), ..report.clone() };
        let page = Page::of(&report).plain();
        let last = format!(
            "Run the command again with {options} instead of --restart: it goes on with the rows \
             that are left."
        );
        assert_eq!(page.trim_end().lines().last(), Some(last.as_str()));
        let said = report.unfinished().to_string();
        assert!(said.ends_with(&format!("with {options} instead of --restart")), "{said}");
    }
}

#[test]
fn mails_that_the_deduplication_would_delete_are_not_sent_once_more() {
    let own = checked(&draft(), OWN_IDS).unwrap();
    let made = checked(&draft(), &recipients(2)).unwrap();
    assert_eq!((own.given_ids, made.given_ids), (2, 0));
    for option in ["--again", "--restart"] {
        assert!(check_resend(option, &made, KEPT).is_ok());
        assert!(check_resend(option, &own, None).is_ok());
        let error = check_resend(option, &own, KEPT).unwrap_err().to_string();
        let said = format!(
            "{option}: 2 ids of the input's own, and deduplication deletes a mail whose id \
             was sent within 15 days; nothing was sent. "
        );
        assert!(error.starts_with(&said), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_asked_whether_mails_may_be_deleted_whose_ids_are_the_input_s_own() {
    let world = World::new(1);
    let estimate = Estimate::default;
    let made = recipients(2);
    for (csv, kept, deletes) in
        [(OWN_IDS, KEPT, true), (OWN_IDS, None, false), (made.as_str(), KEPT, false)]
    {
        let checked = checked(&draft(), csv).unwrap();
        let header = world.header(&checked);
        let dry = DryRun::new((FILE, "j"), &header, &RunState::New, &checked, kept, estimate());
        let said = "2 ids of the input's own: a mail whose id was sent within 15 days is deleted, \
                    not sent";
        assert_eq!(Page::of(&dry).plain().contains(said), deletes);
        let question = dry.question();
        assert_eq!(question.contains(said), deletes, "{question}");
        assert!(question.ends_with('?'), "{question}");
    }
}
