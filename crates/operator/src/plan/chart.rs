//! Recipients over time as a chart: a panel for each forecast.

use std::io;
use tidegate_core::number::real;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use tidegate_simulator::plan::{Forecast, PlanReport};

use super::view::duration_text;

const WIDTH: u32 = 1_000;
const PANEL: u32 = 380;
/// Panels of one chart at most.
const PANELS: usize = 20;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const QUOTA: RGBColor = RGBColor(196, 30, 58);
/// The palette of Okabe and Ito, which people with red-green colour blindness can tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(150, 150, 150),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart cannot be drawn")]
pub struct ChartError(#[from] DrawingAreaErrorKind<io::Error>);

/// A panel for each forecast, one below the other, as SVG.
///
/// # Errors
/// [`ChartError`].
pub fn draw(report: &PlanReport) -> Result<String, ChartError> {
    let panels = &report.forecasts[..report.forecasts.len().min(PANELS)];
    let height = u32::try_from(panels.len().max(1)).unwrap_or(1) * PANEL;
    let mut text = String::new();
    draw_panels(panels, &SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area())?;
    Ok(text)
}

fn draw_panels(panels: &[Forecast], root: &Area<'_>) -> Result<(), ChartError> {
    root.fill(&WHITE)?;
    // One scale of time, so that the panels can be compared.
    let end = |panel: &Forecast| real(panel.timeline.bucket_seconds * buckets(panel) as u64);
    let end = panels.iter().map(end).fold(1.0, f64::max);
    for (panel, area) in panels.iter().zip(&root.split_evenly((panels.len().max(1), 1))) {
        draw_panel(panel, area, end)?;
    }
    Ok(root.present()?)
}

fn buckets(panel: &Forecast) -> usize {
    panel.timeline.per_minute.values().map(Vec::len).max().unwrap_or(0)
}

/// Recipients in each bucket of time, by campaign, stacked, against the quota.
fn draw_panel(panel: &Forecast, area: &Area<'_>, end: f64) -> Result<(), ChartError> {
    let campaigns = &panel.timeline.per_minute;
    let quota = panel.quota_per_second * 60.0;
    let mut below = vec![0.0; buckets(panel)];
    let in_bucket = |bucket: usize| campaigns.values().filter_map(move |rates| rates.get(bucket));
    let highest = (0..below.len()).map(|bucket| in_bucket(bucket).sum()).fold(quota, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.name, (FONT, 20).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..highest * 1.35)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(INK)
        .label_style((FONT, 14).into_font().color(&INK))
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .x_desc("since the start")
        .y_desc("recipients a minute")
        .x_label_formatter(&|seconds| duration_text(*seconds))
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()?;
    let size = real(panel.timeline.bucket_seconds);
    for ((label, counts), colour) in campaigns.iter().zip(COLOURS.iter().cycle()) {
        let bars = counts.iter().zip(&below).zip(0u64..).filter(|((count, _), _)| **count > 0.0);
        let bars: Vec<_> = bars
            .map(|((count, below), bucket)| {
                let from = real(bucket) * size;
                Rectangle::new([(from, *below), (from + size, below + count)], colour.filled())
            })
            .collect();
        chart
            .draw_series(bars)?
            .label(label)
            .legend(|(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled()));
        below.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    chart
        .draw_series(LineSeries::new([(0.0, quota), (end, quota)], QUOTA.stroke_width(2)))?
        .label(format!("quota: {} a second", panel.quota_per_second))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], QUOTA.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()?;
    Ok(())
}
