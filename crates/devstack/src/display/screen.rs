//! The screen: bars that are drawn once a second.

use std::io::{Write as _, stderr};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::snapshot::{ProgressSnapshot, QueueDepths, clock, percent};
use crate::plan::LocalPlan;
use crate::tracker::{CampaignProgress, RunProgress};

const COLOURS: [&str; 2] = ["blue", "yellow"];
/// Heights of a second in the row of the last seconds; a full one is a full quota.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The number of seconds that the row shows.
const ROW: usize = 40;

pub(crate) struct Screen {
    all: MultiProgress,
    headline: ProgressBar,
    rate: ProgressBar,
    campaigns: Vec<ProgressBar>,
    total: ProgressBar,
    counts: ProgressBar,
}

impl Screen {
    pub(super) fn new(plan: &LocalPlan) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let add = |length: u64, template: &str| {
            let bar = all.add(ProgressBar::new(length));
            // The templates are the ones below; a test draws them.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
            }
            bar
        };
        let bar = |colour: &str| {
            format!(
                "  {{prefix:10}} {{bar:32.{colour}/black.bright}} {{pos:>6}}/{{len:<6}} {{msg}}"
            )
        };
        let text = |prefix: &str, template: &str| {
            let bar = add(0, template);
            bar.set_prefix(prefix.to_owned());
            bar
        };
        let headline = text("", "  {msg:.bold}");
        let rate = text("sent/s", "  {prefix:10} {msg}");
        let campaigns =
            plan.campaigns.iter().zip(COLOURS.iter().cycle()).map(|(campaign, colour)| {
                let bar = add(campaign.mails, &bar(colour));
                bar.set_prefix(campaign.name.clone());
                bar
            });
        let campaigns = campaigns.collect();
        let total = add(plan.mails(), &bar("green"));
        total.set_prefix("all");
        let counts = text("", "  {prefix:10} {msg}");
        Self { all, headline, rate, campaigns, total, counts }
    }

    pub(super) fn say(&self, text: &str) {
        let _ = self.all.println(format!("  {text}"));
    }

    pub(super) fn show(&self, plan: &LocalPlan, moment: &ProgressSnapshot) {
        let ProgressSnapshot { headline, progress, backlog, refused, elapsed } = moment;
        self.headline.set_message(headline.clone());
        self.rate.set_message(rate(plan.quota, progress));
        for (bar, campaign) in self.campaigns.iter().zip(&progress.campaigns) {
            bar.set_position(campaign.arrived);
            bar.set_message(of_campaign(campaign));
        }
        self.total.set_position(progress.arrived);
        self.total.set_message(until_all(&progress.campaigns));
        let waiting = waiting(plan, backlog);
        let twice = progress.duplicates;
        self.counts.set_message(format!(
            "refused {refused} · duplicates {twice} · waiting: {waiting} · elapsed {}",
            clock(elapsed.as_secs_f64())
        ));
    }

    pub(super) fn end(&self) {
        for bar in [&self.headline, &self.rate, &self.total, &self.counts] {
            bar.abandon();
        }
        for bar in &self.campaigns {
            bar.abandon();
        }
        let _ = writeln!(stderr());
    }
}

fn rate(quota: f64, progress: &RunProgress) -> String {
    let row = progress.last_minute.iter().rev().take(ROW).rev();
    let row: String = row.map(|count| height(*count, quota)).collect();
    let used = percent(Some(progress.rate / quota));
    format!(
        "{row} {} of {quota} · {:.1}/s over 10 s, {used} of the quota",
        progress.last_second, progress.rate
    )
}

fn height(count: u64, quota: f64) -> char {
    #[expect(clippy::cast_precision_loss, reason = "a second's mails")]
    let part = count as f64 / quota;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let eighths = (part * 8.0).round() as usize;
    HEIGHTS[eighths.min(HEIGHTS.len() - 1)]
}

fn of_campaign(campaign: &CampaignProgress) -> String {
    if campaign.arrived == campaign.mails {
        return format!("all sent · {} in total", percent(campaign.share));
    }
    let eta = campaign.eta_seconds.map_or_else(|| "–".to_owned(), clock);
    let (recent, total) = (percent(campaign.recent_share), percent(campaign.share));
    format!("{recent} over 10 s, {total} in total · ETA {eta}")
}

/// Estimates when the last campaign ends. Shares that the others leave go to it, so it ends at the
/// latest then.
fn until_all(campaigns: &[CampaignProgress]) -> String {
    let left = campaigns.iter().filter(|campaign| campaign.arrived < campaign.mails);
    let etas: Option<Vec<f64>> = left.map(|campaign| campaign.eta_seconds).collect();
    match etas {
        Some(etas) if etas.is_empty() => "all sent".to_owned(),
        Some(etas) => format!("ETA {}", clock(etas.into_iter().fold(0.0, f64::max))),
        None => String::new(),
    }
}

fn waiting(plan: &LocalPlan, backlog: &QueueDepths) -> String {
    let campaigns = plan.campaigns.iter().zip(&backlog.campaigns);
    let campaigns = campaigns.map(|(campaign, depth)| format!("{} {depth}", campaign.name));
    let merge = backlog.merge.map(|depth| format!("merge {depth}"));
    let dead = (backlog.dead_letter > 0).then(|| format!("dead letters {}", backlog.dead_letter));
    campaigns.chain(merge).chain(dead).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_as_high_as_it_uses_the_quota() {
        let row: String = [0, 1, 7, 14, 20].map(|count| height(count, 14.0)).iter().collect();
        assert_eq!(row, " ▁▄██");
    }

    #[test]
    fn the_end_of_all_is_the_end_of_the_last_campaign() {
        let campaign = |arrived, eta_seconds| CampaignProgress {
            arrived,
            mails: 10,
            eta_seconds,
            ..CampaignProgress::default()
        };
        assert_eq!(until_all(&[campaign(5, Some(75.0)), campaign(5, Some(5.0))]), "ETA 1:15");
        assert_eq!(until_all(&[campaign(5, Some(75.0)), campaign(10, None)]), "ETA 1:15");
        assert_eq!(until_all(&[campaign(5, None), campaign(10, None)]), "");
        assert_eq!(until_all(&[campaign(10, None)]), "all sent");
    }
}
