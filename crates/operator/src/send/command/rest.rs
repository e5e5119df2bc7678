//! `--rest-of`: who has got the mail of a run, and who has not.

use std::io::BufReader;
use std::path::Path;

use crate::dead::{Letter, LetterFilter, LetterWork, ReplayPace};
use crate::redact::AddressVisibility;
use crate::send::{
    AddressList, InputRows, JournalInput, RunKey, add_sent, cancelled_rows, chain, fingerprint_of,
    read_journal, record_rest, rest_name,
};
use crate::steer::Author;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_core::config::Campaign;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::Run;
use tidegate_delivery::ports::{Clock as _, StoredRun};

use super::args::SendArgs;
use super::prepare;
use crate::cancel;
use crate::dead::command::{MOST_LETTERS, act, read};
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell};

/// The rest of a run.
pub(super) struct Rest {
    key: RunKey,
    /// The name of the run that sends it.
    pub(super) name: String,
    /// To whom the run went, or goes.
    pub(super) sent: AddressList,
    /// The mails that its cancel took back.
    cancelled: LetterWork,
}

/// The rest of the run that `--rest-of` names; none if it was interrupted.
pub(super) async fn of(
    args: &SendArgs,
    name: &str,
    campaign: &Campaign,
    known: &[StoredRun],
    stack: &Stack,
    shell: &Shell,
) -> CommandResult<Option<Rest>> {
    let key = RunKey { campaign: campaign.name.clone(), name: name.to_owned() };
    let control = stack.standing().await?.0.control;
    let now = EpochMillis::from(stack.clock().wall());
    let runs =
        chain(known, &key, &control, now).map_err(|error| CommandError::Refused(error.into()))?;
    if control.open_cancels().any(|(name, _)| name == campaign.name)
        && !cancel::taken_off(&campaign.name, stack, shell).await?
    {
        return Ok(None);
    }
    let reading = read(stack, MOST_LETTERS, shell).await?;
    if reading.coverage.interrupted {
        return Ok(None);
    }
    let of_campaign = LetterFilter::cancelled_of(&campaign.name);
    let mut cancelled: Vec<&Letter> = reading.admitted(&of_campaign).collect();
    let rows = cancelled_rows(cancelled.iter().copied());
    let mut sent = AddressList::default();
    for run in &runs {
        let mut run = run.clone();
        let key = RunKey { campaign: run.campaign.clone(), name: run.name.clone() };
        rows.get(&key).into_iter().for_each(|rows| run.returned.extend(rows));
        add_list(&mut sent, &run, args, stack.poller.rules.channel)?;
    }
    let is_own = |key: &RunKey| runs.iter().any(|run| run.name == key.name);
    cancelled.retain(|letter| cancelled_rows([*letter]).keys().any(is_own));
    let cancelled = LetterWork::discard(&of_campaign, &cancelled);
    Ok(Some(Rest { name: rest_name(&runs, name), key, sent, cancelled }))
}

/// Adds the recipients of a run who have got its mail: from this list, if it is the run's own, else from the one that its
/// journal names.
fn add_list(
    sent: &mut AddressList,
    run: &Run,
    args: &SendArgs,
    channel: Channel,
) -> CommandResult<()> {
    let is_own = |path: &Path| {
        let found = prepare::open(path).ok().and_then(|file| fingerprint_of(file).ok());
        found.is_some_and(|found| found == run.input.list)
    };
    let JournalInput { path, format, to_column } = if is_own(&args.file) {
        prepare::journal_input(args, channel)
    } else {
        let journalled = journalled(run).filter(|input| is_own(&input.path));
        journalled.ok_or_else(|| {
            CommandError::Input(format!(
                "{}: this is not the list of run {}, and no journal of it here names one that is; allowed is the run's own list, unchanged",
                args.file.display(),
                run.name
            ))
        })?
    };
    let file = path.display().to_string();
    let input = BufReader::new(prepare::open(&path)?);
    let rows = InputRows::new(&file, format, input)
        .map_err(|fault| CommandError::Input(fault.shown(AddressVisibility::Masked).to_string()))?;
    add_sent(sent, run, rows, to_column.as_deref());
    Ok(())
}

/// The list of a run as its journal in this folder names it.
fn journalled(run: &Run) -> Option<JournalInput> {
    let path = prepare::usual_journal(&run.campaign, &run.name);
    let file = BufReader::new(std::fs::File::open(&path).ok()?);
    Some(read_journal(&path.display().to_string(), file, |_| {}).ok()?.header?.input)
}

impl Rest {
    /// Writes down that this run sends the rest, and takes the cancelled mails off the dead letters. False if it was
    /// interrupted, or not all of them went.
    pub(super) async fn take(
        &self,
        run: &str,
        author: Author,
        stack: &Stack,
        shell: &Shell,
    ) -> CommandResult {
        record_rest(&stack.ledger(), &self.key, run)
            .await
            .map_err(|error| CommandError::Unfinished(error.into()))?;
        if self.cancelled.letters() == 0 {
            return Ok(CommandEnd::Done);
        }
        act(&self.cancelled, &author, ReplayPace::UNBOUNDED, stack, shell).await
    }
}
