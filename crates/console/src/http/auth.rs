use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use tidegate_delivery::ports::Monotonic;
use tokio::time::Instant;

use super::tokens::{TokenHolder, Tokens};
use crate::rate_limit::{BucketRate, ClientAddress, TokenBucket};
use crate::stream::StreamClient;

/// Life time of a login.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// Addresses whose tries are counted at most; beyond, the one with the fullest bucket is forgotten.
const TRIERS: usize = 10_000;

/// The way in which a request was authenticated, with the place of the token's holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// Nothing is asked: the console is on loopback, without a token.
    Here,
    /// By the cookie of a login, which a browser sends by itself.
    Cookie { session: String, holder: usize },
    /// By the token in a header, which no browser sends by itself.
    Bearer { holder: usize },
}

/// Reasons why a token that was given lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// It is not the console's.
    Wrong,
    /// The address tried too many wrong ones, and may try again after so many seconds.
    TooMany(u64),
}

/// A key of hashes. All comparisons are of keyed hashes in constant time, so that their duration reveals
/// nothing.
#[derive(Debug)]
struct Key([u8; 32]);

impl Key {
    fn tag(&self, purpose: &str, text: &str) -> [u8; 32] {
        // A key of any length will do.
        let mac = Hmac::<Sha256>::new_from_slice(&self.0);
        let Ok(mut mac) = mac else { return [0; 32] };
        mac.update(purpose.as_bytes());
        mac.update(b"\n");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn is_same(&self, purpose: &str, a: &str, b: &str) -> bool {
        self.tag(purpose, a).ct_eq(&self.tag(purpose, b)).into()
    }
}

/// A login.
#[derive(Clone, Copy, Debug)]
struct Session {
    holder: usize,
    /// Seconds since 1970.
    until: u64,
}

/// Tokens, sessions and CSRF tokens.
#[derive(Debug)]
pub(super) struct Auth {
    tokens: Tokens,
    /// Random, so that logins end with the process.
    key: Key,
    cookie: String,
    started: Instant,
    /// Wrong tokens of an address take from its bucket.
    tries: Mutex<BTreeMap<ClientAddress, TokenBucket>>,
    /// The sessions that were neither logged out nor have expired, by the keyed hash of their cookie: the time that
    /// a search takes reveals no cookie.
    sessions: Mutex<BTreeMap<[u8; 32], Session>>,
}

impl Auth {
    /// Those of a console at `port`.
    pub(super) fn new(tokens: Tokens, port: u16) -> Self {
        Self {
            tokens,
            key: Key(rand::random()),
            // Cookies do not depend on the port: with the port in its name, each console on a host has
            // its own.
            cookie: format!("tidegate-console-{port}"),
            started: Instant::now(),
            tries: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn cookie_name(&self) -> &str {
        &self.cookie
    }

    pub(super) const fn needs_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whose token a credential is of; none if it is of no token.
    pub(super) fn holder(&self, credential: &Credential) -> Option<&TokenHolder> {
        match credential {
            Credential::Here => None,
            Credential::Cookie { holder, .. } | Credential::Bearer { holder } => {
                self.tokens.holders().get(*holder)
            }
        }
    }

    /// Whose limits a stream counts to.
    pub(super) fn stream_client(
        &self,
        credential: &Credential,
        address: ClientAddress,
    ) -> StreamClient {
        let session = match credential {
            Credential::Here => return address.into(),
            Credential::Cookie { session, .. } => BASE64.encode(self.key.tag("stream", session)),
            Credential::Bearer { holder } => format!("{holder} at {address}"),
        };
        StreamClient { session, address }
    }

    /// Finds the holder of a token that somebody gave. An address that gave too many wrong ones is refused whatever
    /// it gives, so that it learns nothing.
    pub(super) fn check_token(
        &self,
        given: &str,
        address: ClientAddress,
    ) -> Result<usize, TokenRefusal> {
        let now = Monotonic::from_origin(self.started.elapsed());
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= TRIERS && !tries.contains_key(&address) {
            let fullest = tries.iter().min_by_key(|(_, bucket)| bucket.ready_at());
            if let Some(fullest) = fullest.map(|(address, _)| *address) {
                tries.remove(&fullest);
            }
        }
        let bucket =
            tries.entry(address).or_insert_with(|| TokenBucket::full(BucketRate::OF_LOGINS, now));
        let wait = bucket.ready_at().saturating_since(now);
        if !wait.is_zero() {
            let seconds = u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1);
            return Err(TokenRefusal::TooMany(seconds));
        }
        // All are compared: the time reveals not even which one was right.
        let held = self.tokens.holders().iter().enumerate();
        let right = held.filter(|(_, h)| self.key.is_same("token", h.token.reveal(), given.trim()));
        if let Some((holder, _)) = right.last() {
            return Ok(holder);
        }
        bucket.take(now);
        Err(TokenRefusal::Wrong)
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new login's cookie, good for [`SESSION`] from `now` (seconds since 1970) unless it is logged out before.
    pub(super) fn log_in(&self, holder: usize, now: u64) -> String {
        let cookie = BASE64.encode(rand::random::<[u8; 32]>());
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.until > now);
        let session = Session { holder, until: now + SESSION.as_secs() };
        sessions.insert(self.key.tag("session", &cookie), session);
        cookie
    }

    /// The holder of a cookie that is a session which we issued, has not expired and was not logged out.
    pub(super) fn session_holder(&self, cookie: &str, now: u64) -> Option<usize> {
        let session = self.sessions().get(&self.key.tag("session", cookie)).copied()?;
        (session.until > now).then_some(session.holder)
    }

    /// Ends a session before it expires.
    pub(super) fn log_out(&self, cookie: &str) {
        self.sessions().remove(&self.key.tag("session", cookie));
    }

    /// The CSRF token that belongs to a credential. Scripts of other sites cannot read it.
    pub(super) fn csrf(&self, credential: &Credential) -> String {
        let of = match credential {
            Credential::Here => "here",
            Credential::Cookie { session, .. } => session,
            Credential::Bearer { .. } => "bearer",
        };
        BASE64.encode(self.key.tag("csrf", of))
    }

    pub(super) fn is_csrf(&self, credential: &Credential, given: &str) -> bool {
        self.key.is_same("compare", &self.csrf(credential), given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn auth() -> Auth {
        Auth::new(TOKEN.parse().unwrap(), 8_080)
    }

    #[test]
    fn a_session_is_good_for_twelve_hours_and_only_as_it_was_given() {
        let auth = auth();
        let end = 1_000 + SESSION.as_secs();
        let cookie = auth.log_in(0, 1_000);
        assert_eq!(auth.session_holder(&cookie, end - 1), Some(0));
        assert_eq!(auth.session_holder(&cookie, end), None);
        let (cut, longer) = (&cookie[1..], format!("{cookie}A"));
        for wrong in ["", "x.y", cut, &longer, &cookie.to_lowercase()] {
            assert_eq!(auth.session_holder(wrong, 1_000), None, "{wrong}");
        }
    }

    #[test]
    fn a_session_ends_with_the_process_and_is_good_at_its_own_console_alone() {
        let cookie = auth().log_in(0, 1_000);
        assert_eq!(auth().session_holder(&cookie, 1_000), None);
    }

    #[test]
    fn without_a_token_nothing_is_one() {
        let open = Auth::new(Tokens::default(), 1);
        let address = ClientAddress::of([192, 0, 2, 1].into());
        assert_eq!(open.check_token("", address), Err(TokenRefusal::Wrong));
        assert!(!open.needs_token());
        assert_eq!(auth().check_token(TOKEN, address), Ok(0));
        assert_eq!(auth().check_token("correct", address), Err(TokenRefusal::Wrong));
    }

    #[test]
    fn a_csrf_token_is_its_sessions_alone() {
        let auth = auth();
        let cookie = || Credential::Cookie { session: auth.log_in(0, 1), holder: 0 };
        let (one, two) = (cookie(), cookie());
        assert!(auth.is_csrf(&one, &auth.csrf(&one)));
        assert!(!auth.is_csrf(&two, &auth.csrf(&one)));
        assert!(!auth.is_csrf(&one, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_counted_by_address() {
        let (auth, address) = (auth(), ClientAddress::of([192, 0, 2, 1].into()));
        let right = "correct-horse-battery-staple";
        for _ in 0..10 {
            assert_eq!(auth.check_token(right, address), Ok(0), "a right one counts nothing");
            assert_eq!(auth.check_token("wrong", address), Err(TokenRefusal::Wrong));
        }
        assert_eq!(auth.check_token("wrong", address), Err(TokenRefusal::TooMany(1)));
        assert_eq!(auth.check_token(right, address), Err(TokenRefusal::TooMany(1)));
        let other = ClientAddress::of([192, 0, 2, 2].into());
        assert_eq!(auth.check_token(right, other), Ok(0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(auth.check_token(right, address), Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_with_wrong_tokens_keep_out_none_but_themselves() {
        let (auth, right) = (auth(), "correct-horse-battery-staple");
        let address = |n: u32| ClientAddress::of(std::net::Ipv4Addr::from_bits(n).into());
        let guesser = address(0);
        for _ in 0..10 {
            assert_eq!(auth.check_token("wrong", guesser), Err(TokenRefusal::Wrong));
        }
        for n in 1..TRIERS + 10 {
            let other = address(u32::try_from(n).unwrap());
            assert_eq!(auth.check_token("wrong", other), Err(TokenRefusal::Wrong), "{n}");
        }
        assert_eq!(auth.check_token(right, address(u32::MAX)), Ok(0));
        assert_eq!(auth.check_token("wrong", guesser), Err(TokenRefusal::TooMany(1)));
        assert_eq!(auth.tries.lock().unwrap().len(), TRIERS);
    }

    #[test]
    fn a_session_that_was_logged_out_is_none_others_stay_and_what_has_expired_is_not_kept() {
        let auth = auth();
        let (one, two) = (auth.log_in(0, 500), auth.log_in(0, 500));
        auth.log_out(&one);
        assert_eq!(
            (auth.session_holder(&one, 500), auth.session_holder(&two, 500)),
            (None, Some(0))
        );
        auth.log_in(0, 500 + SESSION.as_secs());
        assert_eq!(auth.sessions().len(), 1);
    }

    #[test]
    fn each_token_has_its_own_sessions() {
        let (ada, bob) = (TOKEN, "incorrect-mule-tidal-clip");
        let both = format!("ada act {ada}\nbob look {bob}");
        let auth = Auth::new(both.parse().unwrap(), 8_080);
        let address = ClientAddress::of([192, 0, 2, 1].into());
        assert_eq!(auth.check_token(ada, address), Ok(0));
        assert_eq!(auth.check_token(bob, address), Ok(1));
        let name = |holder| {
            auth.holder(&Credential::Bearer { holder }).and_then(|holder| holder.name.clone())
        };
        assert_eq!((name(0).as_deref(), name(1).as_deref()), (Some("ada"), Some("bob")));
        let (adas, bobs) = (auth.log_in(0, 1_000), auth.log_in(1, 1_000));
        assert_eq!(auth.session_holder(&adas, 1_001), Some(0));
        assert_eq!(auth.session_holder(&bobs, 1_001), Some(1));
    }
}
