use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tidegate_delivery::ports::Monotonic;
use tokio::time::Instant;

use crate::rate_limit::{BucketRate, ClientAddress, TokenBucket};

/// Life time of a login.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// Tries to log in by an address: one a second, ten at once.
const TRIES: (f64, u32) = (1.0, 10);
/// Addresses whose tries are counted at most; beyond, none may try until one's bucket is full again.
const TRIERS: usize = 10_000;

/// The console's secret: 16 to 256 visible ASCII characters.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The text is too short, too long, or has other characters.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the token has {0} characters, or others than visible ASCII; allowed are 16 to 256 of those"
)]
pub struct InvalidToken(usize);

impl Token {
    /// A new one, of 256 random bits.
    pub fn random() -> Self {
        Self(BASE64.encode(rand::random::<[u8; 32]>()))
    }

    /// The secret itself, for the link that logs in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let is_valid =
            (16..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidToken(text.chars().count())) }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The way in which a request was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// Nothing is asked: the console is on loopback, without a token.
    Here,
    /// By the cookie of a login, which a browser sends by itself.
    Cookie(String),
    /// By the token in a header, which no browser sends by itself.
    Bearer,
}

/// Tokens, sessions and CSRF tokens. All comparisons are of keyed hashes in constant time, so that
/// their duration reveals nothing.
#[derive(Debug)]
pub(super) struct Auth {
    token: Option<Token>,
    /// The key of all hashes: derived from the token, so that logins survive a restart; random
    /// without a token.
    key: [u8; 32],
    cookie: String,
    started: Instant,
    tries: Mutex<BTreeMap<ClientAddress, TokenBucket>>,
}

impl Auth {
    pub(super) fn new(token: Option<Token>, port: u16) -> Self {
        let key = token.as_ref().map_or_else(rand::random, |token| {
            Sha256::new()
                .chain_update("tidegate console key\n")
                .chain_update(&token.0)
                .finalize()
                .into()
        });
        // Cookies do not depend on the port: with the port in its name, each console on a host has
        // its own.
        let cookie = format!("tidegate-console-{port}");
        Self { token, key, cookie, started: Instant::now(), tries: Mutex::default() }
    }

    pub(super) fn cookie_name(&self) -> &str {
        &self.cookie
    }

    pub(super) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    fn tag(&self, purpose: &str, text: &str) -> [u8; 32] {
        // A key of any length will do.
        let mac = Hmac::<Sha256>::new_from_slice(&self.key);
        let Ok(mut mac) = mac else { return [0; 32] };
        mac.update(purpose.as_bytes());
        mac.update(b"\n");
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn is_same(&self, purpose: &str, a: &str, b: &str) -> bool {
        self.tag(purpose, a).ct_eq(&self.tag(purpose, b)).into()
    }

    /// Whether `given` is the console's token; false if it has none.
    pub(super) fn is_token(&self, given: &str) -> bool {
        self.token.as_ref().is_some_and(|token| self.is_same("token", &token.0, given))
    }

    /// Limits tries to log in by address; the error is the number of seconds to wait.
    pub(super) fn may_try(&self, address: ClientAddress) -> Result<(), u64> {
        let now = Monotonic::from_origin(self.started.elapsed());
        let allowance = BucketRate::new(TRIES.0, TRIES.1).map_err(|_| 1_u64)?;
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.retain(|_, bucket| !bucket.is_full(now));
        if tries.len() >= TRIERS && !tries.contains_key(&address) {
            return Err(1);
        }
        let bucket = tries.entry(address).or_insert_with(|| TokenBucket::full(allowance, now));
        if bucket.take(now) {
            return Ok(());
        }
        let wait = bucket.ready_at(1).saturating_since(now);
        Err(u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1))
    }

    /// A login's cookie, good until `until` (seconds since 1970).
    pub(super) fn session(&self, until: u64) -> String {
        let tag = BASE64.encode(self.tag("session", &until.to_string()));
        format!("{until}.{tag}")
    }

    /// Whether a cookie is a session that we issued and that has not expired.
    pub(super) fn is_session(&self, cookie: &str, now: u64) -> bool {
        let until = cookie.split_once('.').and_then(|(until, _)| until.parse::<u64>().ok());
        until.is_some_and(|until| {
            until > now && self.is_same("compare", &self.session(until), cookie)
        })
    }

    /// The CSRF token that belongs to a credential. Scripts of other sites cannot read it.
    pub(super) fn csrf(&self, credential: &Credential) -> String {
        let of = match credential {
            Credential::Here => "here",
            Credential::Cookie(cookie) => cookie,
            Credential::Bearer => "bearer",
        };
        BASE64.encode(self.tag("csrf", of))
    }

    pub(super) fn is_csrf(&self, credential: &Credential, given: &str) -> bool {
        self.is_same("compare", &self.csrf(credential), given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth() -> Auth {
        Auth::new(Some("correct horse battery staple".replace(' ', "-").parse().unwrap()), 8_080)
    }

    #[test]
    fn a_session_is_good_until_its_end_and_only_as_it_was_given() {
        let auth = auth();
        let cookie = auth.session(1_000);
        assert!(auth.is_session(&cookie, 999));
        assert!(!auth.is_session(&cookie, 1_000));
        assert!(!auth.is_session(&cookie.replace("1000.", "2000."), 999));
        for wrong in ["", ".", "1000.", "1000", "x.y"] {
            assert!(!auth.is_session(wrong, 0), "{wrong}");
        }
        // A restart of the same token knows it; another token's console does not.
        assert!(self::auth().is_session(&cookie, 999));
        assert!(!Auth::new(Some(Token::random()), 8_080).is_session(&cookie, 999));
    }

    #[test]
    fn without_a_token_nothing_is_one() {
        let open = Auth::new(None, 1);
        assert!(!open.is_token("") && !open.needs_token());
        assert!(auth().is_token("correct-horse-battery-staple") && !auth().is_token("correct"));
    }

    #[test]
    fn a_csrf_token_is_its_sessions_alone() {
        let auth = auth();
        let (one, two) = (Credential::Cookie(auth.session(1)), Credential::Cookie(auth.session(2)));
        assert!(auth.is_csrf(&one, &auth.csrf(&one)));
        assert!(!auth.is_csrf(&two, &auth.csrf(&one)));
        assert!(!auth.is_csrf(&one, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn tries_to_log_in_are_counted_by_address() {
        let (auth, address) = (auth(), ClientAddress::of([192, 0, 2, 1].into()));
        for _ in 0..10 {
            assert_eq!(auth.may_try(address), Ok(()));
        }
        assert_eq!(auth.may_try(address), Err(1));
        assert_eq!(auth.may_try(ClientAddress::of([192, 0, 2, 2].into())), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(auth.may_try(address), Ok(()));
    }

    #[test]
    fn a_token_is_long_enough_and_never_shown() {
        assert_eq!("short".parse::<Token>(), Err(InvalidToken(5)));
        assert!("with spaces in the middle".parse::<Token>().is_err());
        let token = Token::random();
        assert_eq!(token.reveal().parse::<Token>().as_ref(), Ok(&token));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
