use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tidegate_delivery::ports::Monotonic;
use tokio::time::Instant;

use super::logouts::{Logouts, hash};
use super::tokens::{TokenHolder, Tokens};
use crate::rate_limit::{BucketRate, ClientAddress, ClientSession, TokenBucket};

/// Life time of a login.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// Tries to log in by an address: one a second, ten at once.
const TRIES: (f64, u32) = (1.0, 10);
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

    fn signed(&self, session: &str) -> String {
        format!("{session}.{}", BASE64.encode(self.tag("session", session)))
    }
}

/// Tokens, sessions and CSRF tokens.
#[derive(Debug)]
pub(super) struct Auth {
    tokens: Tokens,
    /// A key for each holder, which signs that holder's sessions. It is derived from the token and from what
    /// tells this console from others with the same token, so that logins survive a restart, are good here
    /// alone, and end with their token. It is random where a restart does not know which logins were ended:
    /// logins then end with the process.
    keys: Vec<Key>,
    /// The key for everything else, random.
    key: Key,
    cookie: String,
    started: Instant,
    /// Wrong tokens of an address take from its bucket.
    tries: Mutex<BTreeMap<ClientAddress, TokenBucket>>,
    logouts: Logouts,
}

impl Auth {
    /// Those of the console at `port` of a stack, which has a name and a region.
    pub(super) fn new(
        tokens: Tokens,
        port: u16,
        [name, region]: [&str; 2],
        logouts: Logouts,
    ) -> Self {
        // Cookies do not depend on the port: with the port in its name, each console on a host has
        // its own.
        let cookie = format!("tidegate-console-{port}");
        let key = |holder: &TokenHolder| {
            if !logouts.are_remembered() {
                return Key(rand::random());
            }
            // A line each: none of them contains the end of a line.
            let token = holder.token.reveal();
            let console = ["tidegate console key", token, &cookie, name, region];
            Key(Sha256::digest(console.join("\n")).into())
        };
        let keys = tokens.holders().iter().map(key).collect();
        let (key, started, tries) = (Key(rand::random()), Instant::now(), Mutex::default());
        Self { tokens, keys, key, cookie, started, tries, logouts }
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

    /// The session whose limits a client counts to. Its label has a part of the cookie's hash.
    pub(super) fn client_session(
        &self,
        credential: &Credential,
        address: ClientAddress,
    ) -> ClientSession {
        let name = self.holder(credential).and_then(|holder| holder.name.as_deref());
        match credential {
            Credential::Here => ClientSession::new(&address.to_string()),
            Credential::Cookie { session, .. } => {
                let hash = hash(session);
                ClientSession::new(&format!("{} {}", name.unwrap_or("login"), &hash[..8]))
            }
            Credential::Bearer { .. } => {
                ClientSession::new(&format!("{} at {address}", name.unwrap_or("token")))
            }
        }
    }

    /// Finds the holder of a token that somebody gave. An address that gave too many wrong ones is refused whatever
    /// it gives, so that it learns nothing.
    pub(super) fn check_token(
        &self,
        given: &str,
        address: ClientAddress,
    ) -> Result<usize, TokenRefusal> {
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
        // All are compared: the time reveals not even which one was right.
        let held = self.tokens.holders().iter().enumerate();
        let right = held.filter(|(_, h)| self.key.is_same("token", h.token.reveal(), given.trim()));
        if let Some((holder, _)) = right.last() {
            return Ok(holder);
        }
        bucket.take(now);
        Err(TokenRefusal::Wrong)
    }

    /// A new login's cookie, good until `until` (seconds since 1970) unless it is logged out before.
    pub(super) fn session(&self, holder: usize, until: u64) -> String {
        let session = format!("{until}.{}", BASE64.encode(rand::random::<[u8; 12]>()));
        self.keys.get(holder).unwrap_or(&self.key).signed(&session)
    }

    /// The holder and the end of a session that we issued; none if the cookie is no such session.
    fn issued(&self, cookie: &str) -> Option<(usize, u64)> {
        let (session, _) = cookie.rsplit_once('.')?;
        let (until, _) = session.split_once('.')?;
        let until = until.parse().ok()?;
        let mut keys = self.keys.iter().enumerate();
        let is_by = |key: &Key| self.key.is_same("compare", &key.signed(session), cookie);
        keys.find(|(_, key)| is_by(key)).map(|(holder, _)| (holder, until))
    }

    /// The holder of a cookie that is a session which we issued, has not expired and was not logged out.
    pub(super) fn session_holder(&self, cookie: &str, now: u64) -> Option<usize> {
        let (holder, until) = self.issued(cookie)?;
        (until > now && !self.logouts.contains(cookie)).then_some(holder)
    }

    /// Ends a session before it expires.
    pub(super) fn end(&self, cookie: &str, now: u64) {
        if let Some((_, until)) = self.issued(cookie) {
            self.logouts.add(cookie, until, now);
        }
    }

    /// The CSRF token that belongs to a credential. Scripts of other sites cannot read it.
    pub(super) fn csrf(&self, credential: &Credential) -> String {
        let (key, of) = match credential {
            Credential::Here => (None, "here"),
            Credential::Cookie { session, holder } => (self.keys.get(*holder), session.as_str()),
            Credential::Bearer { holder } => (self.keys.get(*holder), "bearer"),
        };
        BASE64.encode(key.unwrap_or(&self.key).tag("csrf", of))
    }

    pub(super) fn is_csrf(&self, credential: &Credential, given: &str) -> bool {
        self.key.is_same("compare", &self.csrf(credential), given)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::tests::Log;

    const STACK: [&str; 2] = ["mail", "us-east-1"];
    const TOKEN: &str = "correct-horse-battery-staple";

    fn auth() -> Auth {
        auth_with(None)
    }

    fn auth_with(logouts: Option<&Path>) -> Auth {
        auth_of(TOKEN, 8_080, STACK, logouts)
    }

    fn auth_of(tokens: &str, port: u16, stack: [&str; 2], logouts: Option<&Path>) -> Auth {
        let logouts = Logouts::open(logouts.map(Path::to_owned));
        Auth::new(tokens.parse().unwrap(), port, stack, logouts)
    }

    /// A file for logouts that no other test uses, and that does not exist yet.
    fn file(name: &str) -> PathBuf {
        let name = format!("tidegate-console-logouts-{name}-{}.json", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_session_is_good_until_its_end_and_only_as_it_was_given() {
        let auth = auth();
        let cookie = auth.session(0, 1_000);
        assert!(auth.session_holder(&cookie, 999).is_some());
        assert!(auth.session_holder(&cookie, 1_000).is_none());
        assert!(auth.session_holder(&cookie.replace("1000.", "2000."), 999).is_none());
        for wrong in ["", ".", "1000.", "1000", "x.y"] {
            assert!(auth.session_holder(wrong, 0).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_session_is_good_at_its_own_console_alone_and_after_its_restart() {
        let file = file("own");
        let kept = Some(file.as_path());
        let cookie = auth_with(kept).session(0, 1_000);
        assert!(auth_with(kept).session_holder(&cookie, 999).is_some(), "a restart");
        let another = auth_of("another-horse-another-staple", 8_080, STACK, kept);
        assert!(another.session_holder(&cookie, 999).is_none(), "another token");
        let [name, region] = STACK;
        for (port, stack) in
            [(8_081, STACK), (8_080, ["other", region]), (8_080, [name, "elsewhere"])]
        {
            assert!(
                auth_of(TOKEN, port, stack, kept).session_holder(&cookie, 999).is_none(),
                "{port} {stack:?}"
            );
        }
    }

    #[test]
    fn where_nothing_is_remembered_a_session_ends_with_the_process() {
        let auth = auth();
        let cookie = auth.session(0, 1_000);
        assert!(
            auth.session_holder(&cookie, 999).is_some()
                && self::auth().session_holder(&cookie, 999).is_none()
        );
    }

    #[test]
    fn while_logouts_cannot_be_read_no_earlier_session_is_good_and_their_file_stays() {
        let (log, _logs) = Log::of_this_thread();
        let file = file("broken");
        let cookie = auth_with(Some(&file)).session(0, 1_000);
        assert_eq!(log.text(), "", "a file that is not there is an empty one");
        std::fs::write(&file, "{\"half").unwrap();
        let after = auth_with(Some(&file));
        assert!(after.session_holder(&cookie, 999).is_none(), "it may have been logged out");
        let newer = after.session(0, 1_000);
        assert!(after.session_holder(&newer, 999).is_some());
        after.end(&newer, 500);
        assert!(after.session_holder(&newer, 999).is_none());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"half");
        std::fs::remove_file(&file).unwrap();
        assert!(log.text().contains("WARN") && log.text().contains("broken"), "{}", log.text());
    }

    #[test]
    fn without_a_token_nothing_is_one() {
        let open = Auth::new(Tokens::default(), 1, STACK, Logouts::open(None));
        let address = ClientAddress::of([192, 0, 2, 1].into());
        assert_eq!(open.check_token("", address), Err(TokenRefusal::Wrong));
        assert!(!open.needs_token());
        assert_eq!(auth().check_token(TOKEN, address), Ok(0));
        assert_eq!(auth().check_token("correct", address), Err(TokenRefusal::Wrong));
    }

    #[test]
    fn a_csrf_token_is_its_sessions_alone() {
        let auth = auth();
        let cookie = |until| Credential::Cookie { session: auth.session(0, until), holder: 0 };
        let (one, two) = (cookie(1), cookie(2));
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
    fn a_session_that_was_logged_out_is_none_and_others_of_the_same_second_stay() {
        let auth = auth();
        let (one, two) = (auth.session(0, 1_000), auth.session(0, 1_000));
        auth.end(&one, 500);
        assert!(
            auth.session_holder(&one, 500).is_none() && auth.session_holder(&two, 500).is_some()
        );
    }

    #[test]
    fn a_restart_forgets_no_logout_and_what_has_expired_is_not_kept() {
        let file = file("kept");
        let before = auth_with(Some(&file));
        let (short, long) = (before.session(0, 1_000), before.session(0, 2_000));
        before.end("1000.x.y", 500);
        assert!(!file.exists(), "what is no session is not kept");
        before.end(&short, 500);
        before.end(&long, 500);
        let after = auth_with(Some(&file));
        assert!(
            after.session_holder(&short, 500).is_none()
                && after.session_holder(&long, 500).is_none()
        );
        let newer = after.session(0, 3_000);
        after.end(&newer, 1_500);
        let kept: BTreeMap<String, u64> =
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        // A cookie itself would let in whoever reads the file, if the console forgot its logout.
        assert_eq!(kept, BTreeMap::from([(hash(&long), 2_000), (hash(&newer), 3_000)]));
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn each_token_has_its_own_sessions_which_end_with_it_alone() {
        let (ada, bob) = ("correct-horse-battery-staple", "incorrect-mule-tidal-clip");
        let both = format!("ada act {ada}\nbob look {bob}");
        let file = file("several");
        let kept = Some(file.as_path());
        let auth = auth_of(&both, 8_080, STACK, kept);
        let address = ClientAddress::of([192, 0, 2, 1].into());
        assert_eq!(auth.check_token(ada, address), Ok(0));
        assert_eq!(auth.check_token(bob, address), Ok(1));
        let name = |holder| {
            auth.holder(&Credential::Bearer { holder }).and_then(|holder| holder.name.clone())
        };
        assert_eq!((name(0).as_deref(), name(1).as_deref()), (Some("ada"), Some("bob")));
        let (adas, bobs) = (auth.session(0, 1_000), auth.session(1, 1_000));
        assert_eq!(auth.session_holder(&adas, 999), Some(0));
        assert_eq!(auth.session_holder(&bobs, 999), Some(1));
        let without_ada = auth_of(&format!("bob look {bob}"), 8_080, STACK, kept);
        assert_eq!(without_ada.session_holder(&adas, 999), None);
        assert_eq!(without_ada.session_holder(&bobs, 999), Some(0));
    }
}
