//! `tidegate campaign`: what may be changed of a campaign's runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidegate_core::draft::{CampaignDraft, DraftContent, InputFault, TemplatePart};
use tidegate_core::runs::RUNS_KEPT;
use tidegate_delivery::ports::{Clock as _, History as _, Runs as _};

use crate::page::Tone;
use crate::send::{FaultReport, ReplaceError, read_sources, replace_draft};
use crate::shell::{CommandError, CommandResult, Shell};
use crate::stack::OnStack;
use crate::steer::command::AuthorArgs;

/// Faults after which the rest of the rows is not looked at.
const MOST_FAULTS: usize = 20;

/// Change what a campaign's runs send
///
/// A run of `tidegate send --upload` has its templates in the stack's store, where they can be replaced while it is under
/// way.
#[derive(Clone, Debug, Args)]
pub struct CampaignArgs {
    #[command(subcommand)]
    pub(crate) command: CampaignCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CampaignCommand {
    ReplaceTemplate(Box<ReplaceArgs>),
}

/// Replace templates of a run that was begun with `send --upload`
///
/// Every row that is left is checked with the new templates first; one fault, and nothing is changed. They hold for rows
/// that are not enqueued yet, from the scheduler's next minute on: `tidegate results RUN` says which rows got which
/// version. Rows that wait on the campaign's queue, at most for three minutes, have the former one.
///
/// Exit code: 0 replaced; 2 a template, a row, an option or the run's name is wrong, nothing was changed; 3 a service failed.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  tidegate campaign replace-template big november --template corrected.html --reason 'typo in the headline'")]
pub(crate) struct ReplaceArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,
    /// The run
    #[arg(value_name = "RUN")]
    run: String,
    /// Template of the HTML body; its <title> becomes the subject, where that was the title before
    #[arg(long, visible_alias = "html", value_name = "FILE")]
    template: Option<PathBuf>,
    /// Template of the text body, or of a text message
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Template of the subject line
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["template", "text"])]
    subject: Option<String>,
    /// As for `tidegate send`
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = ["encoded-placeholder", "foreign-tag", "swallowed-text", "image"])]
    allow: Vec<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &CampaignArgs, shell: &Shell) -> CommandResult {
    let CampaignCommand::ReplaceTemplate(args) = &args.command;
    let subject = [(TemplatePart::Subject, &args.subject)];
    let sources = read_sources(args.template.as_deref(), args.text.as_deref(), subject)?;
    let stack = args.on.stack.open().await?;
    let author = args.author.author(&stack).await;
    author.check().map_err(CommandError::refused)?;
    let (ledger, clock) = (stack.ledger(), stack.clock());
    let runs = ledger.runs(RUNS_KEPT).await?.into_iter().map(|stored| stored.run);
    let of_campaign: Vec<_> = runs.filter(|run| run.campaign == args.campaign).collect();
    let run = of_campaign.iter().find(|run| run.name == args.run).ok_or_else(|| {
        let known: Vec<&str> = of_campaign.iter().map(|run| run.name.as_str()).collect();
        let (campaign, run, known) = (&args.campaign, &args.run, known.join(", "));
        let said = format!("the campaign {campaign} has no run {run}; allowed is: {known}");
        CommandError::Input(said)
    })?;
    let store = stack.store().map(|location| stack.clients().store(location));
    let store = store.ok_or_else(|| {
        let said = "this stack has no store: its functions have no TIDEGATE_STORE";
        CommandError::Input(said.to_owned())
    })?;
    let rules = stack.poller.rules.clone();
    let changed = |mut draft: CampaignDraft| {
        match &mut draft.content {
            DraftContent::Templates(of) => *of = of.replaced(sources, &args.allow)?,
            DraftContent::Text(text) => {
                text.templates = text.templates.replaced(sources, &args.allow)?;
            }
            DraftContent::SesTemplate { name, .. } => {
                let problem = "stands in SES and is changed there; allowed is a run with templates of its own";
                return Err(vec![InputFault::bare(name, 1, "template", problem)]);
            }
        }
        Ok(CampaignDraft { rules, ..draft })
    };
    let report = match replace_draft(run, &store, MOST_FAULTS, changed).await {
        Ok(report) => report,
        Err(ReplaceError::Port(error)) => return Err(CommandError::Service(error)),
        Err(ReplaceError::Rows { faults, more }) => {
            let shown = |fault: InputFault| fault.shown(shell.output.addresses());
            let file = format!("run {}", run.name);
            let said = format!("{file}: nothing was changed");
            let faults = faults.into_iter().map(shown).collect();
            shell.show(&FaultReport { file, faults, more })?;
            return Err(CommandError::Input(said));
        }
        Err(error) => return Err(CommandError::refused(error)),
    };
    let detail = format!("run {}: version {} of its templates", report.run, report.version);
    let mut record = author.record(clock.wall().into(), "replace-template", detail);
    record.campaign = Some(run.campaign.clone());
    if ledger.add(&record).await.is_err() {
        shell.output.remark(Tone::Warning, "The history does not have it.");
    }
    shell.done(&report)
}
