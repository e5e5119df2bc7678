use super::waiting::{Waiting, WaitingLane};
use crate::cycle::Cycle;

/// The mail of the domains' queues, by campaign. It takes the slots that are its campaign's by weight,
/// before the campaign's other mail (it can use fewer of them), and what nobody else can use: so it
/// neither starves the others nor is held back more than its limit holds it.
#[derive(Clone, Debug)]
pub(super) struct DomainTurns<T> {
    cycle: Cycle,
    /// Of each campaign, the lane that may hold other mail of it.
    lines: Vec<Option<usize>>,
    /// A lane a campaign, and one for the mail of campaigns that are gone.
    lanes: Vec<WaitingLane<T>>,
    in_turn: u64,
}

impl<T: Copy> DomainTurns<T> {
    pub(super) fn new(cycle: Cycle, lines: Vec<Option<usize>>) -> Self {
        let lanes = (0..=cycle.weights().len()).map(|_| WaitingLane::default()).collect();
        Self { cycle, lines, lanes, in_turn: 0 }
    }

    pub(super) fn push(&mut self, campaign: usize, message: Waiting<T>) {
        let index = campaign.min(self.lanes.len() - 1);
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.push(message);
        }
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &WaitingLane<T>> {
        self.lanes.iter()
    }

    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut WaitingLane<T>> {
        self.lanes.iter_mut()
    }

    /// Slots taken in a campaign's turn.
    pub(super) const fn in_turn(&self) -> u64 {
        self.in_turn
    }

    /// Takes the mail of the campaign whose slot `cursor` is, or of the first from there on that has
    /// mail at all; nothing where that one has other mail only.
    pub(super) fn take_in_turn(
        &mut self,
        cursor: u64,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
        others: &[WaitingLane<T>],
    ) -> Option<Waiting<T>> {
        if self.lanes.iter().all(|lane| lane.len() == 0) {
            return None;
        }
        let mut ahead = (0..self.cycle.len() as u64).map(|k| self.cycle.owner(cursor + k));
        let lane = |campaign: usize| self.lanes.get(campaign).is_some_and(|l| l.fits(left, may));
        let other = |campaign: usize| {
            let line = self.lines.get(campaign).copied().flatten();
            line.and_then(|line| others.get(line)).is_some_and(|lane| lane.fits(left, may))
        };
        let owner = ahead.find(|campaign| lane(*campaign) || other(*campaign))?;
        let message = self.lanes.get_mut(owner)?.take(left, may)?;
        self.in_turn += u64::from(message.recipients);
        Some(message)
    }

    /// Takes any mail: nobody else can use the slot.
    pub(super) fn take_any(
        &mut self,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        self.lanes.iter_mut().find_map(|lane| lane.take(left, may))
    }
}
