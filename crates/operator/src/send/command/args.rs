//! Options of `tidegate send`, as clap reads them.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use crate::send::{KnownList, PartPrice, recipient};
use clap::{Args, ValueEnum};

use crate::shell::ConfirmArgs;
use crate::stack::OnStack;

/// Send a campaign from a file: a row a mail, or a row a text message
///
/// Every row is rendered and checked as the poller will check it; one fault, and nothing is sent.
/// Then all are put on the campaign's queue. An interrupted run goes on where it was when the same
/// command is run again: a journal holds what the queue took. The stack's ledger knows the run, too: a pause makes it
/// wait, a cancel ends it within 5 s, and the same list with the same message is not sent twice by accident, wherever
/// the command is run.
///
/// Templates are Jinja: `{{ first_name }}` is the row's column of that name, escaped in HTML; a column
/// that is missing or empty is a fault; `{{ first_name|default('friend') }}` has another value then;
/// `{{ row['first name'] }}` is for names that are no words.
///
/// With --text and nothing that belongs to a mail, the rows are text messages (SMS), for a stack of that
/// channel: the column `to_phone` has the number, such as +12065550100, and the dry run says the parts and the
/// price of each.
///
/// Exit code: 0 all is enqueued; 1 a cancel ended it; 2 an option, a template or a row is wrong, nothing was sent; 3 a
/// service or a file failed, run it again; 4 not confirmed; 130 interrupted, run it again.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate send november.csv --campaign big --template mail.html --from news@example.org --preview
  tidegate send november.csv --campaign big --template mail.html --from news@example.org --test me@example.org
  tidegate send november.csv --campaign big --template mail.html --from news@example.org --dry-run
  tidegate send november.csv --campaign big --subject 'Hello {{ name }}' --text mail.txt \\
      --from 'News <news@example.org>' --list-unsubscribe 'https://example.org/out?t={{ token }}' --yes
  tidegate send november.csv --campaign big --template corrected.html --from news@example.org --rest-of november
      After a cancel: everybody who has not got the mail of run november.
  tidegate send november.csv --campaign big --template mail.html --from news@example.org --upload
      The stack sends it: this computer is no longer needed. The list may be s3://lists/november.csv.
  tidegate send users.jsonl --campaign big --template-name welcome --from news@example.org
  tidegate send parcels.csv --campaign first --text parcel.txt --stack texts --price-per-part 0.0075 --dry-run
      Text messages: the columns to_phone and whatever the template names.")]
pub struct SendArgs {
    /// The recipients: CSV with the columns' names in its first line, or JSON objects, one a line or in an array; may be
    /// packed with gzip, and may be in S3: `s3://BUCKET/KEY`
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The campaign [default: the file's name without its ending, where a campaign is called so]
    #[arg(long, value_name = "NAME")]
    pub(super) campaign: Option<String>,
    #[command(flatten)]
    pub(super) mail: MailArgs,
    #[command(flatten)]
    pub(super) texts: TextArgs,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
    #[command(flatten)]
    pub(super) ask: ConfirmArgs,
    /// Look at no stack: check the file, say what it comes to, and send nothing
    #[arg(long, help_heading = "Stack", conflicts_with_all = ["test", "again", "go_on", "rest_of", "exclude_suppressed", "upload"])]
    pub(super) no_stack: bool,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// The content and the headers of the mails.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Mail")]
// More than 12 fields: one for each option.
pub(super) struct MailArgs {
    /// Template of the HTML body
    #[arg(long, visible_alias = "html", value_name = "FILE")]
    pub(super) template: Option<PathBuf>,
    /// Template of the text body, or of a text message
    #[arg(long, value_name = "FILE")]
    pub(super) text: Option<PathBuf>,
    /// Template of the subject line [default: the <title> of the HTML template]
    #[arg(long, value_name = "TEXT")]
    pub(super) subject: Option<String>,
    /// Name of a template stored in SES, instead of files; each row is its data, and SES tries the first one before
    /// anything is enqueued
    #[arg(long, value_name = "NAME", conflicts_with_all = ["template", "text", "subject"])]
    pub(super) template_name: Option<String>,
    /// Let something stand in a template that is refused because it is hardly ever meant; may be given several
    /// times: encoded-placeholder ({{ }} that an editor encoded), foreign-tag (a merge tag of another system),
    /// swallowed-text (a comment {# #} in CSS), image (a relative or file: address of one)
    #[arg(long, value_name = "NAME", hide_possible_values = true, value_parser = ["encoded-placeholder", "foreign-tag", "swallowed-text", "image"])]
    pub(super) allow: Vec<String>,
    /// The sender, such as `News <news@example.org>`; of text messages the number, sender id or pool [default
    /// of text messages: the first of the stack's Origins]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) from: Option<String>,
    /// Where answers go; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(super) reply_to: Vec<String>,
    /// Where a recipient unsubscribes with one click (RFC 8058): an https address, as a template
    #[arg(long, value_name = "URL")]
    pub(super) list_unsubscribe: Option<String>,
    /// A `mailto:` address beside it, as a template
    #[arg(long, value_name = "MAILTO", requires = "list_unsubscribe")]
    pub(super) unsubscribe_mailto: Option<String>,
    /// A tag of SES's, or of AWS's text messages; may be given several times
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = tag)]
    pub(super) tags: Vec<(String, String)>,
    /// critical, high, normal or low: orders mail that a poller has received for its window, and decides
    /// whether back-pressure defers it; the mail goes to the campaign's queue of that priority, if it has
    /// one [default: normal]
    #[arg(long, value_name = "PRIORITY")]
    pub(super) priority: Option<String>,
    /// Send no message before this time, such as 2026-12-24T09:00+01:00, at most 365 days ahead; with a column
    /// `time_zone` also by each recipient's clock: 2026-12-24T09:00, or `local 09:00`. A column `not_before` counts before it
    #[arg(long, value_name = "TIME")]
    pub(super) not_before: Option<String>,
    /// The configuration set in SES, or of AWS's text messages [default: the stack's]
    #[arg(long, value_name = "NAME")]
    pub(super) configuration_set: Option<String>,
}

/// Options that only text messages have
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Text messages")]
pub(super) struct TextArgs {
    /// transactional, such as codes for a login, or promotional [default: AWS decides]
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) message_type: Option<String>,
    /// AWS's price of a part, in US dollars, for the dry run's prices: `0.0075`, or by country `+49=0.0075`;
    /// may be given several times. AWS's prices change: <https://aws.amazon.com/end-user-messaging/pricing/>
    #[arg(long, value_name = "[CODE=]DOLLARS")]
    pub(super) price_per_part: Vec<PartPrice>,
}

/// The format of the recipient list, and how strictly it is checked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct InputArgs {
    /// How it is written [default: by its ending; .json, .jsonl and .ndjson are JSON, .tsv is CSV with tabs, all else CSV]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<FormatOption>,
    /// The separator of a CSV's fields: one character, or `tab` [default: a tab in .tsv, else a comma]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    pub(super) delimiter: Option<u8>,
    /// Let a value of a CSV have several lines
    #[arg(long)]
    pub(super) multiline: bool,
    /// The column of the recipient [default: to, or else email; of text messages `to_phone`]
    #[arg(long, value_name = "NAME")]
    pub(super) to_column: Option<String>,
    /// The column of the message's id [default: id, where there is one; else an id is made of campaign,
    /// run, row and what the message says]
    #[arg(long, value_name = "NAME")]
    pub(super) id_column: Option<String>,
    /// Leave out the addresses and phone numbers in this file, one a line or a CSV's first field; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) exclude: Vec<PathBuf>,
    /// Leave out the addresses on SES's suppression list, the account's or that of the campaign's tenant: SES would
    /// accept their mails, count them, and deliver none
    #[arg(long)]
    pub(super) exclude_suppressed: bool,
    /// Leave out all but the addresses in this file: a list as for --exclude, or what `tidegate cancel --export` wrote
    #[arg(long, value_name = "FILE")]
    pub(super) only: Option<PathBuf>,
    /// Let an address stand in several rows: it gets several mails
    #[arg(long)]
    pub(super) allow_duplicates: bool,
    /// Let an address stand in several rows: only the first of them gets a mail
    #[arg(long, conflicts_with = "allow_duplicates")]
    pub(super) first_of_duplicates: bool,
    /// Leave out rows that have a fault, and send the others; the refused rows are written to this file, each with the
    /// reason, and can be sent once they are corrected
    #[arg(long, value_name = "FILE")]
    pub(super) skip_invalid: Option<PathBuf>,
    /// Faults after which the rest is not looked at
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_errors: u32,
}

/// The run: preview, name, journal, and the limits while it enqueues.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
// More than 12 fields: one for each option.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct RunArgs {
    /// Show the first N messages, and send nothing
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub(super) preview: Option<usize>,
    /// Send the first row, as its message would be, to this address or phone number, and nothing else: ahead of
    /// the campaigns and counted for none, where the stack has an express queue
    #[arg(long, value_name = "ADDRESS", value_parser = addressed, conflicts_with_all = ["preview", "dry_run", "again", "go_on"])]
    pub(super) test: Option<String>,
    /// Test messages: the first N rows, 1 to 10
    #[arg(long, value_name = "N", default_value_t = 1, requires = "test", value_parser = clap::value_parser!(u8).range(1..=10))]
    pub(super) rows: u8,
    /// Check everything, say what would happen, and send nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Upload the list and the templates to the stack's store, and leave the rest to the stack: it makes the messages and
    /// keeps the campaign's queue filled for a few minutes
    #[arg(long, conflicts_with_all = ["journal", "even_if_deferred", "max_wait", "test"])]
    pub(super) upload: bool,
    /// The run's name [default: the file's name without its ending]
    #[arg(long, value_name = "NAME", value_parser = run_name)]
    pub(super) run: Option<String>,
    /// Send the same input once more, under this new name
    #[arg(long, value_name = "NAME", value_parser = run_name, conflicts_with = "run")]
    pub(super) again: Option<String>,
    /// Go on with a run that was begun on another host or in another folder: the ledger has its rows, and its journal is
    /// written anew here
    #[arg(long = "continue", conflicts_with = "again")]
    pub(super) go_on: bool,
    /// Send to everybody of this run of the campaign who has not got its mail: never enqueued, or cancelled. The list is
    /// the run's own; the templates may be others. The cancelled mails leave the dead letters
    #[arg(long, value_name = "RUN", value_parser = run_name, conflicts_with_all = ["again", "go_on", "test"])]
    pub(super) rest_of: Option<String>,
    /// The journal [default: .tidegate/CAMPAIGN-RUN.journal]
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
    /// Wait while the campaign's queue holds this many messages; `none` for no limit
    #[arg(long, value_name = "N", default_value = "100000", value_parser = backlog)]
    pub(super) max_backlog: MaxBacklog,
    /// Send although the level defers mail of this priority: the pollers may defer it all the same
    #[arg(long)]
    pub(super) even_if_deferred: bool,
    /// Wait at most this long while the level defers mail of this priority, such as 30m or 2h
    /// [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = crate::steer::command::span, conflicts_with = "even_if_deferred")]
    pub(super) max_wait: Option<Duration>,
    /// Batches under way at once, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) parallel: u8,
}

impl RunArgs {
    /// The operator's wish for a list that was sent before.
    pub(super) const fn wish(&self) -> KnownList {
        match (self.go_on, &self.again, &self.rest_of) {
            (true, ..) => KnownList::Continue,
            (false, None, None) => KnownList::Refuse,
            _ => KnownList::SendAgain,
        }
    }
}

/// The format of a recipient list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FormatOption {
    /// Comma-separated values
    Csv,
    /// Values separated by tabs
    Tsv,
    /// JSON objects: one a line, or all in one array
    #[value(aliases = ["jsonl", "ndjson"])]
    Json,
}

/// The most messages on the queue; none is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaxBacklog(pub(super) Option<u64>);

fn backlog(text: &str) -> Result<MaxBacklog, String> {
    let number = (text != "none").then(|| text.parse::<NonZeroU64>()).transpose();
    let number = number.map_err(|_| "allowed is a number from 1 up, or none")?;
    Ok(MaxBacklog(number.map(NonZeroU64::get)))
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" => Ok(b'\t'),
        [one] if one.is_ascii() && !b"\"\r\n".contains(one) => Ok(*one),
        _ => Err("allowed is one character such as , or ; or the word tab".to_owned()),
    }
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("allowed is NAME=VALUE, such as edition=11")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An address, with its name, or a phone number; which of them is meant is known once the stack is.
fn addressed(text: &str) -> Result<String, String> {
    recipient(text).map(|_| text.to_owned())
}

fn run_name(text: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(legal) {
        return Ok(text.to_owned());
    }
    Err("allowed are 1 to 64 letters, digits, - _ and .".to_owned())
}
