//! The holds that are in force at the start of a forecast. The simulated pollers read them from the
//! ledger, as the deployed ones do; a hold with an end lets go then.

use tidegate_core::control::{Hold, HoldReason};

use super::error::PlanError;
use super::scenario::Scenario;
use crate::world::World;

/// A hold, the campaign that it holds (`None`: all sending), and its reason.
pub(super) type ScenarioHold<'a> = (Option<&'a str>, &'a str, &'a Hold);

impl Scenario {
    /// The holds at the start.
    pub(super) fn holds(&self) -> impl Iterator<Item = ScenarioHold<'_>> {
        self.control.named_holds()
    }

    /// Whether a hold without an end stops all sending, so that no forecast is needed.
    pub fn is_held_for_good(&self) -> bool {
        self.control.holds.named().any(|(_, hold)| hold.until.is_none())
    }

    /// Writes the holds into the simulated ledger. SES refuses as long as it is the account that is
    /// held, because the simulated scheduler would lift that hold otherwise.
    pub(super) async fn hold(&self, world: &World) -> Result<(), PlanError> {
        if self.control.holds.get(HoldReason::Account).is_some() {
            world.ses.configure(|settings| settings.sending_enabled = false);
        }
        let write = |control: &mut tidegate_core::control::Control| {
            control.holds.clone_from(&self.control.holds);
            control.campaign_holds.clone_from(&self.control.campaign_holds);
            // Nobody knows when SES will accept such mail: a second hold keeps the simulated pollers from a probe.
            for holds in control.campaign_holds.values_mut() {
                if let Some(hold) = holds.get(HoldReason::Refusals).cloned() {
                    holds.add(HoldReason::Reputation, hold);
                }
            }
            control.limits.clone_from(&self.control.limits);
            control.adapted.clone_from(&self.control.adapted);
        };
        let is_any = self.holds().next().is_some() || !self.control.limits.is_empty();
        while is_any && !world.control(write).await? {}
        Ok(())
    }
}
