use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tidegate_delivery::ports::Monotonic;
use tokio::time::Instant;

use super::logouts::Logouts;
use crate::rate_limit::{BucketRate, ClientAddress, TokenBucket};

/// Life time of a login.
pub(super) const SESSION: time::Duration = time::Duration::hours(12);
/// Tries to log in by an address: one a second, ten at once.
const TRIES: (f64, u32) = (1.0, 10);
/// Addresses whose tries are counted at most; beyond, the one with the fullest bucket is forgotten.
const TRIERS: usize = 10_000;

/// Different characters that a token needs, and different steps from one character to the next: a
/// repeated word and a row such as `0123456789…` have fewer.
const VARIETY: usize = 8;

/// The console's secret: 16 to 256 visible ASCII characters that are no repetition and no row.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Reasons why a text is no token.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidToken {
    /// It is too short or too long, or has other characters.
    #[error(
        "the token has {0} characters, or others than visible ASCII; allowed are 16 to 256 of those"
    )]
    Form(usize),
    /// It could be guessed.
    #[error(
        "the token repeats few characters, or counts them up: take a random one, such as that of `openssl rand -hex 24`"
    )]
    Weak,
}

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
        let has_form =
            (16..=256).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if !has_form {
            return Err(InvalidToken::Form(text.chars().count()));
        }
        let characters: BTreeSet<u8> = text.bytes().collect();
        let next = text.bytes().skip(1).map(i16::from);
        let steps: BTreeSet<i16> = next.zip(text.bytes()).map(|(b, a)| b - i16::from(a)).collect();
        if characters.len() < VARIETY || steps.len() < VARIETY {
            return Err(InvalidToken::Weak);
        }
        Ok(Self(text.to_owned()))
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

/// Reasons why a token that was given lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// It is not the console's.
    Wrong,
    /// The address tried too many wrong ones, and may try again after so many seconds.
    TooMany(u64),
}

/// Tokens, sessions and CSRF tokens. All comparisons are of keyed hashes in constant time, so that
/// their duration reveals nothing.
#[derive(Debug)]
pub(super) struct Auth {
    token: Option<Token>,
    /// The key of all hashes. It is derived from the token and from what tells this console from others
    /// with the same token, so that logins survive a restart, and are good here alone. It is random where
    /// there is no token, and where a restart does not know which logins were ended: logins then end with
    /// the process.
    key: [u8; 32],
    cookie: String,
    started: Instant,
    /// Wrong tokens of an address take from its bucket.
    tries: Mutex<BTreeMap<ClientAddress, TokenBucket>>,
    logouts: Logouts,
}

impl Auth {
    /// Those of the console at `port` of a stack, which has a name and a region.
    pub(super) fn new(
        token: Option<Token>,
        port: u16,
        [name, region]: [&str; 2],
        logouts: Logouts,
    ) -> Self {
        // Cookies do not depend on the port: with the port in its name, each console on a host has
        // its own.
        let cookie = format!("tidegate-console-{port}");
        let key = match token.as_ref().filter(|_| logouts.are_remembered()) {
            Some(token) => {
                // A line each: none of them contains the end of a line.
                let console = ["tidegate console key", &token.0, &cookie, name, region];
                Sha256::digest(console.join("\n")).into()
            }
            None => rand::random(),
        };
        Self { token, key, cookie, started: Instant::now(), tries: Mutex::default(), logouts }
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

    /// Checks a token that somebody gave. An address that gave too many wrong ones is refused whatever
    /// it gives, so that it learns nothing.
    pub(super) fn check_token(
        &self,
        given: &str,
        address: ClientAddress,
    ) -> Result<(), TokenRefusal> {
        let now = Monotonic::from_origin(self.started.elapsed());
        let allowance = BucketRate::new(TRIES.0, TRIES.1).map_err(|_| TokenRefusal::Wrong)?;
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= TRIERS && !tries.contains_key(&address) {
            let fullest = tries.iter().min_by_key(|(_, bucket)| bucket.ready_at(1));
            if let Some(fullest) = fullest.map(|(address, _)| *address) {
                tries.remove(&fullest);
            }
        }
        let bucket = tries.entry(address).or_insert_with(|| TokenBucket::full(allowance, now));
        let wait = bucket.ready_at(1).saturating_since(now);
        if !wait.is_zero() {
            let seconds = u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1);
            return Err(TokenRefusal::TooMany(seconds));
        }
        if self.token.as_ref().is_some_and(|token| self.is_same("token", &token.0, given.trim())) {
            return Ok(());
        }
        bucket.take(now);
        Err(TokenRefusal::Wrong)
    }

    /// A new login's cookie, good until `until` (seconds since 1970) unless it is logged out before.
    pub(super) fn session(&self, until: u64) -> String {
        self.signed(&format!("{until}.{}", BASE64.encode(rand::random::<[u8; 12]>())))
    }

    fn signed(&self, session: &str) -> String {
        format!("{session}.{}", BASE64.encode(self.tag("session", session)))
    }

    /// The end of a session that we issued; none if the cookie is no such session.
    fn end_of(&self, cookie: &str) -> Option<u64> {
        let (session, _) = cookie.rsplit_once('.')?;
        let (until, _) = session.split_once('.')?;
        let until = until.parse().ok()?;
        self.is_same("compare", &self.signed(session), cookie).then_some(until)
    }

    /// Whether a cookie is a session that we issued, that has not expired and was not logged out.
    pub(super) fn is_session(&self, cookie: &str, now: u64) -> bool {
        self.end_of(cookie).is_some_and(|until| until > now) && !self.logouts.contains(cookie)
    }

    /// Ends a session before it expires.
    pub(super) fn end(&self, cookie: &str, now: u64) {
        if let Some(until) = self.end_of(cookie) {
            self.logouts.add(cookie, until, now);
        }
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
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::super::logouts::hash;
    use super::super::tests::Log;
    use super::*;

    const STACK: [&str; 2] = ["mail", "us-east-1"];

    fn auth() -> Auth {
        auth_with(None)
    }

    fn auth_with(logouts: Option<&Path>) -> Auth {
        auth_of(8_080, STACK, logouts)
    }

    fn auth_of(port: u16, stack: [&str; 2], logouts: Option<&Path>) -> Auth {
        let token = "correct-horse-battery-staple".parse().unwrap();
        Auth::new(Some(token), port, stack, Logouts::open(logouts.map(Path::to_owned)))
    }

    /// A file for logouts that no other test uses, and that does not exist yet.
    fn file(name: &str) -> PathBuf {
        let name = format!("tidegate-console-logouts-{name}-{}.json", std::process::id());
        std::env::temp_dir().join(name)
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
    }

    #[test]
    fn a_session_is_good_at_its_own_console_alone_and_after_its_restart() {
        let file = file("own");
        let kept = Some(file.as_path());
        let cookie = auth_with(kept).session(1_000);
        assert!(auth_with(kept).is_session(&cookie, 999), "a restart");
        let logouts = Logouts::open(Some(file.clone()));
        let another = Auth::new(Some(Token::random()), 8_080, STACK, logouts);
        assert!(!another.is_session(&cookie, 999), "another token");
        let [name, region] = STACK;
        for (port, stack) in
            [(8_081, STACK), (8_080, ["other", region]), (8_080, [name, "elsewhere"])]
        {
            assert!(!auth_of(port, stack, kept).is_session(&cookie, 999), "{port} {stack:?}");
        }
    }

    #[test]
    fn where_nothing_is_remembered_a_session_ends_with_the_process() {
        let auth = auth();
        let cookie = auth.session(1_000);
        assert!(auth.is_session(&cookie, 999) && !self::auth().is_session(&cookie, 999));
    }

    #[test]
    fn while_logouts_cannot_be_read_no_earlier_session_is_good_and_their_file_stays() {
        let (log, _logs) = Log::of_this_thread();
        let file = file("broken");
        let cookie = auth_with(Some(&file)).session(1_000);
        assert_eq!(log.text(), "", "a file that is not there is an empty one");
        std::fs::write(&file, "{\"half").unwrap();
        let after = auth_with(Some(&file));
        assert!(!after.is_session(&cookie, 999), "it may have been logged out");
        let newer = after.session(1_000);
        assert!(after.is_session(&newer, 999));
        after.end(&newer, 500);
        assert!(!after.is_session(&newer, 999));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"half");
        std::fs::remove_file(&file).unwrap();
        assert!(log.text().contains("WARN") && log.text().contains("broken"), "{}", log.text());
    }

    #[test]
    fn without_a_token_nothing_is_one() {
        let open = Auth::new(None, 1, STACK, Logouts::open(None));
        let address = ClientAddress::of([192, 0, 2, 1].into());
        assert_eq!(open.check_token("", address), Err(TokenRefusal::Wrong));
        assert!(!open.needs_token());
        assert_eq!(auth().check_token("correct-horse-battery-staple", address), Ok(()));
        assert_eq!(auth().check_token("correct", address), Err(TokenRefusal::Wrong));
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
    async fn wrong_tokens_are_counted_by_address() {
        let (auth, address) = (auth(), ClientAddress::of([192, 0, 2, 1].into()));
        let right = "correct-horse-battery-staple";
        for _ in 0..10 {
            assert_eq!(auth.check_token(right, address), Ok(()), "a right one counts nothing");
            assert_eq!(auth.check_token("wrong", address), Err(TokenRefusal::Wrong));
        }
        assert_eq!(auth.check_token("wrong", address), Err(TokenRefusal::TooMany(1)));
        assert_eq!(auth.check_token(right, address), Err(TokenRefusal::TooMany(1)));
        let other = ClientAddress::of([192, 0, 2, 2].into());
        assert_eq!(auth.check_token(right, other), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(auth.check_token(right, address), Ok(()));
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
        assert_eq!(auth.check_token(right, address(u32::MAX)), Ok(()));
        assert_eq!(auth.check_token("wrong", guesser), Err(TokenRefusal::TooMany(1)));
        assert_eq!(auth.tries.lock().unwrap().len(), TRIERS);
    }

    #[test]
    fn a_session_that_was_logged_out_is_none_and_others_of_the_same_second_stay() {
        let auth = auth();
        let (one, two) = (auth.session(1_000), auth.session(1_000));
        auth.end(&one, 500);
        assert!(!auth.is_session(&one, 500) && auth.is_session(&two, 500));
    }

    #[test]
    fn a_restart_forgets_no_logout_and_what_has_expired_is_not_kept() {
        let file = file("kept");
        let before = auth_with(Some(&file));
        let (short, long) = (before.session(1_000), before.session(2_000));
        before.end("1000.x.y", 500);
        assert!(!file.exists(), "what is no session is not kept");
        before.end(&short, 500);
        before.end(&long, 500);
        let after = auth_with(Some(&file));
        assert!(!after.is_session(&short, 500) && !after.is_session(&long, 500));
        let newer = after.session(3_000);
        after.end(&newer, 1_500);
        let kept: BTreeMap<String, u64> =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        // A cookie itself would let in whoever reads the file, if the console forgot its logout.
        assert_eq!(kept, BTreeMap::from([(hash(&long), 2_000), (hash(&newer), 3_000)]));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_token_is_long_enough_hard_to_guess_and_never_shown() {
        assert_eq!("short".parse::<Token>(), Err(InvalidToken::Form(5)));
        assert_eq!("with spaces in the middle".parse::<Token>(), Err(InvalidToken::Form(25)));
        for weak in
            ["aaaaaaaaaaaaaaaa", "passwordpassword", "0123456789abcdef", "abcdefghijabcdefghij"]
        {
            assert_eq!(weak.parse::<Token>(), Err(InvalidToken::Weak), "{weak}");
        }
        for _ in 0..1_000 {
            let token = Token::random();
            assert_eq!(token.reveal().parse::<Token>().as_ref(), Ok(&token));
        }
        // As `openssl rand -hex 24` makes them.
        assert!("5f9d0c6be1f7443a8a2b96d1c0e84f57a3b2c1d0e9f8a7b6".parse::<Token>().is_ok());
        assert_eq!(format!("{:?}", Token::random()), "Token(…)");
    }
}
