use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use strum::EnumString;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use tidegate_delivery::ports::Monotonic;
use tidegate_operator::connections::ClientAddress;
use tokio::time::Instant;

use crate::rate_limit::{BucketRate, TokenBucket};
use crate::stream::StreamClient;

/// Life time of a login.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// Addresses whose tries are counted at most; beyond, the one with the fullest bucket is forgotten.
const TRIERS: usize = 10_000;
/// Sessions that the holder of a token has at most; a login beyond them ends the oldest.
const SESSIONS: usize = 1_000;

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
    /// The cookie's name.
    pub(super) cookie: String,
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
        // Cookies do not depend on the port: with the port in its name, each console on a host has its own.
        let cookie = format!("tidegate-console-{port}");
        let (key, started) = (Key(rand::random()), Instant::now());
        let (tries, sessions) = (Mutex::default(), Mutex::default());
        Self { tokens, key, cookie, started, tries, sessions }
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
    pub(super) fn stream_client(&self, credential: &Credential, at: ClientAddress) -> StreamClient {
        let session = match credential {
            Credential::Here => return at.into(),
            Credential::Cookie { session, .. } => BASE64.encode(self.key.tag("stream", session)),
            Credential::Bearer { holder } => format!("{holder} at {at}"),
        };
        StreamClient { session, address: at }
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
        let held = || sessions.iter().filter(move |(_, session)| session.holder == holder);
        let oldest = held().min_by_key(|(_, session)| session.until).map(|(tag, _)| *tag);
        if let Some(oldest) = oldest.filter(|_| held().count() >= SESSIONS) {
            sessions.remove(&oldest);
        }
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

/// Different characters that a token needs, and different steps from one character to the next: a
/// repeated word and a row such as `0123456789…` have fewer.
const VARIETY: usize = 8;
/// The longest name of who acts, in characters.
pub(super) const MOST_NAME: usize = 60;
/// Tokens of a console at most.
const MOST_TOKENS: usize = 100;

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

/// The rights of who has a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Role {
    /// Figures, `why`, dead letters and metrics.
    Look,
    /// All of these, and changes and replays.
    Act,
}

/// A token, with whom it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The name in the history; none where holders give their names themselves.
    pub name: Option<String>,
    pub role: Role,
    pub token: Token,
}

/// The tokens of a console: one that all share, or one for each name.
///
/// ```
/// use tidegate_console::http::Tokens;
/// let one: Tokens = "5f9d0c6be1f7443a8a2b96d1".parse()?;
/// let two: Tokens = "# name role token
///     ada         act   5f9d0c6be1f7443a8a2b96d1
///     prometheus  look  c0e84f57a3b2c1d0e9f8a7b6".parse()?;
/// assert_eq!((one.holders().len(), two.holders().len()), (1, 2));
/// # Ok::<(), tidegate_console::http::InvalidTokens>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<TokenHolder>);

/// Reasons why a text is no list of tokens. A line is named by its number: its words may be secrets.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidTokens {
    /// There is none, or there are too many.
    #[error("there are {0} tokens; allowed are 1 to {MOST_TOKENS}")]
    Number(usize),
    /// The only token is none.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// The token in this line is none.
    #[error("line {line} of the tokens is not valid")]
    Line { line: usize, source: InvalidToken },
    /// The line has no three words, or another role.
    #[error(
        "line {0} of the tokens is not a name, `look` or `act`, and a token, such as `ada act 5f9d0c6be1f7…`: with several tokens each has a name"
    )]
    Words(usize),
    /// The name is too long, or has control characters.
    #[error(
        "the name in line {line} has {length} characters, or control characters; allowed are 1 to {MOST_NAME} others"
    )]
    Name { line: usize, length: usize },
    /// An earlier line has the same name or the same token.
    #[error("line {0} has the name or the token of an earlier line; each is one person's")]
    Twice(usize),
}

impl Tokens {
    /// Whoever has a token, in the order of the lines.
    pub fn holders(&self) -> &[TokenHolder] {
        &self.0
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Token> for Tokens {
    fn from(token: Token) -> Self {
        Self(vec![TokenHolder { name: None, role: Role::Act, token }])
    }
}

impl FromStr for Tokens {
    type Err = InvalidTokens;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines: Vec<(&str, usize)> =
            lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).collect();
        if let [(line, _)] = &lines[..]
            && line.split_whitespace().count() == 1
        {
            return Ok(line.parse::<Token>()?.into());
        }
        if !(1..=MOST_TOKENS).contains(&lines.len()) {
            return Err(InvalidTokens::Number(lines.len()));
        }
        let mut holders: Vec<TokenHolder> = Vec::new();
        for (words, line) in lines {
            let holder = holder(words, line)?;
            let is_known =
                |other: &TokenHolder| other.name == holder.name || other.token == holder.token;
            if holders.iter().any(is_known) {
                return Err(InvalidTokens::Twice(line));
            }
            holders.push(holder);
        }
        Ok(Self(holders))
    }
}

fn holder(words: &str, line: usize) -> Result<TokenHolder, InvalidTokens> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let [name, role, token] = words[..] else { return Err(InvalidTokens::Words(line)) };
    let role = role.parse().map_err(|_| InvalidTokens::Words(line))?;
    let length = name.chars().count();
    if length > MOST_NAME || name.chars().any(char::is_control) {
        return Err(InvalidTokens::Name { line, length });
    }
    let token = token.parse().map_err(|source| InvalidTokens::Line { line, source })?;
    Ok(TokenHolder { name: Some(name.to_owned()), role, token })
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
    fn a_login_beyond_a_holders_most_ends_the_oldest_of_that_holder_alone() {
        let auth = auth();
        let (others, oldest) = (auth.log_in(1, 1_000), auth.log_in(0, 1_001));
        let newer = auth.log_in(0, 1_002);
        for _ in 2..SESSIONS {
            auth.log_in(0, 1_003);
        }
        assert_eq!(auth.session_holder(&oldest, 1_003), Some(0));
        auth.log_in(0, 1_003);
        assert_eq!(auth.session_holder(&oldest, 1_003), None);
        assert_eq!(auth.session_holder(&newer, 1_003), Some(0));
        assert_eq!(auth.session_holder(&others, 1_003), Some(1));
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

#[cfg(test)]
mod tokens_tests {
    use super::*;

    const ADAS: &str = "5f9d0c6be1f7443a8a2b96d1";
    const BOBS: &str = "c0e84f57a3b2c1d0e9f8a7b6";

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

    #[test]
    fn a_token_alone_has_no_name_and_may_act() {
        for text in [ADAS, &format!("\n# shared\n  {ADAS}  \n")] {
            assert_eq!(text.parse::<Tokens>(), Ok(ADAS.parse::<Token>().unwrap().into()));
        }
        assert_eq!("short".parse::<Tokens>(), Err(InvalidToken::Form(5).into()));
    }

    #[test]
    fn each_of_several_has_a_name_and_a_role() {
        let tokens: Tokens = format!("ada act {ADAS}\n\n bob\tlook {BOBS}\n").parse().unwrap();
        let held = tokens.holders().iter().map(|holder| (holder.name.as_deref(), holder.role));
        assert_eq!(held.collect::<Vec<_>>(), [(Some("ada"), Role::Act), (Some("bob"), Role::Look)]);
        let one: Tokens = format!("ada look {ADAS}").parse().unwrap();
        assert_eq!(one.holders()[0].role, Role::Look);
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_not_shown() {
        for (text, error) in [
            (String::new(), InvalidTokens::Number(0)),
            (format!("{ADAS}\n{BOBS}"), InvalidTokens::Words(1)),
            (format!("ada act {ADAS}\nbob {BOBS}"), InvalidTokens::Words(2)),
            (format!("ada admin {ADAS}"), InvalidTokens::Words(1)),
            (format!("ada {ADAS}"), InvalidTokens::Words(1)),
            (format!("a\u{7}a act {ADAS}"), InvalidTokens::Name { line: 1, length: 3 }),
            (format!("# all\nada act {ADAS}\nada look {BOBS}"), InvalidTokens::Twice(3)),
            (format!("ada act {ADAS}\nbob look {ADAS}"), InvalidTokens::Twice(2)),
            (format!("{} act {ADAS}", "x".repeat(61)), InvalidTokens::Name { line: 1, length: 61 }),
            (
                format!("ada act {ADAS}\nbob look secret"),
                InvalidTokens::Line { line: 2, source: InvalidToken::Form(6) },
            ),
        ] {
            let refused = text.parse::<Tokens>().unwrap_err();
            assert_eq!(refused, error, "{text}");
            let said = tidegate_core::in_full(&refused);
            assert!(!said.contains(ADAS) && !said.contains("secret"), "{said}");
        }
        let many: Vec<String> = (0..101).map(|n| format!("n{n} look {ADAS}{n}")).collect();
        assert_eq!(many.join("\n").parse::<Tokens>(), Err(InvalidTokens::Number(101)));
    }
}
