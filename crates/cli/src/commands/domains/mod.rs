//! `tidegate domains`: which providers take a list's mail.

mod resolver;

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tidegate_operate::domains::{
    DomainCounts, DomainsReport, Found, ProviderTable, SHIPPED, look_up,
};
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::send::InputFault;

use self::resolver::{Resolver, ResolverAddress};
use crate::shell::{CommandEnd, CommandError, OutputArgs, Shell, open_file, text_file};

/// Show which providers take a list's mail, and the keys of limits for them
///
/// The list is a CSV with a column `to`, `to_address` or `email`, or has an address or a domain at the beginning of
/// each line. A table in the program groups the domains of providers such as Gmail; with --mx the DNS says who hosts the
/// other domains. Only domains are shown.
///
/// Exit codes: 0; 2 wrong options or a wrong file; 3 a file is out of reach; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate domains list.csv
  tidegate domains list.csv --mx
  cut -d@ -f2 addresses.txt | tidegate domains -
  tidegate domains --table > own.txt && tidegate domains list.csv --providers own.txt")]
pub struct DomainsArgs {
    /// The list; - is standard input
    #[arg(required_unless_present = "table")]
    file: Option<PathBuf>,
    /// The column of a CSV that has the recipient
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    /// Print the program's table of providers
    #[arg(long, conflicts_with_all = ["file", "providers", "mx"])]
    table: bool,
    /// Another table of providers, in the form of the program's
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
    /// Look up the MX records of domains that are not in the table
    #[arg(long)]
    mx: bool,
    /// The resolver to ask, with its port if that is not 53 [default: those of /etc/resolv.conf]
    #[arg(long, value_name = "IP", requires = "mx")]
    resolver: Option<ResolverAddress>,
    /// The time for all lookups together, largest domains first
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = humantime::parse_duration)]
    mx_within: Duration,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(super) async fn run(args: &DomainsArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let Some(file) = args.file.as_deref().filter(|_| !args.table) else {
        return print(SHIPPED);
    };
    let table = match &args.providers {
        None => ProviderTable::shipped(),
        Some(path) => {
            let text = text_file(path)?;
            ProviderTable::parse(&path.display().to_string(), &text).map_err(refused)?
        }
    };
    let mut counts = DomainCounts::default();
    let read = counts.read(&file.display().to_string(), args.column.as_deref(), open(file)?);
    read.map_err(refused)?;
    let found = if args.mx {
        let resolver = Resolver::new(args.resolver)?;
        let mut found = Found::new();
        let take = |domain: &str, answer| drop(found.insert(domain.to_owned(), answer));
        // The report says what was not looked up in time.
        let _ =
            tokio::time::timeout(args.mx_within, look_up(&counts, &table, &resolver, take)).await;
        Some(found)
    } else {
        None
    };
    let report = DomainsReport::of(&counts, &table, found.as_ref());
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

#[expect(clippy::boxed_local, reason = "map_err gives it")]
fn refused(fault: Box<InputFault>) -> CommandError {
    CommandError::Input(fault.shown(AddressVisibility::Masked).to_string())
}

fn open(path: &Path) -> Result<Box<dyn Read>, CommandError> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(open_file(path)?))
}

fn print(text: &str) -> Result<CommandEnd, CommandError> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Terminal(error))
        }
        _ => Ok(CommandEnd::Done),
    }
}
