//! Runs other work beside a run's ticks without delaying them.

use std::future::Future;
use std::pin::pin;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};

/// Waits for `ticks` and runs `other` beside it. Ticks that are due are polled first. Once both `ticks` and
/// `end` are done, an unfinished `other` is dropped and its result is `None`.
pub(crate) async fn ticks_first<T, R>(
    ticks: impl Future<Output = T>,
    other: impl Future<Output = R>,
    end: impl Future<Output = ()>,
) -> (T, Option<R>) {
    // `select` polls its first argument first.
    match select(pin!(ticks), pin!(other)).await {
        Either::Left((ticks, other)) => match select(pin!(end), other).await {
            Either::Left(((), other)) => (ticks, other.now_or_never()),
            Either::Right((done, _)) => (ticks, Some(done)),
        },
        Either::Right((done, ticks)) => (ticks.await, Some(done)),
    }
}
