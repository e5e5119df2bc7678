//! The holds that are in force at the start of a forecast. The simulated pollers read them from the
//! ledger, as the deployed ones do; a hold with an end lets go then.

use std::time::Duration;

use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::{Timestamp, Window};

use super::error::PlanError;
use super::record::WindowRecord;
use super::scenario::Scenario;
use crate::world::World;

/// Changes of one limit in 120 days: two a day.
const MOST_CHANGES: usize = 240;

/// A hold, the campaign that it holds (`None`: all sending), and its reason.
pub(super) type ScenarioHold<'a> = (Option<&'a str>, &'a str, &'a Hold);

impl Scenario {
    /// The holds at the start. Their order is fixed, so that a bit can stand for each.
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

    /// The holds in force at a time, a bit each.
    pub(super) fn holds_at(&self, at: Timestamp) -> u64 {
        let stands = |hold: &Hold| hold.until.is_none_or(|until| Timestamp::from(until) > at);
        let standing = self.holds().enumerate().filter(|(_, (_, _, hold))| stands(hold));
        standing.fold(0, |bits, (index, _)| bits | 1 << index.min(63))
    }

    /// When the holds that have an end let go, and when limits open, close or change by themselves, as times after
    /// the start.
    pub(super) fn changes(&self) -> impl Iterator<Item = Duration> {
        let ends = self.holds().filter_map(|(_, _, hold)| hold.until).map(Timestamp::from);
        let limits = self.control.limits.values().flatten().flat_map(|limit| {
            let next = |at: &Timestamp| limit.next_change(Window::containing(*at));
            std::iter::successors(next(&self.start), next).take(MOST_CHANGES)
        });
        ends.chain(limits).map(|at| at.saturating_since(self.start))
    }

    /// Whether one of these holds stops the campaign; `None` asks for all sending.
    pub(super) fn is_held(&self, campaign: Option<&str>, holds: u64) -> bool {
        self.holds().enumerate().any(|(index, (of, _, _))| {
            holds >> index.min(63) & 1 == 1 && (of.is_none() || of == campaign)
        })
    }

    /// The campaigns with mail that no hold stops, a bit each.
    pub(super) fn sendable(&self, record: &WindowRecord) -> u64 {
        let held = |name: &str| self.is_held(Some(name), record.holds);
        let held = self.campaigns.iter().enumerate().filter(|(_, load)| held(&load.name));
        record.waiting & !held.fold(0, |bits, (index, _)| bits | 1 << index)
    }
}
