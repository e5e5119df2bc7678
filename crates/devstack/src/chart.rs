//! The chart of a run: recipients a second by campaign, against the quota.

use tidegate_operator::plan::chart::{self, ChartPanel};

use super::error::LocalError;
use super::figures::float;
use super::report::LocalReport;

/// The chart as SVG.
///
/// # Errors
/// [`LocalError::Chart`].
pub fn svg(report: &LocalReport) -> Result<String, LocalError> {
    let series = &report.figures.series;
    // The last column is for mail that belongs to no campaign.
    let names = series.campaigns.iter().map(String::as_str).chain(["others"]).enumerate();
    let campaigns = names.map(|(column, name)| {
        let counts: Vec<u64> = series.recipients.iter().map(|row| row[column]).collect();
        let total: u64 = counts.iter().sum();
        (total, (format!("{name}: {total}"), counts.into_iter().map(float).collect()))
    });
    let used = report.figures.phases.backlogged.utilisation;
    let used =
        used.map_or_else(String::new, |used| format!(": {:.1} % of the quota", used * 100.0));
    let quota = report.settings.quota;
    let message = report.settings.channel.words().message;
    let panel = ChartPanel {
        caption: format!("{} {message}s sent by Tidegate{used}", report.mails.arrived),
        campaigns: campaigns
            .filter(|(total, _)| *total > 0)
            .map(|(_, campaign)| campaign)
            .collect(),
        bucket_seconds: 1.0,
        quota: (quota, format!("quota: {quota} a second")),
        axes: ["seconds since the first arrival", "sent a second"],
        time: |second| second.to_string(),
    };
    Ok(chart::svg(&[panel])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn a_chart_names_campaigns_quota_and_axes_and_has_a_bar_for_each_second_of_a_campaign() {
        let report = sample();
        let svg = svg(&report).unwrap();
        for said in [
            "300 mails sent by Tidegate",
            "big: 270",
            "small: 30",
            "quota: 10 a second",
            "seconds since the first arrival",
            "sent a second",
        ] {
            assert!(svg.contains(said), "{said} is missing");
        }
        let bars = |fill: &str| svg.matches(&format!("fill=\"{fill}\"")).count();
        // The legend has one more.
        assert_eq!((bars("#0072B2"), bars("#E69F00")), (30 + 1, 30 + 1));
    }

    #[test]
    fn nothing_arrived_is_an_empty_chart() {
        let mut report = sample();
        report.figures.series.recipients.clear();
        assert!(svg(&report).unwrap().ends_with("</svg>\n"));
    }
}
