use super::variables::Variables;
use crate::limiter::Floor;

impl Variables<'_> {
    /// The share of the slots that campaigns' mail takes before express mail: the express floor.
    pub(super) fn campaign_floor(&mut self) -> Floor {
        let allowed = "a whole share of the slots from 0% (no floor) to 90%, such as 20%";
        let parse = |text: &str| text.parse().ok();
        self.parsed("TIDEGATE_CAMPAIGN_FLOOR", allowed, parse, Floor::default())
    }
}
