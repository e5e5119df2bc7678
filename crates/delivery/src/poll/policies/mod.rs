//! The optional rules of the poller, each with its own state, settings and part of the report, behind one
//! interface ([`policy`]); and the order in which a mail passes them.
//!
//! A new policy is a file of its own, its `mod` line, and its line in [`compose`].

mod breaker;
mod bucket;
mod cancels;
mod deduplication;
mod deferral;
mod exclusions;
mod idle;
mod limits;
pub(super) mod policy;
mod refusals;

use futures_channel::mpsc::UnboundedSender;

use super::context::Context;
use super::limit_window::LimitWindow;
use super::settle::Job;
use crate::environment::Environment;
use breaker::BreakerRule;
use bucket::SharedBucket;
use cancels::CancelledMail;
use deduplication::SendMarks;
use deferral::Deferral;
use exclusions::ExcludedRecipients;
use idle::IdleQueues;
use limits::LimitRule;
use policy::Policies;
use refusals::RefusalsInARow;

/// Composes the policies.
///
/// Cancelled mail and mail to excluded recipients is taken out first, and mail is deferred before anything else is
/// done with it. Where the shared bucket is lost, it says when left mail is shown again, whatever a limit would say.
/// A mail is marked only if its limits let it through and it is not left behind a probe, so that a mail that is moved or
/// shown again has no mark. The breaker asks for a prober once there is a mail that may be sent. The idle queues come
/// last: they may take back a report that says nothing.
pub(super) fn compose<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    limits: &'a LimitWindow<'a>,
    jobs: &UnboundedSender<Job>,
) -> Policies<'a> {
    Policies::new(vec![
        Box::new(CancelledMail::new(ctx, jobs)),
        Box::new(ExcludedRecipients::new(ctx)),
        Box::new(Deferral::new(ctx)),
        Box::new(SharedBucket::new(ctx)),
        Box::new(LimitRule::new(ctx, limits)),
        Box::new(RefusalsInARow::new(ctx)),
        Box::new(SendMarks::new(ctx)),
        Box::new(BreakerRule::new(ctx)),
        Box::new(IdleQueues::new(ctx, limits)),
    ])
}
