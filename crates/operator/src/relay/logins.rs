//! Who may send: the key pairs of a file, and how wrong ones slow the next ones of their address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tidegate_core::email::AllowedSenders;
use tokio::time::{Instant, sleep};

use crate::connections::ClientAddress;
use crate::redact::AddressVisibility;

/// Fewest bytes of a secret. AWS's have 40.
const FEWEST_SECRET_BYTES: usize = 16;
/// Stands for the secret of a user who is not there: a wrong one then takes as long.
const SECRET_OF_NOBODY: &str = "0000000000000000000000000000000000000000";

/// The key pairs of a file, by name: access keys with their secrets, which are users and passwords for SMTP and listmonk.
/// It is not shown: it has the secrets.
#[derive(Deserialize)]
pub(crate) struct KeyPairs(BTreeMap<String, KeyPair>);

/// A secret, and what it may be used for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyPair {
    #[serde(deserialize_with = "read_secret")]
    pub(super) secret: String,
    /// The campaigns that it may name; none if it may name all.
    pub(crate) campaigns: Option<Vec<String>>,
    /// The senders whose mail it may hand over.
    #[serde(default = "AllowedSenders::everyone", deserialize_with = "read_senders")]
    pub(crate) senders: AllowedSenders,
}

fn read_secret<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let secret = String::deserialize(input)?;
    if secret.len() < FEWEST_SECRET_BYTES {
        let problem = format_args!("must have at least {FEWEST_SECRET_BYTES} bytes");
        return Err(de::Error::custom(problem));
    }
    Ok(secret)
}

fn read_senders<'de, D: Deserializer<'de>>(input: D) -> Result<AllowedSenders, D::Error> {
    Vec::<String>::deserialize(input)?.join(",").parse().map_err(de::Error::custom)
}

impl KeyPair {
    /// Whether it may send some mail only.
    pub(crate) fn is_bound(&self) -> bool {
        self.campaigns.is_some() || self.senders != AllowedSenders::everyone()
    }
}

impl KeyPairs {
    /// Reads a file's text. Errors begin with the place, such as `RELAYNEWS.secret: `.
    pub(crate) fn read(text: &str) -> Result<Self, serde_path_to_error::Error<serde_json::Error>> {
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&KeyPair> {
        self.0.get(name)
    }

    /// The campaigns that key pairs are bound to, each with the key pair's name.
    pub(crate) fn campaigns(&self) -> impl Iterator<Item = (&str, &str)> {
        let bound = self.0.iter().filter_map(|(name, pair)| Some((name, pair.campaigns.as_ref()?)));
        bound.flat_map(|(name, all)| all.iter().map(move |one| (name.as_str(), one.as_str())))
    }

    /// Whether the password is that of the user. Digests have one length, and are compared in constant time.
    pub(crate) fn admits(&self, user: &str, password: &str) -> bool {
        let digest = |text: &str| Sha256::digest(text.as_bytes());
        let pair = self.get(user);
        let secret = pair.map_or(SECRET_OF_NOBODY, |pair| &pair.secret);
        bool::from(digest(password).ct_eq(&digest(secret))) && pair.is_some()
    }
}

/// Longest time between the logins of an address.
const MOST_DELAY: Duration = Duration::from_secs(30);
/// A login that would have to wait longer is turned away.
const MOST_WAIT: Duration = Duration::from_mins(1);
/// An address without a failed login for so long begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(15);
/// Number of addresses that are remembered, in about 1 MB. For a further one, another is forgotten.
const MOST_ADDRESSES: usize = 10_000;

/// The key pairs, and the failed logins by SMTP and HTTP.
pub(crate) struct Logins {
    pub(crate) keys: KeyPairs,
    failed: Mutex<FailedLogins>,
}

impl Logins {
    pub(crate) fn new(keys: KeyPairs) -> Self {
        Self { keys, failed: Mutex::default() }
    }

    /// Waits until a login of `peer` may be checked; none if that would take too long. The login itself is checked by what
    /// this returns.
    pub(crate) async fn turn(&self, peer: IpAddr) -> Option<LoginTurn<'_>> {
        let wait = self.failed().wait(peer, Instant::now())?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Some(LoginTurn { logins: self, peer })
    }

    fn failed(&self) -> MutexGuard<'_, FailedLogins> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A login whose turn it is.
pub(crate) struct LoginTurn<'a> {
    logins: &'a Logins,
    peer: IpAddr,
}

impl LoginTurn<'_> {
    /// Checks the login of `user`, and notes how it ended.
    pub(crate) fn check<T, E>(
        self,
        user: &str,
        check: impl FnOnce(&KeyPairs) -> Result<T, E>,
    ) -> Result<T, E> {
        let Self { logins, peer } = self;
        let checked = check(&logins.keys);
        logins.failed().checked(peer, checked.is_ok(), Instant::now());
        if checked.is_err() {
            let user = AddressVisibility::Masked.within(user);
            tracing::warn!(%peer, user, "a login with a wrong user or password");
        }
        checked
    }
}

/// The failed logins by address. Each doubles the time between the next logins of its address, from 1 s to
/// [`MOST_DELAY`], over all of its connections; a right login ends that.
#[derive(Debug, Default)]
struct FailedLogins(BTreeMap<ClientAddress, LoginDelay>);

#[derive(Debug)]
struct LoginDelay {
    failures: u32,
    /// When the next login may be checked.
    next: Instant,
}

impl FailedLogins {
    /// How long a login that comes `now` has to wait until it is checked; none if that is longer than [`MOST_WAIT`].
    fn wait(&mut self, address: IpAddr, now: Instant) -> Option<Duration> {
        let delayed = self.0.get_mut(&ClientAddress::of(address));
        let Some(delayed) = delayed.filter(|delayed| now < delayed.next + FORGOTTEN_AFTER) else {
            return Some(Duration::ZERO);
        };
        let at = delayed.next.max(now);
        let wait = at - now;
        if wait > MOST_WAIT {
            return None;
        }
        delayed.next = at + delay(delayed.failures);
        Some(wait)
    }

    /// A login of `address` was checked.
    fn checked(&mut self, address: IpAddr, is_right: bool, now: Instant) {
        let address = ClientAddress::of(address);
        if is_right {
            self.0.remove(&address);
            return;
        }
        self.0.retain(|_, delayed| now < delayed.next + FORGOTTEN_AFTER);
        let mut delayed = self.0.remove(&address).unwrap_or(LoginDelay { failures: 0, next: now });
        if self.0.len() >= MOST_ADDRESSES {
            let fewest = self.0.iter().min_by_key(|(_, delayed)| delayed.failures);
            let fewest = fewest.map(|(address, _)| *address);
            fewest.map(|fewest| self.0.remove(&fewest));
        }
        delayed.failures = delayed.failures.saturating_add(1);
        delayed.next = delayed.next.max(now + delay(delayed.failures));
        self.0.insert(address, delayed);
    }
}

fn delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(5);
    Duration::from_secs(1 << doublings).min(MOST_DELAY)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = r#"{
        "RELAYNEWS": {"secret": "correct-horse-battery", "campaigns": ["news"], "senders": ["*@example.org"]},
        "RELAYALL": {"secret": "staple-correct-horse"}
    }"#;

    #[test]
    fn only_the_secret_of_the_user_is_right() {
        let keys = KeyPairs::read(FILE).unwrap();
        assert!(keys.admits("RELAYNEWS", "correct-horse-battery"));
        assert!(keys.admits("RELAYALL", "staple-correct-horse"));
        for (user, password) in [
            ("RELAYALL", "correct-horse-battery"),
            ("RELAYALL", ""),
            ("relayall", "staple-correct-horse"),
            ("NOBODY", SECRET_OF_NOBODY),
            ("", ""),
        ] {
            assert!(!keys.admits(user, password), "{user} {password}");
        }
    }

    #[test]
    fn a_key_file_says_what_each_pair_may_be_used_for() {
        let keys = KeyPairs::read(FILE).unwrap();
        let news = &keys.0["RELAYNEWS"];
        assert_eq!(news.campaigns.as_deref(), Some(&["news".to_owned()][..]));
        assert!(news.senders.allows("any@example.org") && !news.senders.allows("any@example.net"));
        let all = &keys.0["RELAYALL"];
        assert!(all.campaigns.is_none() && all.senders.allows("any@example.net"));
        assert!(news.is_bound() && !all.is_bound());
    }

    #[test]
    fn a_pair_for_some_campaigns_or_for_some_senders_alone_makes_no_other_calls() {
        for bound in [r#""campaigns": ["news"]"#, r#""senders": ["*@example.org"]"#] {
            let file = format!(r#"{{"A1": {{"secret": "correct-horse-battery", {bound}}}}}"#);
            assert!(KeyPairs::read(&file).unwrap().0["A1"].is_bound(), "{bound}");
        }
    }

    /// Regression: the lowest address was forgotten, however often it had failed.
    #[test]
    fn where_there_are_too_many_addresses_the_one_that_failed_least_is_forgotten() {
        let (mut logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..3 {
            logins.checked(address(0), false, now);
        }
        for other in 1..=u32::try_from(MOST_ADDRESSES).unwrap() + 1 {
            logins.checked(address(other << 8), false, now);
        }
        assert_eq!(logins.0.len(), MOST_ADDRESSES);
        assert!(logins.wait(address(0), now) > Some(Duration::ZERO));
    }

    #[test]
    fn a_key_file_with_a_fault_is_refused_with_the_place_and_without_the_secret() {
        let pair = |more: &str| format!(r#"{{"A1": {{"secret": "correct-horse-battery"{more}}}}}"#);
        for (text, named) in [
            ("[]".to_owned(), "expected a map"),
            (r#"{"A1": {}}"#.to_owned(), "A1: missing field `secret`"),
            (r#"{"A1": {"secret": "horse"}}"#.to_owned(), "A1.secret: must have at least 16 bytes"),
            (pair(r#", "campaign": []"#), "unknown field `campaign`"),
            (pair(r#", "senders": ["a b"]"#), "A1.senders: \"a b\" is not allowed"),
        ] {
            let error = KeyPairs::read(&text).err().expect(named).to_string();
            assert!(error.contains(named), "{named}: {error}");
            assert!(!error.contains("horse"), "{error}");
        }
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn failures_are_forgotten_in_time_and_never_too_many_to_remember() {
        let (mut logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..5 {
            logins.checked(address(0), false, now);
        }
        assert_eq!(logins.wait(address(0), now), Some(Duration::from_secs(16)));
        let later = now + Duration::from_mins(16);
        assert_eq!(logins.wait(address(0), later), Some(Duration::ZERO));
        logins.checked(address(0), false, later);
        assert_eq!(logins.wait(address(0), later), Some(Duration::from_secs(1)), "anew");

        let mut logins = FailedLogins::default();
        let most = u32::try_from(MOST_ADDRESSES).unwrap();
        for number in 0..most + 10 {
            logins.checked(address(number), false, now + Duration::from_millis(number.into()));
        }
        assert_eq!(logins.0.len(), MOST_ADDRESSES);
        let last = now + Duration::from_millis((most + 9).into());
        assert_eq!(logins.wait(address(9), last), Some(Duration::ZERO), "another one is forgotten");
        assert!(logins.wait(address(most + 9), last).unwrap() > Duration::ZERO);
    }

    proptest! {
        #[test]
        fn wrong_logins_of_one_address_are_checked_ever_less_often(
            steps in vec((0..3_u32, 0..15_000_u64), 1..20),
        ) {
            let mut logins = FailedLogins::default();
            let mut now = Instant::now();
            // Per address: the failures, and when the last was checked.
            let mut known: BTreeMap<u32, (u32, Instant)> = BTreeMap::new();
            for (number, step) in steps {
                now += Duration::from_millis(step);
                let Some(wait) = logins.wait(address(number), now) else {
                    prop_assert!(false, "one client that waits for its answers is never turned away");
                    break;
                };
                prop_assert!(wait <= MOST_WAIT);
                now += wait;
                logins.checked(address(number), false, now);
                let (failures, last) = known.entry(number).or_insert((0, now));
                let delay = if *failures == 0 { 0 } else { (1 << (*failures - 1).min(5)).min(30) };
                prop_assert!(now - *last >= Duration::from_secs(delay));
                (*failures, *last) = (*failures + 1, now);
            }
        }
    }
}
