use std::time::Duration;

use tidegate_delivery::ports::{BucketCharge, Monotonic};

use super::bucket::{BucketRate, TokenBucket};

/// Consoles for which the bound is kept: a debt of more than all of them may make together is forgotten.
const MOST_CONSOLES: u32 = 16;
/// The time after which a console knows what another took, at most; beside it, what their bursts are.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// One console's copy of a token bucket of which other consoles may have copies.
#[derive(Debug)]
pub(super) struct SharedBucket {
    rate: BucketRate,
    copy: TokenBucket,
    /// A bucket from which nothing but the untold tokens was taken.
    untold: TokenBucket,
    /// Tokens that this console took since it told the others.
    untold_tokens: u32,
}

impl SharedBucket {
    pub(super) const fn full(rate: BucketRate, now: Monotonic) -> Self {
        let full = TokenBucket::full(rate, now);
        Self { rate, copy: full, untold: full, untold_tokens: 0 }
    }

    pub(super) fn ready_at(&self, tokens: u32) -> Monotonic {
        self.copy.ready_at(tokens)
    }

    pub(super) fn is_full(&self, now: Monotonic) -> bool {
        self.copy.is_full(now)
    }

    pub(super) const fn is_told(&self) -> bool {
        self.untold_tokens == 0
    }

    pub(super) fn take(&mut self, now: Monotonic) {
        // The copy is never fuller than the other: a token of it is one of both.
        if self.copy.take(now) && self.untold.take(now) {
            self.untold_tokens = self.untold_tokens.saturating_add(1);
        }
    }

    /// The charge to tell under the bucket's name; it counts as told from now on.
    pub(super) fn tell(&mut self, bucket: String, now: Monotonic) -> BucketCharge {
        let charged = self.rate.time_of(self.untold_tokens);
        let full_in = self.untold.full_at().saturating_since(now);
        let most = (self.rate.time_of(self.rate.burst()) + KNOWN_WITHIN) * MOST_CONSOLES;
        (self.untold, self.untold_tokens) = (TokenBucket::full(self.rate, now), 0);
        let [charged, full_in, most] = [charged, full_in, most].map(up_to_micros);
        BucketCharge { bucket, charged, full_in, most }
    }

    /// Applies what the server answered to the newest charge: the bucket of all consoles is full after
    /// `full_in`. It does not know of the tokens taken since then.
    pub(super) fn hear(&mut self, full_in: Duration, now: Monotonic) {
        self.copy.drain_until(now + full_in + self.rate.time_of(self.untold_tokens));
    }
}

/// Rounds up, so that no token is told as less than it is.
fn up_to_micros(time: Duration) -> Duration {
    Duration::from_micros(u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
}
