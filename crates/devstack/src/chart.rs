//! The chart of a run: recipients a second by campaign, against the quota.

use plotters::coord::types::{RangedCoordf64, RangedCoordu64};
use plotters::prelude::*;

use super::error::LocalError;
use super::report::LocalReport;

const SIZE: (u32, u32) = (1_000, 420);
const FONT: &str = "sans-serif";
/// Okabe and Ito's palette: the colours differ in lightness, too, and for people who cannot tell red from
/// green.
const COLOURS: [RGBColor; 3] =
    [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(150, 150, 150)];
const QUOTA: RGBColor = RGBColor(196, 30, 58);
const INK: RGBColor = RGBColor(40, 40, 40);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordu64, RangedCoordf64>>;

/// The chart as SVG.
///
/// # Errors
/// [`LocalError::Chart`].
pub fn svg(report: &LocalReport) -> Result<String, LocalError> {
    let mut text = String::new();
    draw(report, &mut text).map_err(|error| LocalError::Chart(error.to_string()))?;
    Ok(text)
}

fn draw(report: &LocalReport, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let rows = &report.figures.series.recipients;
    let fullest = rows.iter().map(|row| row.iter().sum::<u64>()).max().unwrap_or_default();
    let top = float(fullest).max(report.settings.quota) * 1.4;
    let (root, title) = (root.clone(), title(report));
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 20).into_font().color(&INK))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(58)
        .build_cartesian_2d(0..(rows.len() as u64).max(1), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(INK)
        .label_style((FONT, 14).into_font().color(&INK))
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .x_desc("seconds since the first mail")
        .y_desc("recipients a second")
        .x_label_formatter(&|second| second.to_string())
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()?;
    bars(report, &mut chart)?;
    quota(report, &mut chart)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Draws the campaigns' bars, stacked. The last colour is for mail that belongs to no campaign.
fn bars(report: &LocalReport, chart: &mut Chart<'_, '_>) -> Result<(), Box<dyn std::error::Error>> {
    let series = &report.figures.series;
    let names = series.campaigns.iter().map(String::as_str).chain(["other mail"]);
    for (column, name) in names.enumerate() {
        let total: u64 = series.recipients.iter().map(|row| row[column]).sum();
        if total == 0 {
            continue;
        }
        let is_other = column == series.campaigns.len();
        let colour = if is_other { COLOURS[2] } else { COLOURS[column % 2] };
        let bars = series.recipients.iter().zip(0u64..).filter(|(row, _)| row[column] > 0);
        let bars = bars.map(|(row, second)| {
            let below: u64 = row[..column].iter().sum();
            let corners = [(second, float(below)), (second + 1, float(below + row[column]))];
            let mut bar = Rectangle::new(corners, colour.filled());
            bar.set_margin(0, 0, 0, u32::from(series.recipients.len() < 300));
            bar
        });
        chart
            .draw_series(bars)?
            .label(format!("{name}: {total}"))
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled()));
    }
    Ok(())
}

fn quota(
    report: &LocalReport,
    chart: &mut Chart<'_, '_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let quota = report.settings.quota;
    let end = (report.figures.series.recipients.len() as u64).max(1);
    let line = LineSeries::new([(0, quota), (end, quota)], QUOTA.stroke_width(2));
    chart
        .draw_series(line)?
        .label(format!("quota: {quota} a second"))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], QUOTA.stroke_width(2)));
    Ok(())
}

fn title(report: &LocalReport) -> String {
    let used = report.figures.phases.backlogged.utilisation;
    let used =
        used.map_or_else(String::new, |used| format!(": {:.1} % of the quota", used * 100.0));
    format!("{} mails sent by Tidegate{used}", report.mails.arrived)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn float(count: u64) -> f64 {
    count as f64
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
            "seconds since the first mail",
            "recipients a second",
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
