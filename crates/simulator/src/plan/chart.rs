//! The timeline as a chart: recipients a minute, by campaign, one panel for each forecast.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::raster::{Raster, png};
use super::report::{Forecast, PlanReport};
use super::state::as_f64;
use super::view::duration_text;

const WIDTH: u32 = 1_000;
const PANEL: u32 = 380;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartFormat {
    Svg,
    Png,
}

impl ChartFormat {
    pub const ALLOWED: &str = ".svg or .png";

    /// The format for a file's extension, given without its dot.
    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending.to_ascii_lowercase().as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// A chart that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart cannot be drawn: {0}")]
pub struct ChartError(String);

pub fn draw(report: &PlanReport, format: ChartFormat) -> Result<Vec<u8>, ChartError> {
    let height = u32::try_from(report.forecasts.len().clamp(1, 20)).unwrap_or(1) * PANEL;
    match format {
        ChartFormat::Svg => {
            let mut text = String::new();
            let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
            panels(report, &root)?;
            drop(root);
            Ok(text.into_bytes())
        }
        ChartFormat::Png => {
            let mut pixels = Vec::new();
            let root = Raster::on(&mut pixels, WIDTH, height).into_drawing_area();
            panels(report, &root)?;
            drop(root);
            png(&pixels, WIDTH, height).map_err(|error| ChartError(error.to_string()))
        }
    }
}

fn panels<B: DrawingBackend>(
    report: &PlanReport,
    root: &DrawingArea<B, Shift>,
) -> Result<(), ChartError> {
    let failed = |error: Box<dyn std::error::Error>| ChartError(error.to_string());
    root.fill(&WHITE).map_err(|error| ChartError(error.to_string()))?;
    let areas = root.split_evenly((report.forecasts.len().clamp(1, 20), 1));
    // One scale of time, so that the panels can be compared.
    let end = report.forecasts.iter().map(ends).fold(1.0, f64::max);
    for (forecast, area) in report.forecasts.iter().zip(&areas) {
        panel(forecast, area, end).map_err(|error| failed(error.into()))?;
    }
    root.present().map_err(|error| ChartError(error.to_string()))
}

fn ends(forecast: &Forecast) -> f64 {
    let buckets = forecast.timeline.per_minute.values().map(Vec::len).max().unwrap_or(0);
    as_f64(forecast.timeline.bucket_seconds) * as_f64(buckets as u64)
}

fn panel<B: DrawingBackend>(
    forecast: &Forecast,
    area: &DrawingArea<B, Shift>,
    end: f64,
) -> Result<(), String> {
    let said = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
    let quota = forecast.quota_per_second * 60.0;
    let mut chart = ChartBuilder::on(area)
        .caption(&forecast.name, (FONT, 20).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..quota * 1.35)
        .map_err(said)?;
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
        .draw()
        .map_err(said)?;
    let size = as_f64(forecast.timeline.bucket_seconds);
    let mut below: Vec<f64> = Vec::new();
    for ((name, rates), colour) in forecast.timeline.per_minute.iter().zip(COLOURS.iter().cycle()) {
        below.resize(rates.len(), 0.0);
        let bars = rates.iter().zip(&below).zip(0u64..).filter(|((rate, _), _)| **rate > 0.0);
        let bars: Vec<_> = bars
            .map(|((rate, below), bucket)| {
                let from = as_f64(bucket) * size;
                Rectangle::new([(from, *below), (from + size, below + rate)], colour.filled())
            })
            .collect();
        chart
            .draw_series(bars)
            .map_err(said)?
            .label(name)
            .legend(|(x, y)| Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled()));
        below.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
    }
    chart
        .draw_series(LineSeries::new([(0.0, quota), (end, quota)], QUOTA.stroke_width(2)))
        .map_err(said)?
        .label(format!("quota: {} a second", forecast.quota_per_second))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], QUOTA.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()
        .map_err(said)
}
