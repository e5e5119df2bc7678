//! Displays a run while it sends: a screen on a terminal, a line every few seconds elsewhere.

mod screen;
mod snapshot;

use std::io::{IsTerminal as _, Write as _, stderr};

use super::plan::LocalPlan;
use screen::Screen;
pub(super) use snapshot::ProgressSnapshot;
pub use snapshot::QueueDepths;
use snapshot::{clock, percent};

/// Interval of lines if there is no terminal.
const LINE_EVERY: u64 = 5;

/// Shows the progress of a run. It writes to standard error, because standard output is for the
/// report alone.
pub(super) enum ProgressDisplay {
    Screen(Box<Screen>),
    Lines { next: Option<u64> },
    Silent,
}

impl ProgressDisplay {
    /// A screen on a terminal that is not `shared` with another program, else lines, or nothing where
    /// `quiet`.
    pub(super) fn new(plan: &LocalPlan, quiet: bool, shared: bool) -> Self {
        match (stderr().is_terminal() && !shared, quiet) {
            (true, _) => Self::Screen(Box::new(Screen::new(plan))),
            (false, false) => Self::Lines { next: None },
            (false, true) => Self::Silent,
        }
    }

    /// Prints one line about a step of the preparations.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Screen(screen) => screen.say(text),
            Self::Lines { .. } => {
                let _ = writeln!(stderr(), "{text}");
            }
            Self::Silent => {}
        }
    }

    pub(super) fn show(&mut self, plan: &LocalPlan, moment: &ProgressSnapshot) {
        match self {
            Self::Screen(screen) => screen.show(plan, moment),
            Self::Lines { next } => {
                let now = moment.elapsed.as_secs();
                if next.is_none_or(|next| now >= next) {
                    *next = Some(now + LINE_EVERY);
                    let _ = writeln!(stderr(), "{}", line(plan, moment));
                }
            }
            Self::Silent => {}
        }
    }

    /// Stops drawing and leaves the last state on the screen.
    pub(super) fn end(&self) {
        if let Self::Screen(screen) = self {
            screen.end();
        }
    }
}

/// Describes one moment on one line, for an output that is no terminal.
fn line(plan: &LocalPlan, moment: &ProgressSnapshot) -> String {
    let ProgressSnapshot { headline, progress, backlog, refused, elapsed } = moment;
    let done = progress.campaigns.iter().all(|campaign| campaign.arrived == campaign.mails);
    if progress.arrived == 0 || done {
        return format!("{}  {headline}", clock(elapsed.as_secs_f64()));
    }
    let campaigns = progress.campaigns.iter().zip(&plan.campaigns).map(|(progress, campaign)| {
        let share = percent(progress.recent_share);
        format!("{} {}/{} ({share})", campaign.name, progress.arrived, progress.mails)
    });
    format!(
        "{}  {:.1}/s of {}  {}  refused {refused}  waiting {}",
        clock(elapsed.as_secs_f64()),
        progress.rate,
        plan.quota,
        campaigns.collect::<Vec<_>>().join("  "),
        backlog.waiting(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LocalCampaign;
    use crate::tracker::CampaignProgress;
    use crate::tracker::RunProgress;
    use std::time::Duration;

    #[test]
    fn a_line_tells_rate_shares_refusals_and_backlog() {
        let campaign = |name: &str| LocalCampaign {
            name: name.to_owned(),
            weight: 1,
            mails: 9,
            recipients: 1,
        };
        let plan = LocalPlan { quota: 14.0, campaigns: vec![campaign("big"), campaign("small")] };
        let progress = RunProgress {
            rate: 13.72,
            arrived: 7,
            campaigns: vec![
                CampaignProgress {
                    arrived: 6,
                    mails: 9,
                    recent_share: Some(0.9),
                    ..Default::default()
                },
                CampaignProgress { arrived: 1, mails: 9, ..Default::default() },
            ],
            ..RunProgress::default()
        };
        let backlog = QueueDepths { campaigns: vec![3, 8], merge: Some(2), dead_letter: 1 };
        let elapsed = Duration::from_secs(75);
        let moment = ProgressSnapshot {
            progress,
            backlog,
            refused: 1,
            elapsed,
            ..ProgressSnapshot::default()
        };
        assert_eq!(
            line(&plan, &moment),
            "1:15  13.7/s of 14  big 6/9 (90.0 %)  small 1/9 (–)  refused 1  waiting 13"
        );
        let waiting =
            ProgressSnapshot { headline: "waiting".to_owned(), ..ProgressSnapshot::default() };
        assert_eq!(line(&plan, &waiting), "0:00  waiting");
    }
}
