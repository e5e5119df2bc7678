use super::waiting::{Waiting, WaitingLane};
use crate::cycle::Cycle;

/// The mail from limit queues, by campaign. It takes slots of its campaign, before the campaign's
/// other mail (its limit leaves it fewer slots to choose from), and slots that no other message can
/// use. So it does not take slots from other campaigns that wait, and is not slowed more than its limit
/// demands.
#[derive(Clone, Debug)]
pub(super) struct LimitTurns<T> {
    cycle: Cycle,
    /// By campaign, the lane that may hold other mail of it.
    lines: Vec<Option<usize>>,
    /// One lane per campaign, and a last one for mail of campaigns that were removed.
    pub(super) lanes: Vec<WaitingLane<T>>,
    pub(super) in_turn: u64,
}

impl<T: Copy> LimitTurns<T> {
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

    /// Takes mail of the campaign whose turn it is: the owner of slot `cursor`, or the next campaign in
    /// the cycle that has any mail that fits. Returns `None` if that campaign has only other mail,
    /// which then goes first.
    ///
    /// Example: A and B own slots in turn, A has mail from a limit queue, B has other mail. At A's
    /// slots A's mail is taken; at B's slots `None` is returned, and B's other mail takes them.
    pub(super) fn take_in_turn(
        &mut self,
        cursor: u64,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
        others: &[WaitingLane<T>],
    ) -> Option<Waiting<T>> {
        if self.lanes.iter().all(WaitingLane::is_empty) {
            return None;
        }
        let mut ahead = (0..self.cycle.length()).map(|k| self.cycle.owner(cursor + k));
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

    /// Takes any mail that fits; for slots that no other message can use.
    pub(super) fn take_any(
        &mut self,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        self.lanes.iter_mut().find_map(|lane| lane.take(left, may))
    }
}
