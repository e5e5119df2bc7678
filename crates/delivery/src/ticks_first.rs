//! What a run does beside its ticks: in between, and never at their cost.

use std::future::Future;
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};

/// Waits for `ticks`, with `other` beside it: ticks that are due come first, and what is not done
/// when they and `end` are is dropped (none).
pub(crate) async fn ticks_first<T, R>(
    ticks: impl Future<Output = T>,
    other: impl Future<Output = R>,
    end: impl Future<Output = ()>,
) -> (T, Option<R>) {
    // `select` asks the first first.
    match select(pin!(ticks), pin!(other)).await {
        Either::Left((ticks, other)) => match select(pin!(end), other).await {
            Either::Left(((), other)) => (ticks, other.now_or_never()),
            Either::Right((done, _)) => (ticks, Some(done)),
        },
        Either::Right((done, ticks)) => (ticks.await, Some(done)),
    }
}
