//! The queues from which one line of mail comes: a campaign's by falling priority, or a single other one.
//!
//! The first queue that may hold mail is asked for all that is wanted, and the next one for what it does not
//! give: while its first answer is awaited, or its last one was as full as was asked, the others wait. If a
//! queue gives nothing and is not known to hold more, the others need not wait for proof that it is empty:
//! one empty short poll will do.

use std::time::Duration;

use tidegate_core::allocation::Ask;
use tidegate_core::email::Priority;
use tidegate_core::limiter::Line;

use super::message::Source;
use super::supply::{PollVerdict, QueueSupply};
use crate::poll::plan::{IdleMode, Plan, PlannedCampaign};
use crate::ports::QueueUrl;

struct LaneQueue {
    source: Source,
    supply: QueueSupply,
    /// It is not asked, unless by a probe.
    dry: bool,
}

pub(crate) struct LaneQueues {
    queues: Vec<LaneQueue>,
    /// Queues that were found empty and are due to be asked again, beside the shares.
    due: Vec<usize>,
}

impl LaneQueues {
    pub(crate) fn single(source: Source, supply: QueueSupply) -> Self {
        Self { queues: vec![LaneQueue { source, supply, dry: false }], due: Vec::new() }
    }

    /// The queues of a campaign whose mail waits in `line`. A queue that was found empty is asked by a probe
    /// once it is due. A limit's few slots leave no room beside them: there it is asked in its turn.
    pub(crate) fn of(plan: &Plan, campaign: &PlannedCampaign, line: Line) -> Self {
        let is_limited = matches!(line, Line::Limited(_));
        let is_asked = if is_limited { plan.asks(campaign) } else { plan.asks_for_share(campaign) };
        let in_turn = is_limited && plan.rest != IdleMode::Look;
        let (mut queues, mut due) = (Vec::new(), Vec::new());
        for (index, queue) in campaign.queues.iter().enumerate() {
            let is_due = is_asked && plan.is_due(queue.idle);
            let has_mail = is_due && queue.idle.is_none();
            if is_due && !has_mail && !in_turn {
                due.push(index);
            }
            let source = Source::campaign(campaign, queue, line);
            let supply = QueueSupply::of(has_mail && queue.priority <= Priority::Normal);
            let dry = if in_turn { !is_due } else { !has_mail };
            queues.push(LaneQueue { source, supply, dry });
        }
        Self { queues, due }
    }

    /// The receives from queues that were found empty, to learn whether mail came; once.
    pub(crate) fn probes(&mut self, plan: &Plan, lane: usize) -> Vec<(Ask, usize)> {
        let due = std::mem::take(&mut self.due);
        due.into_iter().map(|index| (self.queues[index].supply.probe(plan, lane), index)).collect()
    }

    /// The next queue that was found empty and is due, once.
    pub(crate) fn next_due(&mut self) -> Option<usize> {
        self.due.pop()
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.queues.iter().map(|queue| &queue.source)
    }

    pub(crate) fn source(&self, index: usize) -> &Source {
        &self.queues[index].source
    }

    /// The queue to ask next, if one may be asked with `left` of the window.
    pub(crate) fn next(&self, left: Duration) -> Option<usize> {
        let mut live = self.queues.iter().enumerate().filter(|(_, queue)| !queue.dry);
        let open = live.find(|(_, q)| q.supply.may_ask(left) || q.supply.may_give_all());
        open.filter(|(_, queue)| queue.supply.may_ask(left)).map(|(index, _)| index)
    }

    /// Notes a receive; returns its queue and the pause before it.
    pub(crate) fn asked(&mut self, index: usize, messages: u64) -> (QueueUrl, Duration) {
        let queue = &mut self.queues[index];
        queue.supply.asked(messages);
        (queue.source.queue.clone(), queue.supply.pause())
    }

    /// Whether no other queue of the lane may give mail.
    pub(crate) fn is_alone(&self, index: usize) -> bool {
        self.queues.iter().enumerate().all(|(other, queue)| other == index || queue.dry)
    }

    /// Notes an answer (see [`QueueSupply::answered`]). Returns the conclusions about its queue and about
    /// the lane, which is empty only if all of its queues are.
    pub(crate) fn answered(
        &mut self,
        index: usize,
        asked: u64,
        got: Option<u64>,
        long: bool,
    ) -> (PollVerdict, PollVerdict) {
        let is_alone = self.is_alone(index);
        let queue = &mut self.queues[index];
        let verdict = match queue.supply.answered(asked, got, long) {
            PollVerdict::Again if got == Some(0) && !is_alone && !queue.supply.is_expected() => {
                PollVerdict::Empty
            }
            verdict => verdict,
        };
        match verdict {
            PollVerdict::Again => {}
            verdict => queue.dry = verdict.is_dry(),
        }
        (verdict, if verdict.is_dry() && !is_alone { PollVerdict::Again } else { verdict })
    }

    /// Notes that `messages` came to stand in the only queue.
    pub(crate) fn arrived(&mut self, messages: u64) {
        if let Some(queue) = self.queues.first_mut() {
            queue.supply.arrived(messages);
            queue.dry = false;
        }
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.queues.iter().map(|queue| queue.supply.outstanding()).sum()
    }

    pub(crate) fn is_dry(&self) -> bool {
        self.queues.iter().all(|queue| queue.dry)
    }
}
