use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_core::format::count;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::Run;
use tidegate_delivery::ports::SuppressedAddress;

use super::{
    AddressReport, Explanation, MailQuery, MailVerdict, dead_to, explain, find, gather, identities,
    is_address,
};
use crate::dead::LetterSnapshot;
use crate::dead::command::read;
use crate::results::{ResultsError, RunJournal, journals_in};
use crate::send::{JournalHeader, in_words};
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell};
use crate::stack::OnStack;
use crate::status::{StackFacts, facts};
use crate::suppression;

/// Find out what is known of a mail, and what it waits for if it waits
///
/// SQS cannot be searched by id. What is known of a mail stands in deduplication's marks, where
/// it is on, and on the dead-letter queue, which is read without taking anything off it. If neither
/// names it, the answer says what can have become of it, and what mail of its campaign waits for.
///
/// For an address or a phone number, the mails or texts to it are looked for in the inputs of the runs whose journals are in .tidegate
/// (or of --journal) and among the dead letters; and SES's suppression lists, of the account and of the campaigns' tenants, are asked for an address.
///
/// Exit code: 0; 3 where the stack or a service cannot be reached.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate why order-4711 --campaign receipts
  tidegate why ada@example.org
  tidegate why +12065550100
  tidegate why news/id/4711                     a whole identity, as the poller logs it
  tidegate why 5a1f0c52-77aa-4e0f-a1d2-1f4e52d1c7b1   an SQS message id")]
pub struct WhyArgs {
    /// The mail's `id`, an SQS message id, a whole identity (campaign/id/…), or a recipient's address or phone number
    id: String,
    /// The mail's campaign, or `express`; without it every campaign is looked at
    #[arg(long, value_name = "NAME")]
    campaign: Option<String>,
    /// A journal in whose run mails to an address are looked for [default: all in .tidegate]; may be given
    /// several times
    #[arg(long, value_name = "FILE")]
    journal: Vec<PathBuf>,
    /// Dead letters to read at most
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &WhyArgs, shell: &Shell) -> CommandResult {
    let asked = MailQuery::new(&args.id, args.campaign.clone())
        .map_err(|error| CommandError::Refused(Box::new(error)))?;
    let stack = args.on.stack.open().await?;
    let status = facts(&stack, shell.output.addresses(), 0).await?;
    let reading = read(&stack, args.limit, shell).await?;
    if reading.coverage.interrupted {
        return Ok(CommandEnd::Interrupted);
    }
    let read = StackReading { stack: &stack, status, reading };
    if is_address(&args.id) {
        let report = read.of_address(args, shell).await?;
        shell.show(&report)?;
    } else {
        shell.show(&read.of_mail(asked).await?)?;
    }
    Ok(CommandEnd::Done)
}

/// A stack at one moment.
struct StackReading<'a> {
    stack: &'a Stack,
    status: StackFacts,
    reading: LetterSnapshot,
}

impl StackReading<'_> {
    async fn of_mail(&self, asked: MailQuery) -> CommandResult<Explanation> {
        let ledger = self.stack.ledger();
        let identities = identities(&asked, &self.status);
        let facts = gather(asked, self.status.clone(), &self.reading, &ledger).await?;
        let answer = explain(&facts);
        let is_known = !matches!(answer.verdict, MailVerdict::Nowhere | MailVerdict::Unrecorded);
        let Some(location) = self.stack.store().filter(|_| !is_known) else { return Ok(answer) };
        let store = self.stack.clients().store(location);
        let control = &self.status.standing.control;
        Ok(match find(&store, &identities, control).await? {
            Some(found) => answer.found_in_store(&found),
            None => answer,
        })
    }

    async fn of_address(&self, args: &WhyArgs, shell: &Shell) -> CommandResult<AddressReport> {
        let address = args.id.as_str();
        let suppressed = match self.stack.poller.rules.channel {
            Channel::Email => self.suppressed(address).await?,
            Channel::Sms => Vec::new(),
        };
        let paths = if args.journal.is_empty() {
            journals_in(Path::new(".tidegate"))?
        } else {
            args.journal.clone()
        };
        let mut mails = dead_to(&self.reading, address);
        let (mut searched, mut not_searched, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            match in_journal(&path, address) {
                Ok(found) => {
                    for (row, id) in found.rows {
                        let campaign = &found.journal.campaign;
                        match id {
                            Some(id) => mails.push((campaign.clone(), id)),
                            None => rows.push(self.not_enqueued(&found.journal, row)),
                        }
                    }
                    searched.push(path.display().to_string());
                }
                Err(error) => not_searched.push(error.to_string()),
            }
        }
        mails.retain(|(campaign, _)| args.campaign.as_ref().is_none_or(|own| own == campaign));
        mails.sort();
        mails.dedup();
        let mut answers = Vec::new();
        for (campaign, id) in mails {
            answers.push(self.of_mail(MailQuery { id, campaign: Some(campaign) }).await?);
        }
        // A producer may use the address as the id.
        let asked = MailQuery { id: address.to_owned(), campaign: args.campaign.clone() };
        let named = self.of_mail(asked).await?;
        let is_known = !matches!(
            named.verdict,
            MailVerdict::Nowhere | MailVerdict::Unrecorded | MailVerdict::NoCampaign
        );
        if is_known && answers.iter().all(|answer| answer.id != named.id) {
            answers.push(named);
        }
        let addresses = shell.output.addresses();
        let report = AddressReport::new(address, addresses, &suppressed, answers, searched);
        Ok(AddressReport { rows, not_searched, ..report })
    }

    /// A row of a run that is on no queue yet, in words.
    fn not_enqueued(&self, journal: &JournalHeader, row: u64) -> String {
        let now = EpochMillis::from(self.status.at);
        let own = |run: &&Run| run.campaign == journal.campaign && run.name == journal.run;
        let stage = self.status.runs.iter().find(own).map_or_else(
            || "of which the ledger knows nothing".to_owned(),
            |run| {
                let stage = run.stage_at(now, &self.status.standing.control);
                format!("which is {}: {}", stage.as_str(), in_words(run, now))
            },
        );
        format!(
            "row {} of run {}: not enqueued yet, or left out; the run, {stage}",
            count(row),
            journal.run
        )
    }

    /// The address's entries on the suppression lists that count for the campaigns, and for express mail.
    async fn suppressed(&self, address: &str) -> CommandResult<Vec<SuppressedAddress>> {
        let of_campaigns = self.status.campaigns.iter().map(|campaign| campaign.tenant.as_deref());
        let tenants: BTreeSet<Option<&str>> = of_campaigns.chain([None]).collect();
        let mut found = Vec::new();
        for tenant in tenants {
            let list = self.stack.clients().suppression_list(tenant).await?;
            let entry = suppression::find(&list, &self.stack.clock(), address).await?;
            found.extend(entry.filter(|entry| !found.contains(entry)));
        }
        Ok(found)
    }
}

/// The rows of a run to an address.
struct JournalRows {
    journal: JournalHeader,
    /// Their numbers and ids; no id of one that was not enqueued.
    rows: Vec<(u64, Option<String>)>,
}

fn in_journal(path: &Path, address: &str) -> Result<JournalRows, ResultsError> {
    let open = |path: &Path| {
        let file = path.display().to_string();
        File::open(path).map_err(|source| ResultsError::Unreadable { file, source })
    };
    let journal = RunJournal::read(&path.display().to_string(), BufReader::new(open(path)?))?;
    journal.check(open(&journal.header.input.path)?)?;
    let rows = journal.rows_to(BufReader::new(open(&journal.header.input.path)?), address)?;
    Ok(JournalRows { journal: journal.header, rows })
}
