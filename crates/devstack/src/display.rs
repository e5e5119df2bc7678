//! Shows a run while it sends: on a terminal the dashboard of `tidegate top`, elsewhere a line every few seconds.

use std::future::pending;
use std::io::{IsTerminal as _, Write as _, stderr, stdin, stdout};
use std::time::Duration;

use tidegate_adapters::aws::stack::Stack;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::{status, top};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::error::LocalError;

/// The interval of looks on a terminal, and that of lines elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Whether a run's progress is shown. It goes to standard error where there is no terminal, because
/// standard output is for the report alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    Shown,
    /// The report is JSON, for a program.
    Silent,
}

impl Display {
    /// Prints one line about a step of the preparations.
    pub(super) fn say(self, text: &str) {
        if self == Self::Shown {
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// Shows `progress` and the stack; it ends where the operator asks for the end.
    pub(super) async fn show(
        self,
        stack: &Stack,
        console: Option<&str>,
        progress: watch::Receiver<String>,
    ) -> Result<(), LocalError> {
        if self == Self::Silent {
            return pending().await;
        }
        if stdout().is_terminal() && stdin().is_terminal() {
            let facts = status::facts(stack, AddressVisibility::Masked, 0).await?;
            let console = console.map_or_else(String::new, |url| format!("Console: {url}\n"));
            let caption = || format!("{console}{}", *progress.borrow());
            let ended = Box::pin(top::watch(stack, facts, LOOK_EVERY, caption)).await;
            return ended.map_err(LocalError::Terminal);
        }
        let begun = Instant::now();
        loop {
            sleep(LINE_EVERY).await;
            let seconds = begun.elapsed().as_secs();
            let said = progress.borrow().replace('\n', ": ");
            self.say(&format!("{}:{:02}  {said}", seconds / 60, seconds % 60));
        }
    }
}
