//! The policies of a window, in the order in which a mail passes them.

use super::context::Context;
use super::domain_window::DomainWindow;
use super::policies::Policies;
use super::policies::breaker::BreakerPolicy;
use super::policies::bucket::SharedBucket;
use super::policies::deduplication::SendMarks;
use super::policies::deferral::Deferral;
use super::policies::domains::DomainLimits;
use super::policies::idle::IdleQueues;
use super::policies::refusals::RefusalsInARow;
use crate::environment::Environment;

/// Composes the policies.
///
/// A mail is deferred before anything else is done with it. Where the shared bucket is lost, it says when left
/// mail is shown again, whatever a limit would say. A mail is marked only if its limits let it through,
/// so that a mail that is moved has no mark. The breaker asks for a prober once there is a mail that may be
/// sent. The idle queues come last: they may take back a report that says nothing.
pub(super) fn policies<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    domains: &'a DomainWindow<'a>,
) -> Policies<'a> {
    Policies::new(vec![
        Box::new(Deferral::new(ctx)),
        Box::new(SharedBucket::new(ctx)),
        Box::new(DomainLimits::new(ctx, domains)),
        Box::new(SendMarks::new(ctx)),
        Box::new(BreakerPolicy::new(ctx)),
        Box::new(RefusalsInARow::new(ctx)),
        Box::new(IdleQueues::new(ctx, domains)),
    ])
}
