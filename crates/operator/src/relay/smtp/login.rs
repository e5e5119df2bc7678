//! Who may log in, and how failed logins slow the next ones.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

/// Longest time between the logins of an address.
const MOST_DELAY: Duration = Duration::from_secs(30);
/// A login that would have to wait longer is turned away.
pub(super) const MOST_WAIT: Duration = Duration::from_mins(1);
/// An address without a failed login for so long begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(15);
/// Number of addresses that are remembered, in about 1 MB. For a further one, another is forgotten.
pub(super) const MOST_ADDRESSES: usize = 10_000;

/// The name and the password that a client gives.
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// The names that may log in, each with the SHA-256 of its password: digests have one length, and are
/// compared in constant time.
#[derive(Clone, Default)]
pub(crate) struct SmtpUsers(BTreeMap<String, [u8; 32]>);

impl SmtpUsers {
    /// From passwords by name.
    pub(crate) fn new(passwords: BTreeMap<String, String>) -> Self {
        let digest = |password: String| Sha256::digest(password.as_bytes()).into();
        Self(passwords.into_iter().map(|(user, password)| (user, digest(password))).collect())
    }

    /// Whether the password is that of the user; for an unknown one it takes as long.
    pub(crate) fn admits(&self, user: &str, password: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(password.as_bytes()).into();
        let known = self.0.get(user);
        let is_same = bool::from(given.ct_eq(known.unwrap_or(&[0; 32])));
        is_same && known.is_some()
    }
}

/// The failed logins by address. Each doubles the time between the next logins of its address, from 1 s to
/// [`MOST_DELAY`], over all of its connections; a right login ends that.
#[derive(Debug, Default)]
pub(super) struct FailedLogins(BTreeMap<IpAddr, Delayed>);

#[derive(Debug)]
struct Delayed {
    failures: u32,
    /// When the next login may be checked.
    next: Instant,
}

impl FailedLogins {
    /// How long a login that comes `now` has to wait until it is checked; none if that is longer than [`MOST_WAIT`].
    pub(super) fn wait(&mut self, address: IpAddr, now: Instant) -> Option<Duration> {
        self.0.retain(|_, delayed| now < delayed.next + FORGOTTEN_AFTER);
        let Some(delayed) = self.0.get_mut(&network(address)) else { return Some(Duration::ZERO) };
        let at = delayed.next.max(now);
        let wait = at - now;
        if wait > MOST_WAIT {
            return None;
        }
        delayed.next = at + delay(delayed.failures);
        Some(wait)
    }

    /// A login of `address` was checked.
    pub(super) fn checked(&mut self, address: IpAddr, is_right: bool, now: Instant) {
        let address = network(address);
        let mut delayed = self.0.remove(&address).unwrap_or(Delayed { failures: 0, next: now });
        if is_right {
            return;
        }
        if self.0.len() >= MOST_ADDRESSES {
            self.0.pop_first();
        }
        delayed.failures = delayed.failures.saturating_add(1);
        delayed.next = delayed.next.max(now + delay(delayed.failures));
        self.0.insert(address, delayed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(5);
    Duration::from_secs(1 << doublings).min(MOST_DELAY)
}

/// One client's address: of IPv6 the first 64 bits, of which a client has all the others.
pub(in crate::relay) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}
