//! The drain: receives as much mail as the window's slots can take, and sends it, one slot a recipient.
//!
//! [`drain`] does all IO; [`state`] decides without waiting. The loop starts every receive and every send
//! that is due, then waits for the first event: a send or receive that ended, mail that the feed brought,
//! work of a rule that is done, or the next slot's instant. Each event changes the state, and the loop
//! starts over.

mod outcomes;
mod slots;
mod state;

use std::pin::pin;
use std::rc::Rc;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender};
use futures_util::future::pending;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::DECIDED;
use tidegate_core::trace::TraceParent;

use super::context::Context;
use super::feed::Arrival;
use super::rules::{EndedSend, Rules};
use super::settle::Job;
use super::sources::message::Message;
use super::sources::supply::MOST_RECEIVES;
use crate::ports::{Clock as _, Environment, Mail, Mailer as _, Monotonic, SendAnswer};
use slots::Wake;
use state::Drain;
pub(super) use state::DrainResult;

/// Serves the window's slots. `arrivals` tells how many mails the feed brought into each queue.
///
/// It ends when no slot is left and nothing is under way, when nothing waits and nothing can come, or 6.5 s
/// after the window's close (`DECIDED`). Mail that got no slot is left; work that rules began is waited
/// for.
pub(super) async fn drain<'a, E: Environment>(
    ctx: &'a Context<'a, E>,
    rules: Rc<Rules<'a, E>>,
    jobs: UnboundedSender<Job>,
    mut arrivals: UnboundedReceiver<Arrival>,
) -> DrainResult {
    let mut state = Drain::new(ctx, rules, jobs);
    let mut receives = FuturesUnordered::new();
    let mut sends = FuturesUnordered::new();
    let mut work = FuturesUnordered::new();
    let mut feeding = true;
    loop {
        while receives.len() < MOST_RECEIVES
            && let Some(next) = state.next_receive()
        {
            receives.push(next.made(ctx));
        }
        let wake = loop {
            match state.next_send(sends.len()) {
                Wake::Start(message, slot, latest) => sends.push(send(ctx, message, slot, latest)),
                wake => break wake,
            }
        };
        if matches!(wake, Wake::Over) {
            state.leave_what_waits();
        }
        work.extend(state.take_work());
        let quiet = receives.is_empty() && sends.is_empty() && work.is_empty();
        // With sends at their bound, or without a slot left, only an event changes anything: the latest end
        // is the limit then.
        let until = match wake {
            Wake::Over if quiet => break,
            Wake::NothingWaits(_) if quiet && !feeding => break,
            Wake::At(at) | Wake::NothingWaits(at) => at,
            Wake::Start(..) | Wake::Full | Wake::Over => ctx.plan.window.closes() + DECIDED,
        };
        let mut timer = pin!(ctx.env.clock.sleep_until(ctx.time.monotonic(until)).fuse());
        let mut arriving = pin!(next(&mut arrivals, feeding).fuse());
        select_biased! {
            sent = sends.select_next_some() => state.sent(sent),
            answer = receives.select_next_some() => state.received(answer),
            arrived = arriving => match arrived {
                Some(Arrival { place, mails }) => state.arrived(place, mails),
                None => feeding = false,
            },
            done = work.select_next_some() => state.worked(done),
            () = timer => {
                if matches!(wake, Wake::Full | Wake::Over) {
                    break;
                }
            }
        }
    }
    state.leave_the_rest();
    loop {
        work.extend(state.take_work());
        match work.next().await {
            Some(done) => state.worked(done),
            None => return state.finish(),
        }
    }
}

/// The feed's next message; after its end never ready, so that the loop does not spin on a closed channel.
async fn next(arrivals: &mut UnboundedReceiver<Arrival>, feeding: bool) -> Option<Arrival> {
    if feeding { arrivals.next().await } else { pending().await }
}

async fn send<E: Environment>(
    ctx: &Context<'_, E>,
    message: Box<Message>,
    slot: u64,
    latest: Monotonic,
) -> EndedSend {
    let started = ctx.monotonic();
    let id = message.envelope.identity.id();
    let mut takes = ctx.plan.limits.takes(&message.demands);
    takes.extend(ctx.plan.limits.takes_of_recipients(&message.content));
    let campaign = &message.envelope.campaign;
    let limits = ctx.plan.limits.table.tags(&message.demands);
    let limits = limits.as_deref();
    let mail = Mail {
        content: &message.content,
        campaign,
        id: &id,
        tenant: message.tenant.as_deref(),
        through: message.through.as_deref(),
        limits,
        trace: ctx.trace_of(&message.envelope).map(TraceParent::as_str),
        pace: ctx.pace(),
        takes: &takes,
        written: message.ahead.request.as_ref(),
    };
    let SendAnswer { start, result } = ctx.env.mailer.send(mail, latest).await;
    let start = start.map(|start| ctx.time.wall(start));
    let latency = ctx.monotonic().saturating_since(started);
    drop(id);
    let result = result.map_err(|failure| {
        let outcome = message.content.classify(&failure, message.tenant.as_deref());
        (failure, outcome)
    });
    EndedSend { message, slot, start, result, latency, counts: true, is_held: false }
}
