//! Recipients over time as a chart, by campaign: a panel for each forecast, or one for a run that was measured.

use std::error::Error as StdError;

use plotters::coord::Shift;
use plotters::prelude::*;

use tidegate_simulator::plan::{Forecast, PlanReport};

use super::view::duration_text;
use crate::status::as_f64;

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

/// A chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart cannot be drawn: {0}")]
pub struct ChartError(String);

impl From<Box<dyn StdError>> for ChartError {
    fn from(error: Box<dyn StdError>) -> Self {
        Self(error.to_string())
    }
}

/// Recipients in each bucket of time, by campaign, stacked, against the quota.
#[derive(Clone, Debug)]
pub struct ChartPanel {
    pub caption: String,
    /// Each campaign's label, and its recipients in one bucket after the other.
    pub campaigns: Vec<(String, Vec<f64>)>,
    pub bucket_seconds: f64,
    /// Recipients in a bucket, as the quota allows them; and the quota's label.
    pub quota: (f64, String),
    /// Names of the axes: time, recipients.
    pub axes: [&'static str; 2],
    /// A time in seconds, as the axis shows it.
    pub time: fn(f64) -> String,
}

impl ChartPanel {
    fn of(forecast: &Forecast) -> Self {
        let timeline = &forecast.timeline;
        let quota = forecast.quota_per_second;
        let campaigns = timeline.per_minute.iter();
        Self {
            caption: forecast.name.clone(),
            campaigns: campaigns.map(|(name, rates)| (name.clone(), rates.clone())).collect(),
            bucket_seconds: as_f64(timeline.bucket_seconds),
            quota: (quota * 60.0, format!("quota: {quota} a second")),
            axes: ["since the start", "recipients a minute"],
            time: duration_text,
        }
    }

    fn buckets(&self) -> usize {
        self.campaigns.iter().map(|(_, counts)| counts.len()).max().unwrap_or(0)
    }

    fn end(&self) -> f64 {
        self.bucket_seconds * as_f64(self.buckets() as u64)
    }

    fn fullest(&self) -> f64 {
        let of = |bucket: usize| -> f64 {
            self.campaigns.iter().filter_map(|(_, counts)| counts.get(bucket)).sum()
        };
        (0..self.buckets()).map(of).fold(0.0, f64::max)
    }
}

/// A panel for each forecast, as SVG.
///
/// # Errors
/// [`ChartError`].
pub fn draw(report: &PlanReport) -> Result<String, ChartError> {
    let forecasts = report.forecasts.iter().take(PANELS);
    svg(&forecasts.map(ChartPanel::of).collect::<Vec<_>>())
}

/// Panels, one below the other, as SVG.
///
/// # Errors
/// [`ChartError`].
pub fn svg(panels: &[ChartPanel]) -> Result<String, ChartError> {
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, (WIDTH, height(panels)));
    draw_panels(panels, &backend.into_drawing_area())?;
    Ok(text)
}

fn height(panels: &[ChartPanel]) -> u32 {
    u32::try_from(panels.len().max(1)).unwrap_or(1) * PANEL
}

fn draw_panels<B: DrawingBackend>(
    panels: &[ChartPanel],
    root: &DrawingArea<B, Shift>,
) -> Result<(), Box<dyn StdError>>
where
    B::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    // One scale of time, so that the panels can be compared.
    let end = panels.iter().map(ChartPanel::end).fold(1.0, f64::max);
    for (panel, area) in panels.iter().zip(&root.split_evenly((panels.len().max(1), 1))) {
        draw_panel(panel, area, end)?;
    }
    Ok(root.present()?)
}

fn draw_panel<B: DrawingBackend>(
    panel: &ChartPanel,
    area: &DrawingArea<B, Shift>,
    end: f64,
) -> Result<(), Box<dyn StdError>>
where
    B::ErrorType: 'static,
{
    let (quota, quota_label) = &panel.quota;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.caption, (FONT, 20).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..quota.max(panel.fullest()) * 1.35)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(INK)
        .label_style((FONT, 14).into_font().color(&INK))
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .x_desc(panel.axes[0])
        .y_desc(panel.axes[1])
        .x_label_formatter(&|seconds| (panel.time)(*seconds))
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()?;
    let size = panel.bucket_seconds;
    let mut below = vec![0.0; panel.buckets()];
    for ((label, counts), colour) in panel.campaigns.iter().zip(COLOURS.iter().cycle()) {
        let bars = counts.iter().zip(&below).zip(0u64..).filter(|((count, _), _)| **count > 0.0);
        let bars: Vec<_> = bars
            .map(|((count, below), bucket)| {
                let from = as_f64(bucket) * size;
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
        .draw_series(LineSeries::new([(0.0, *quota), (end, *quota)], QUOTA.stroke_width(2)))?
        .label(quota_label)
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
