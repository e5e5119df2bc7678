//! How many receives of one queue may run at once, and when it counts as empty.
//!
//! An empty short poll does not mean that a queue is empty: SQS asks a sample of its servers, and for
//! queues below 1,000 messages a short poll often returns few messages or none ("Amazon SQS short and long
//! polling" in AWS's Developer Guide). So a queue counts as empty after one empty long poll, which asks all
//! servers, or after 3 empty short polls in a row; after 6 if anything suggests that it has mail. The polls
//! are 4, 8, 16, … 64 ms apart: 6 polls take 124 ms of the window. An error says nothing about the queue;
//! after 8 in a row (252 ms of pauses) other campaigns get its part of the window.
//!
//! One receive may always run. More run at once only while the queue is known to hold more: the depth says
//! so, it was not found empty before, or its last answer was as full as was asked. Example: nothing is
//! known of a queue, so one receive asks for 10 messages. It brings 10, so 30 more are expected: three
//! receives of 10 may run at once.
//!
//! The queues from which one line of mail comes: a campaign's by falling priority, or a single other one.
//!
//! The first queue that may hold mail is asked for all that is wanted, and the next one for what it does not
//! give: while its first answer is awaited, or its last one was as full as was asked, the others wait. If a
//! queue gives nothing and is not known to hold more, the others need not wait for proof that it is empty:
//! one empty short poll will do.

use std::time::Duration;

use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::breaker::Permit;
use tidegate_core::cycle::Cycle;
use tidegate_core::email::Priority;
use tidegate_core::limiter::{Limiter, Line};
use tidegate_core::turns::Turns;

use super::message::{Message, Source};
use crate::poll::context::{Context, Wait};
use crate::poll::plan::{IdleMode, Plan, PlannedCampaign};
use crate::ports::{Environment, Monotonic, PortError, QueueUrl, Received};

/// The most receives that feed and drain each have under way: a receive takes a connection, and an
/// environment on Lambda has 1,024 file descriptors.
pub(crate) const MOST_RECEIVES: usize = 100;
/// Empty short polls in a row after which a queue counts as empty for this window.
const EMPTY_POLLS: u32 = 3;
/// The same for a queue that should have mail: it was counted, its last answer was as full as was asked, or
/// it was not found empty in the windows before.
const EMPTY_POLLS_OF_MAIL: u32 = 6;
/// Failed receives in a row after which other campaigns get a queue's part of the window.
const FAILED_POLLS: u32 = 8;
/// Pause before the first repeated poll; it doubles up to 16 times this (64 ms).
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The conclusion from one answer about its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollVerdict {
    Mail,
    /// The answer leaves it open: the queue is asked again after a pause.
    Again,
    /// The queue's receives fail again and again: others get its part of this window. It may hold mail all
    /// the same.
    Failing,
    Empty,
}

impl PollVerdict {
    /// Whether the queue is asked no more in this window, unless mail arrives.
    pub(crate) const fn is_dry(self) -> bool {
        matches!(self, Self::Failing | Self::Empty)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSupply {
    outstanding: u64,
    /// Messages that it probably holds: those counted, less those received, plus 30 after each full answer.
    expected: u64,
    /// It was not found empty in the windows before: no bound on its receives but what is wanted.
    plenty: bool,
    /// Empty answers and failures in a row.
    vain: u32,
    /// The last answer brought less than was asked.
    short: bool,
}

impl QueueSupply {
    /// Supply of a queue that probably holds `expected` messages.
    pub(crate) const fn expecting(expected: u64) -> Self {
        Self { outstanding: 0, expected, plenty: false, vain: 0, short: false }
    }

    /// Supply of a campaign's queue. It is unbounded (`plenty`) if the queue was not found empty before.
    pub(crate) const fn of(plenty: bool) -> Self {
        Self { plenty, ..Self::expecting(0) }
    }

    /// Whether another receive may run now. The first may, if its pause ends within `left`; a further one
    /// only if the last answer had mail, or none came yet, and the queue is expected to hold more than is
    /// already asked for.
    pub(crate) fn may_ask(&self, left: Duration) -> bool {
        let more = self.vain == 0 && (self.plenty || self.outstanding < self.expected);
        (self.outstanding == 0 || more) && self.pause() <= left
    }

    /// Pause before the next receive: none after mail, then 4, 8, 16, 32, 64, 64, … ms after 1, 2, 3, …
    /// answers without a message.
    pub(crate) fn pause(&self) -> Duration {
        self.vain.checked_sub(1).map_or(Duration::ZERO, |times| FIRST_PAUSE * (1 << times.min(4)))
    }

    /// Whether an answer is awaited that may bring all that is wanted.
    pub(crate) const fn may_give_all(&self) -> bool {
        self.outstanding > 0 && !self.short
    }

    /// Whether the queue should hold more mail.
    pub(crate) const fn is_expected(&self) -> bool {
        self.plenty || self.expected > 0
    }

    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(crate) const fn asked(&mut self, messages: u64) {
        self.outstanding = self.outstanding.saturating_add(messages);
    }

    /// A receive from a campaign that was found empty, to learn whether mail came. It asks for 10 messages,
    /// or for one if the breaker wants a single mail; its recipients are no part of the shares.
    pub(crate) fn probe(&mut self, plan: &Plan, lane: usize) -> Ask {
        let messages = if plan.permit == Permit::Probe { 1 } else { BATCH };
        self.asked(messages);
        Ask { lane, messages, recipients: 0 }
    }

    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive,
    /// `long` a long poll.
    ///
    /// Example: a short poll of a queue of unknown contents is empty: `Again`. Two more are empty: the
    /// third gives `Empty`. Had the queue been expected to hold 7 messages, only the sixth would.
    pub(crate) fn answered(&mut self, asked: u64, got: Option<u64>, long: bool) -> PollVerdict {
        self.outstanding = self.outstanding.saturating_sub(asked);
        let messages = got.unwrap_or(0);
        self.vain = if messages > 0 { 0 } else { self.vain.saturating_add(1) };
        self.short = messages < asked;
        let patience = if self.is_expected() { EMPTY_POLLS_OF_MAIL } else { EMPTY_POLLS };
        match got {
            // Empty answers count too: a queue that alternates between errors and nothing must not be asked
            // for ever.
            None if self.vain >= FAILED_POLLS => PollVerdict::Failing,
            Some(0) if long || self.vain >= patience => PollVerdict::Empty,
            None | Some(0) => PollVerdict::Again,
            Some(_) => {
                // A full answer promises more. 30 let three receives run, which raise this again if they
                // are full.
                self.expected = self.expected.saturating_sub(messages);
                if messages >= asked {
                    self.expected = self.expected.saturating_add(3 * BATCH);
                }
                PollVerdict::Mail
            }
        }
    }

    /// Notes that `messages` came to stand in it: it is asked at once, without the rest of the pause.
    pub(crate) const fn arrived(&mut self, messages: u64) {
        self.expected = self.expected.saturating_add(messages);
        self.vain = 0;
    }
}

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

    /// Notes an answer (see [`QueueSupply::answered`]). The lane is empty only if all of its queues are.
    pub(crate) fn answered(
        &mut self,
        index: usize,
        asked: u64,
        got: Option<u64>,
        long: bool,
    ) -> SourceAnswer {
        let is_alone = self.is_alone(index);
        let queue = &mut self.queues[index];
        let of_queue = match queue.supply.answered(asked, got, long) {
            PollVerdict::Again if got == Some(0) && !is_alone && !queue.supply.is_expected() => {
                PollVerdict::Empty
            }
            verdict => verdict,
        };
        if of_queue != PollVerdict::Again {
            queue.dry = of_queue.is_dry();
        }
        let verdict = if of_queue.is_dry() && !is_alone { PollVerdict::Again } else { of_queue };
        SourceAnswer { source: queue.source.clone(), of_queue, verdict }
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

/// The queues of campaigns and how much is wanted of each: one lane for each campaign of this window, or a single one
/// for the merge queue.
pub(crate) struct Lanes {
    pub(crate) queues: Vec<LaneQueues>,
    pub(crate) intake: Intake,
    /// Receives from queues that were found empty, still to be made; each with its queue's place in the lane.
    probes: Vec<(Ask, usize)>,
    /// By lane: true if more of its mail fell under limits than these let through soon.
    had_limited_mail: Vec<bool>,
    /// Recipients beyond their limits' room so far.
    pub(crate) beyond: u64,
}

impl Lanes {
    fn new(queues: Vec<LaneQueues>, intake: Intake) -> Self {
        let had_limited_mail = vec![false; queues.len()];
        Self { queues, intake, probes: Vec::new(), had_limited_mail, beyond: 0 }
    }

    /// The campaigns of this window, of which `total` recipients are wanted by weight and debt. Queues that were found
    /// empty get a probe if they are due.
    pub(crate) fn of_campaigns<E: Environment>(ctx: &Context<'_, E>, total: u64) -> Self {
        let plan = ctx.plan;
        let debts: Vec<i64> = plan.lanes().map(|campaign| campaign.debt).collect();
        let mean =
            |campaign: &PlannedCampaign| ctx.running_means.recipients_per_mail(&campaign.name);
        let means: Vec<f64> = plan.lanes().map(mean).collect();
        let mut intake = Intake::new(&plan.turns, plan.slots.clone(), total, &debts, &means);
        // Queues found empty before, or not asked, leave their share to the others from the start; probes
        // may revive them.
        let dry = plan
            .lanes()
            .enumerate()
            .filter(|(_, campaign)| campaign.idle.is_some() || !plan.asks_for_share(campaign));
        intake.mark_dry(dry.map(|(lane, _)| lane));
        let lanes = plan.lanes().enumerate();
        let lanes = lanes.map(|(lane, c)| LaneQueues::of(plan, c, Line::Campaign(lane)));
        let mut all = Self::new(lanes.collect(), intake);
        if plan.intake_amount() > 0 {
            let each = all.queues.iter_mut().enumerate();
            all.probes = each.flat_map(|(lane, queues)| queues.probes(plan, lane)).collect();
        }
        all
    }

    /// The merge queue, of which `total` recipients are wanted.
    pub(crate) fn of_merge<E: Environment>(
        ctx: &Context<'_, E>,
        merge: &QueueUrl,
        total: u64,
    ) -> Self {
        let plan = ctx.plan;
        let source = Source::mixed(merge.clone(), Line::Campaign(0), None);
        let expected = u64::try_from(plan.depth).unwrap_or(0);
        let mean = ctx.running_means.recipients_per_mail(merge.as_str());
        let one = Turns::all(&Cycle::single(), 1);
        let mut intake = Intake::new(&one, plan.slots.clone(), total, &[], &[mean]);
        if !plan.asks_merge() {
            intake.mark_dry([0]); // until the feed brings something
        }
        let queues = LaneQueues::single(source, QueueSupply::expecting(expected));
        Self::new(vec![queues], intake)
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.queues.iter().map(LaneQueues::outstanding).sum()
    }

    /// The next receive from a queue that was found empty, to learn whether mail came. It is beside the shares: no slot
    /// waits for its answer, so it may be a long poll.
    pub(crate) fn probe(&mut self) -> Option<NextReceive> {
        let (ask, index) = self.probes.pop()?;
        let queue = self.queues[ask.lane].source(index).queue.clone();
        let (origin, messages) = (ReceiveOrigin::Lane(ask, index), ask.messages);
        Some(NextReceive { origin, queue, messages, pause: Duration::ZERO, wait: Wait::Within })
    }

    /// The next receive for at most `most` recipients, if there is room for its messages and `left` is left of the
    /// window. None if nothing is wanted beyond the receives under way, or no queue that may give it can be asked now:
    /// then an answer has to come first.
    pub(crate) fn next(&mut self, most: u64, room: u64, left: Duration) -> Option<NextReceive> {
        let lanes = &self.queues;
        let may_ask = |lane: usize| lanes.get(lane).is_some_and(|lane| lane.next(left).is_some());
        let ask = self.intake.ask(most, may_ask)?;
        if room < ask.messages {
            self.intake.withdraw(&ask);
            return None;
        }
        // While another queue may have mail for these slots, a long poll would only delay it: the queue is asked by a
        // short poll.
        let others = self.intake.others_may_give(ask.lane);
        let lane = &mut self.queues[ask.lane];
        let index = lane.next(left).unwrap_or(0);
        let (queue, pause) = lane.asked(index, ask.messages);
        let wait = if others || !lane.is_alone(index) { Wait::No } else { Wait::Within };
        let (origin, messages) = (ReceiveOrigin::Lane(ask, index), ask.messages);
        Some(NextReceive { origin, queue, messages, pause, wait })
    }

    /// Notes an answer of `got` messages; `None` is a failed receive, `long` a long poll.
    pub(crate) fn answered(
        &mut self,
        ask: &Ask,
        index: usize,
        got: Option<u64>,
        long: bool,
    ) -> Option<SourceAnswer> {
        let lane = self.queues.get_mut(ask.lane)?;
        if ask.recipients == 0 && got.unwrap_or(0) > 0 {
            self.intake.revive(ask.lane); // the probe found mail again
        }
        Some(lane.answered(index, ask.messages, got, long))
    }

    /// Passes the conclusion on to the intake: `ask` brought `messages` with `recipients` together. After an answer that
    /// leaves it open the ask is taken back, so that its recipients are wanted again.
    pub(crate) fn took(&mut self, ask: &Ask, verdict: PollVerdict, messages: u64, recipients: u64) {
        match verdict {
            PollVerdict::Mail | PollVerdict::Empty => {
                self.intake.received(ask, messages, recipients);
            }
            PollVerdict::Again => self.intake.withdraw(ask),
            PollVerdict::Failing => {
                self.intake.withdraw(ask);
                self.intake.mark_dry([ask.lane]);
            }
        }
    }

    /// Notes mail of a lane beyond its limits' room: the campaign had mail, but not for these slots, and earns no credit
    /// by that.
    pub(crate) fn went_beyond(&mut self, lane: usize, recipients: u64) {
        self.beyond += recipients;
        if let Some(had_limited_mail) = self.had_limited_mail.get_mut(lane) {
            *had_limited_mail |= recipients > 0;
        }
    }

    /// Whether each campaign had as much mail as its share, none of it held back by a limit.
    pub(crate) fn had_mail(&self) -> Vec<bool> {
        let lanes = self.had_limited_mail.iter().enumerate();
        lanes.map(|(lane, limited)| !limited && self.intake.is_filled(lane)).collect()
    }

    /// Changes of the campaigns' debts; `limited` are the recipients sent to from limit queues, by lane.
    pub(crate) fn debt_changes(&self, limited: &[u64]) -> Vec<i64> {
        self.intake.debt_changes(limited, &self.had_limited_mail)
    }
}

/// The drain starts no receive later than this before the window's close.
pub(crate) const LAST_RECEIVE: Duration = Duration::from_millis(50);

/// The kind of queue that a receive asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveOrigin {
    Express,
    /// The queue at this place of the ask's lane.
    Lane(Ask, usize),
    /// A queue of limited mail: its line's index among those that this window asks, and its place there.
    Limited(usize, usize),
}

pub(crate) struct NextReceive {
    pub(crate) origin: ReceiveOrigin,
    pub(crate) queue: QueueUrl,
    pub(crate) messages: u64,
    /// The receive starts after this pause (see `QueueSupply::pause`).
    pub(crate) pause: Duration,
    pub(crate) wait: Wait,
}

impl NextReceive {
    pub(crate) async fn made<E: Environment>(self, ctx: &Context<'_, E>) -> FinishedReceive {
        let Self { origin, queue, messages, pause, wait } = self;
        let (long, result) = ctx.receive(&queue, messages, pause, wait).await;
        FinishedReceive { origin, asked: messages, long, result }
    }
}

pub(crate) struct FinishedReceive {
    pub(crate) origin: ReceiveOrigin,
    pub(crate) asked: u64,
    pub(crate) long: bool,
    /// The messages, and the instant at which the receive began.
    pub(crate) result: Result<(Vec<Received>, Monotonic), PortError>,
}

/// Mail that rules keep until the ledger has answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptMail {
    /// Express mails.
    pub(crate) express: u64,
    /// Recipients of campaign mail, mail from limit queues included.
    pub(crate) campaigns: u64,
}

impl KeptMail {
    pub(crate) fn of(mail: &Message) -> Self {
        let is_express = mail.line == Line::Express;
        let campaigns = if is_express { 0 } else { mail.recipients() };
        Self { express: is_express.into(), campaigns }
    }

    pub(crate) const fn plus(self, more: Self) -> Self {
        Self { express: self.express + more.express, campaigns: self.campaigns + more.campaigns }
    }

    pub(crate) const fn less(self, other: Self) -> Self {
        Self {
            express: self.express.saturating_sub(other.express),
            campaigns: self.campaigns.saturating_sub(other.campaigns),
        }
    }
}

/// A receive's answer, as its source judges it.
pub(crate) struct SourceAnswer {
    pub(crate) source: Source,
    /// The conclusion about the queue.
    pub(crate) of_queue: PollVerdict,
    /// The conclusion about all queues of its lane.
    pub(crate) verdict: PollVerdict,
}

/// The mail at hand, and the slots that it may take.
pub(crate) struct MailAtHand<'h> {
    pub(crate) limiter: &'h Limiter<usize>,
    pub(crate) kept: KeptMail,
    /// Messages received and not yet settled.
    pub(crate) buffered: u64,
}

impl MailAtHand<'_> {
    pub(crate) fn slots_left(&self) -> u64 {
        self.limiter.slots_left()
    }

    /// Recipients of campaign mail, mail from limit queues included.
    pub(crate) fn campaigns(&self) -> u64 {
        let waiting = self.limiter.recipients_waiting();
        waiting.saturating_sub(self.limiter.express_waiting()) + self.kept.campaigns
    }

    /// Recipients of campaign mail without mail from limit queues, which waits for slots of its own limit.
    pub(crate) fn unlimited(&self) -> u64 {
        self.limiter.campaigns_waiting() + self.kept.campaigns
    }

    /// Express mails that wait for a slot or are kept.
    pub(crate) fn express(&self) -> u64 {
        self.limiter.express_mails() + self.kept.express
    }

    /// Slots of the express floor that are still ahead.
    pub(crate) fn floor(&self) -> u64 {
        self.limiter.floor_ahead(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(1);

    #[test]
    fn a_queue_that_may_be_empty_is_asked_once_until_it_gives() {
        let mut supply = QueueSupply::expecting(0);
        assert!(supply.may_ask(LEFT));
        supply.asked(10);
        assert!(!supply.may_ask(LEFT));
        assert_eq!(supply.answered(10, Some(10), false), PollVerdict::Mail);
        supply.asked(10);
        assert!(supply.may_ask(LEFT));
    }

    #[test]
    fn a_queue_may_give_all_until_an_answer_is_short() {
        let mut supply = QueueSupply::of(false);
        assert!(!supply.may_give_all(), "nothing was asked");
        for (got, may) in [(10, true), (3, false), (10, true), (0, false)] {
            supply.asked(10);
            supply.answered(10, Some(got), false);
            supply.asked(10);
            assert_eq!(supply.may_give_all(), may, "{got}");
            supply.answered(10, Some(got), false);
        }
    }

    /// The verdicts after `times` answers `got`, and the sum of the pauses between them.
    fn vain(
        mut supply: QueueSupply,
        got: Option<u64>,
        times: usize,
    ) -> (Vec<PollVerdict>, Duration) {
        let mut paused = Duration::ZERO;
        let mut answer = || {
            paused += supply.pause();
            supply.asked(10);
            supply.answered(10, got, false)
        };
        ((0..times).map(|_| answer()).collect(), paused)
    }

    #[test]
    fn a_queue_is_empty_after_one_long_poll_or_several_short_ones() {
        assert_eq!(QueueSupply::expecting(7).answered(10, Some(0), true), PollVerdict::Empty);
        let (verdicts, _) = vain(QueueSupply::expecting(0), Some(0), 3);
        assert_eq!(verdicts, [PollVerdict::Again, PollVerdict::Again, PollVerdict::Empty]);
        let (verdicts, paused) = vain(QueueSupply::expecting(7), Some(0), 6);
        assert_eq!((verdicts[4], verdicts[5]), (PollVerdict::Again, PollVerdict::Empty));
        assert_eq!(paused, Duration::from_millis(4 + 8 + 16 + 32 + 64));
    }

    #[test]
    fn a_failed_receive_says_nothing_of_its_queue() {
        let (verdicts, paused) = vain(QueueSupply::expecting(0), None, 8);
        assert_eq!(verdicts[..7], [PollVerdict::Again; 7]);
        assert_eq!(verdicts[7], PollVerdict::Failing);
        assert!(paused < LEFT, "{paused:?}");
    }

    #[test]
    fn a_queue_is_asked_again_only_where_its_pause_ends_in_time() {
        let mut supply = QueueSupply::expecting(0);
        supply.asked(10);
        supply.answered(10, None, false);
        assert!(supply.may_ask(FIRST_PAUSE));
        assert!(!supply.may_ask(FIRST_PAUSE / 2));
        supply.arrived(1);
        assert!(supply.may_ask(Duration::ZERO), "mail came: there is nothing to wait for");
    }

    #[test]
    fn a_campaign_of_which_a_limit_holds_mail_back_had_not_its_share() {
        let turns = Turns::all(&Cycle::new(&[1]).unwrap(), 1);
        let mut lanes = Lanes {
            queues: Vec::new(),
            intake: Intake::new(&turns, 0..0, 0, &[0], &[]),
            probes: Vec::new(),
            had_limited_mail: vec![false],
            beyond: 0,
        };
        lanes.went_beyond(0, 0);
        assert_eq!((lanes.had_mail(), lanes.beyond), (vec![true], 0));
        lanes.went_beyond(0, 5);
        assert_eq!((lanes.had_mail(), lanes.beyond), (vec![false], 5));
    }
}
