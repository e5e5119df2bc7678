//! The commands that reports suggest. A test of the program runs each of them through the parser of
//! `tidegate`.

use std::fmt;

use tidegate_core::quoted;

/// A command to copy into a shell. The options that name the stack are left out: they are those of
/// the command that suggests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuggestedCommand {
    /// Counts the dead letters by reason.
    Dead,
    /// Forecasts the mails on the queues.
    PlanLive,
    /// Says what became of the mail of a journal.
    Results(String),
    /// Ends a pause.
    Resume { campaign: Option<String> },
    /// Lifts another hold.
    Lift { hold: String, campaign: Option<String> },
    /// Overrides a campaign's weight.
    Weight { campaign: String, weight: u32 },
    /// Writes a campaign's cancelled mails among the dead letters into a file.
    ExportCancelled { campaign: String },
    /// Sends to all who have not got the mail of a run.
    RestOf { campaign: String, run: String },
    /// Shows what a replay of one mail would send.
    Replay { id: String, campaign: Option<String>, include_unknown: bool },
}

impl SuggestedCommand {
    /// The words after `tidegate`. `…` stands for the reason, which the operator has to write.
    pub fn words(&self) -> Vec<String> {
        let (command, arguments, options) = self.parts();
        let commands = command.split(' ').map(str::to_owned);
        // Without `--` an argument such as `-big` would be read as an option.
        if arguments.iter().any(|argument| argument.starts_with('-')) {
            let separator = std::iter::once("--".to_owned());
            return commands.chain(options).chain(separator).chain(arguments).collect();
        }
        commands.chain(arguments).chain(options).collect()
    }

    /// The command, its arguments and its options.
    fn parts(&self) -> (&'static str, Vec<String>, Vec<String>) {
        let reason = || vec!["--reason".to_owned(), "…".to_owned()];
        match self {
            Self::Dead => ("dead", vec![], vec![]),
            Self::PlanLive => ("plan", vec![], vec!["--live".to_owned()]),
            Self::Results(journal) => ("results", vec![journal.clone()], vec![]),
            Self::Resume { campaign } => ("resume", campaign.iter().cloned().collect(), reason()),
            Self::Lift { hold, campaign } => {
                ("lift", std::iter::once(hold).chain(campaign).cloned().collect(), reason())
            }
            Self::Weight { campaign, weight } => {
                ("weights", vec![format!("{campaign}={weight}")], reason())
            }
            Self::ExportCancelled { campaign } => {
                let options = ["--code=Cancelled".to_owned(), format!("--campaign={campaign}")];
                ("dead export", vec!["late.jsonl".to_owned()], options.to_vec())
            }
            Self::RestOf { campaign, run } => {
                let options = [format!("--campaign={campaign}"), format!("--rest-of={run}")];
                ("send", vec!["…".to_owned()], options.to_vec())
            }
            Self::Replay { id, campaign, include_unknown } => {
                let campaign = campaign.as_ref().map(|name| format!("--campaign={name}"));
                let unknown = include_unknown.then(|| "--include-unknown".to_owned());
                let options = [Some(format!("--id={id}")), campaign, unknown];
                ("dead replay", vec![], options.into_iter().flatten().collect())
            }
        }
    }
}

impl fmt::Display for SuggestedCommand {
    /// As a shell reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tidegate")?;
        self.words().iter().try_for_each(|word| write!(f, " {}", quoted(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_written_as_a_shell_reads_it() {
        let lift = |campaign: &str| SuggestedCommand::Lift {
            hold: "refusals".to_owned(),
            campaign: Some(campaign.to_owned()),
        };
        assert_eq!(lift("big").to_string(), "tidegate lift refusals big --reason '…'");
        assert_eq!(lift("-x").to_string(), "tidegate lift --reason '…' -- refusals -x");
        let replay = SuggestedCommand::Replay {
            id: "ada's $order".to_owned(),
            campaign: None,
            include_unknown: true,
        };
        let said = r"tidegate dead replay '--id=ada'\''s $order' --include-unknown";
        assert_eq!(replay.to_string(), said);
    }
}
