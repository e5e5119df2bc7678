//! Runs `tidegate deferred`: lists deferred mail, or replays it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::format::{bytes, count, counted, span};
use tidegate_core::identity::EpochMillis;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::back_pressure::destinations;
use tidegate_delivery::ports::{
    Clock as _, DeferralStore, DeferredObject, DeferredPage, Entropy as _, PortError,
};
use tidegate_delivery::replay::{Bounds, BroughtBack, DeferralReplayPorts, Why, bring_back};

use crate::page::{Page, TextTable, Tone, View};
use crate::shell::{CommandEnd, CommandError, ConfirmArgs, Shell, stop_unless_confirmed};
use crate::stack::OnStack;

/// Objects whose progress is asked for at once.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deferred {
    pub objects: u64,
    /// Mails; an object that is partly replayed counts with all of its mails.
    pub mails: u64,
    pub bytes: u64,
    /// The window of the oldest object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Window>,
}

impl Deferred {
    fn add(&mut self, window: Window, mails: u64, bytes: u64) {
        self.objects += 1;
        self.mails += mails;
        self.bytes += bytes;
        self.oldest = Some(self.oldest.map_or(window, |oldest| oldest.min(window)));
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeferredList {
    pub location: String,
    #[serde(flatten)]
    pub all: Deferred,
    pub campaigns: BTreeMap<String, Deferred>,
    /// Campaigns with deferred mail that the stack does not have, so that the mail cannot be
    /// replayed.
    pub unknown_campaigns: Vec<String>,
    pub strange: Vec<String>,
    #[serde(skip)]
    pub now: EpochMillis,
}

/// Lists all objects.
///
/// # Errors
/// [`PortError`]; never a part of the list.
pub async fn list(
    deferral: &impl DeferralStore,
    location: &str,
    campaigns: &[String],
    now: EpochMillis,
) -> Result<DeferredList, PortError> {
    let DeferredPage { objects, strange, .. } = stored(deferral).await?;
    let (mut all, mut of) = (Deferred::default(), BTreeMap::<String, Deferred>::new());
    for DeferredObject { name, bytes } in objects {
        all.add(name.window, name.mails, bytes);
        of.entry(name.campaign).or_default().add(name.window, name.mails, bytes);
    }
    let unknown_campaigns = of.keys().filter(|name| !campaigns.contains(name)).cloned().collect();
    let location = location.to_owned();
    Ok(DeferredList { location, all, campaigns: of, unknown_campaigns, strange, now })
}

/// Counts the mails of a campaign that no replay has brought back yet, also those of objects that are
/// partly replayed.
///
/// # Errors
/// [`PortError`]; never a part of the count.
pub async fn left(deferral: &impl DeferralStore, campaign: &str) -> Result<u64, PortError> {
    let of = async |object: DeferredObject| {
        let progress = deferral.progress(&object.name).await?;
        let back = progress.map_or(0, |(progress, _)| progress.count() as u64);
        Ok::<_, PortError>(object.name.mails.saturating_sub(back))
    };
    let mut own = stored(deferral).await?.objects;
    own.retain(|object| object.name.campaign == campaign);
    let counts = stream::iter(own).map(of).buffer_unordered(AT_ONCE);
    counts.try_fold(0, |sum, mails| async move { Ok(sum + mails) }).await
}

/// As [`left`] of a stack; none where deferral is off.
pub(crate) async fn left_of(campaign: &str, stack: &Stack) -> Result<u64, PortError> {
    let Some(location) = stack.deferral() else { return Ok(0) };
    left(&stack.clients().deferral(location), campaign).await
}

/// All that is stored, as one page.
async fn stored(deferral: &impl DeferralStore) -> Result<DeferredPage, PortError> {
    let mut all = deferral.list(None).await?;
    while let Some(after) = all.next.take() {
        let page = deferral.list(Some(&after)).await?;
        all.objects.extend(page.objects);
        all.strange.extend(page.strange);
        all.next = page.next;
    }
    Ok(all)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeferralReplayReport {
    /// The mails that were replayed, and those that were left.
    #[serde(flatten)]
    pub done: BroughtBack,
    pub interrupted: bool,
}

impl View for DeferredList {
    fn view(&self, page: &mut Page) {
        if self.all.objects == 0 {
            page.line(Tone::Good, format!("nothing is deferred in {}", self.location));
        } else {
            let mails = counted(self.all.mails, "message");
            let objects = counted(self.all.objects, "object");
            page.heading(format!("{mails} deferred, {objects} in {}", self.location));
            let columns = ["campaign", "messages", "objects", "size", "oldest"];
            let mut table = TextTable::new(columns).right(1).right(2).right(3).right(4);
            for (name, deferred) in &self.campaigns {
                table.row([
                    name.clone(),
                    count(deferred.mails),
                    count(deferred.objects),
                    bytes(deferred.bytes),
                    self.oldest(deferred),
                ]);
            }
            page.table(table);
        }
        if !self.unknown_campaigns.is_empty() {
            let names = self.unknown_campaigns.join(", ");
            page.line(
                Tone::Warning,
                format!("there is no campaign {names}: its messages cannot be replayed"),
            );
        }
        if !self.strange.is_empty() {
            let strange = counted(self.strange.len() as u64, "object");
            page.line(Tone::Warning, format!("also stored there: {strange} of other software"));
        }
    }
}

impl DeferredList {
    fn oldest(&self, deferred: &Deferred) -> String {
        let ago = |oldest: Window| Timestamp::from(self.now).saturating_since(oldest.opens());
        deferred.oldest.map_or_else(String::new, |oldest| format!("{} ago", span(ago(oldest))))
    }
}

impl View for DeferralReplayReport {
    fn view(&self, page: &mut Page) {
        let done = &self.done;
        let mails = counted(done.mails, "message");
        let tone = if done.is_all() { Tone::Good } else { Tone::Plain };
        page.line(tone, format!("{mails} brought back to their queues"));
        let mut table = TextTable::new(["campaign", "messages"]).right(1);
        for (name, mails) in &done.campaigns {
            table.row([name.clone(), count(*mails)]);
        }
        if !done.campaigns.is_empty() {
            page.table(table);
        }
        for left in &done.left {
            let why = match &left.why {
                Why::NoCampaign => format!("there is no campaign {}", left.campaign),
                Why::Held => format!("the campaign {} is held", left.campaign),
                Why::Taken => "another process replays it now".to_owned(),
                Why::Unreadable(said) => said.clone(),
                Why::Refused(code) => format!("the queue refused some of it ({code})"),
            };
            page.line(Tone::Warning, format!("left: {}: {why}", left.object));
        }
        if self.interrupted {
            page.line(Tone::Warning, "interrupted: run the same command again to continue");
        } else if !done.through {
            page.line(Tone::Faint, "the limit was reached; there is more");
        }
    }
}

/// Show deferred mail, or bring it back
///
/// Without a command it is listed, by campaign.
///
/// While the level is above clear, mail that is not urgent is taken out of its queue and written to S3,
/// an object a campaign and second. The scheduler brings it back, the oldest first, once the level has
/// been clear for ten minutes.
///
/// Exit code: 0; 2 where deferral is off; 3 where the stack or S3 cannot be reached. `replay` has more.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DeferredArgs {
    #[command(subcommand)]
    command: Option<DeferredCommand>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

#[derive(Clone, Debug, Subcommand)]
enum DeferredCommand {
    /// Show what is deferred, by campaign
    List,
    /// Bring it back to its campaigns' queues, the oldest first
    Replay(ReplayArgs),
}

/// Bring it back to its campaigns' queues, the oldest first
///
/// Killed anywhere it loses nothing, and the same command goes on where it was. While the level is above
/// clear nothing is brought back: it would be deferred again.
///
/// Exit code: 0 all that was meant is back; 1 some was left, or the level is above clear; 2 an option is
/// wrong or deferral is off; 3 a service failed, run it again; 4 not confirmed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate deferred replay                            all of it, after asking
  tidegate deferred replay --campaign big --limit 1000 --yes")]
struct ReplayArgs {
    /// Of this campaign alone
    #[arg(long, value_name = "NAME")]
    campaign: Option<String>,
    /// So many mails at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Bring it back whatever the level: what is deferred by then is deferred again
    #[arg(long)]
    even_if_deferred: bool,
    #[command(flatten)]
    ask: ConfirmArgs,
}

pub(crate) async fn run(args: &DeferredArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let location = stack.deferral().ok_or_else(|| {
        let said = "deferral is off in this stack: its functions have no TIDEGATE_DEFERRAL";
        CommandError::Input(said.to_owned())
    })?;
    let deferral = stack.clients().deferral(location.clone());
    let (standing, campaigns) = stack.standing().await?;
    let names: Vec<String> = campaigns.iter().map(|campaign| campaign.name.clone()).collect();
    let clock = stack.clock();
    let location = location.to_string();
    let listed = || list(&deferral, &location, &names, clock.wall().into());
    let Some(DeferredCommand::Replay(args)) = &args.command else {
        return shell.done(&listed().await?);
    };
    if let Some(unknown) = args.campaign.as_ref().filter(|name| !names.contains(name)) {
        let known = names.join(", ");
        return Err(CommandError::Input(format!(
            "there is no campaign {unknown}; there is {known}"
        )));
    }
    let level = standing.control.level(clock.wall().into());
    if level > BackPressureLevel::Clear && !args.even_if_deferred {
        let said =
            format!("The level is {level}: what is brought back now would be deferred again.");
        shell.output.remark(Tone::Warning, said);
        return Ok(CommandEnd::ProblemsFound);
    }
    let listed = listed().await?;
    let of = match &args.campaign {
        Some(name) => listed.campaigns.get(name).copied().unwrap_or_default(),
        None => listed.all,
    };
    let mails = args.limit.map_or(of.mails, |limit| limit.min(of.mails));
    let question = format!("Bring {} back to their queues?", counted(mails, "message"));
    if mails > 0
        && let Some(ended) = stop_unless_confirmed(args.ask, shell, &question).await?
    {
        return Ok(ended);
    }
    let destinations = destinations(&campaigns, &standing, clock.wall());
    let (queues, me) = (stack.queues(), SystemEntropy.token());
    let site = DeferralReplayPorts {
        deferral: &deferral,
        queues: &queues,
        clock: &clock,
        destinations: &destinations,
        me: &me,
    };
    let bounds = Bounds {
        mails: args.limit.unwrap_or(u64::MAX),
        until: None,
        campaign: args.campaign.clone(),
    };
    let done = RefCell::default();
    let (ended, interrupted) = tokio::select! {
        ended = bring_back(site, &bounds, &done) => (ended, false),
        () = shell.interrupted() => (Ok(()), true),
    };
    let report = DeferralReplayReport { done: done.take(), interrupted };
    shell.show(&report)?;
    ended?;
    Ok(match report {
        DeferralReplayReport { interrupted: true, .. } => CommandEnd::Interrupted,
        DeferralReplayReport { done, .. } if done.left.is_empty() => CommandEnd::Done,
        DeferralReplayReport { .. } => CommandEnd::ProblemsFound,
    })
}

#[cfg(test)]
mod tests;
