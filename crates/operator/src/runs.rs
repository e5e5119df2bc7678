use std::time::SystemTime;

use crate::page::{Page, Span, TextTable, Tone, View};
use clap::Args;
use serde::Serialize;
use tidegate_adapters::aws::stack::{KnownRun, LocalRuns};
use tidegate_core::format::time;
use tidegate_core::identity::EpochMillis;

use crate::shell::{CommandResult, OutputArgs, Shell};

/// List the local runs of this user, the newest first
///
/// A run that answers can be named to every command: --local=RUN. The report and the logs of one that has
/// ended are in its folder.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate runs
  tidegate status --local=run-20261120-203607")]
pub struct RunsArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct ListedRun {
    run: String,
    answers: bool,
    began: EpochMillis,
    stack: String,
    endpoint: String,
    folder: String,
}

impl From<KnownRun> for ListedRun {
    fn from(run: KnownRun) -> Self {
        let began = run.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            run: run.name,
            answers: run.answers,
            began: EpochMillis::new(u64::try_from(began.as_millis()).unwrap_or(u64::MAX)),
            stack: run.endpoint.stack,
            endpoint: run.endpoint.endpoint,
            folder: run.folder.display().to_string(),
        }
    }
}

#[derive(Debug, Serialize)]
struct RunList {
    runs: Vec<ListedRun>,
}

impl View for RunList {
    fn view(&self, page: &mut Page) {
        if self.runs.is_empty() {
            return page.line(Tone::Faint, "no local run is known; `make run KEEP=1` starts one");
        }
        let mut table = TextTable::new(["run", "", "began", "AWS", "folder"]);
        for run in &self.runs {
            let (tone, state) =
                if run.answers { (Tone::Good, "runs") } else { (Tone::Faint, "ended") };
            table.row([
                Span::new(Tone::Strong, &run.run),
                Span::new(tone, state),
                Span::from(time(run.began)),
                Span::from(&run.endpoint),
                Span::from(&run.folder),
            ]);
        }
        page.table(table);
    }
}

pub(crate) async fn run(shell: &Shell) -> CommandResult {
    let runs = LocalRuns::of_user().list().await.into_iter().map(ListedRun::from).collect();
    shell.done(&RunList { runs })
}
