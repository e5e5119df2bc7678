use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;

use super::current::{StackFigures, seconds};

/// The length of the curves.
const SPAN: Duration = Duration::from_mins(30);
/// Points are no closer than this.
const STEP: Duration = Duration::from_millis(1_900);

#[derive(Clone, Debug)]
struct RatePoint {
    at: Timestamp,
    rate: Option<f64>,
    quota: Option<f64>,
    campaigns: BTreeMap<String, f64>,
}

/// The curves of the last half hour: a page that is opened has them at once.
#[derive(Clone, Debug, Default)]
pub struct RateHistory(VecDeque<RatePoint>);

/// The curves as JSON: one list of times, and one list of values for each curve.
#[derive(Debug, Serialize)]
struct Curves {
    t: Vec<f64>,
    rate: Vec<Option<f64>>,
    quota: Vec<Option<f64>>,
    campaigns: BTreeMap<String, Vec<Option<f64>>>,
}

impl RateHistory {
    /// Takes a look's figures, unless the newest point is less than two seconds old.
    pub fn add(&mut self, figures: &StackFigures) {
        let at = Timestamp::from(figures.at);
        if self.0.back().is_some_and(|last| at.saturating_since(last.at) < STEP) {
            return;
        }
        let rates = figures.rows.iter().filter_map(|row| Some((row.name.clone(), row.rate?)));
        self.0.push_back(RatePoint {
            at,
            rate: figures.rate,
            quota: figures.status.quota.in_force,
            campaigns: rates.collect(),
        });
        while self.0.front().is_some_and(|first| first.at + SPAN < at) {
            self.0.pop_front();
        }
    }

    pub fn to_json(&self) -> String {
        let names = self.0.iter().flat_map(|point| point.campaigns.keys());
        let mut campaigns: BTreeMap<String, Vec<Option<f64>>> =
            names.map(|name| (name.clone(), Vec::new())).collect();
        for point in &self.0 {
            for (name, rates) in &mut campaigns {
                rates.push(point.campaigns.get(name).copied().map(tenths));
            }
        }
        let curves = Curves {
            t: self.0.iter().map(|point| seconds(point.at)).collect(),
            rate: self.0.iter().map(|point| point.rate.map(tenths)).collect(),
            quota: self.0.iter().map(|point| point.quota).collect(),
            campaigns,
        };
        // Numbers and names only, which JSON can always represent.
        serde_json::to_string(&curves).unwrap_or_default()
    }
}

/// Rounds to tenths: a drawn curve shows no more, and half an hour of longer numbers is a lot of JSON.
fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}
