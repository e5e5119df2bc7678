//! The variables of the shared bucket: `TIDEGATE_SHARED_BUCKET…`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use strum::EnumString;
use thiserror::Error;
use url::{Host, ParseError, Url};

use super::InvalidVariable;
use super::settings::{self, Setting};
use super::variables::Variables;
use crate::text::is_word_of;

/// `TIDEGATE_SHARED_BUCKET` and the variables that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBucketConfig {
    /// `TIDEGATE_SHARED_BUCKET`: the address of the Valkey or Redis server.
    pub url: BucketUrl,
    /// `TIDEGATE_SHARED_BUCKET_PREFIX`: the beginning of the bucket's keys.
    pub prefix: String,
    /// `TIDEGATE_SHARED_BUCKET_LOST`.
    pub lost: BucketLost,
}

/// The treatment of mail while the bucket does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum BucketLost {
    /// Nothing is sent until the bucket answers.
    #[default]
    Closed,
    /// Mail is sent by the slot grid alone; together with the other software this may exceed the quota.
    Open,
}

/// The address of a server with the Redis protocol, and the login. It is displayed without the
/// password.
///
/// ```
/// use tidegate_core::config::BucketUrl;
/// let url: BucketUrl = "rediss://tidegate:s%40crt@cache.example:6380/1".parse().unwrap();
/// assert_eq!((url.host.as_str(), url.port, url.database), ("cache.example", 6380, 1));
/// assert_eq!(url.password.as_ref().map(String::len), Some(5));
/// assert_eq!(url.to_string(), "rediss://tidegate:***@cache.example:6380/1");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BucketUrl {
    /// Whether the connection uses TLS: the scheme is `rediss`.
    pub tls: bool,
    /// The host's name or address; an IPv6 address without its brackets.
    pub host: String,
    /// The TCP port, 1 to 65535, default 6379.
    pub port: u16,
    /// The ACL user; `None` is the server's default user.
    pub user: Option<String>,
    /// The password, percent-decoded; to be given to the server only.
    pub password: Option<String>,
    /// The number of the database, 0 to 65535, default 0.
    pub database: u16,
}

/// An invalid [`BucketUrl`]. The error does not contain the text, because a password may stand in it.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("no address of a shared bucket: {0}; allowed is {range}", range = settings::SHARED_BUCKET.range)]
pub struct InvalidBucketUrl(pub &'static str);

impl BucketUrl {
    /// `host:port`, as messages name the server; an IPv6 address in brackets.
    pub fn authority(&self) -> String {
        let host = &self.host;
        let port = self.port;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl FromStr for BucketUrl {
    type Err = InvalidBucketUrl;

    fn from_str(text: &str) -> Result<Self, InvalidBucketUrl> {
        let invalid = InvalidBucketUrl;
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || "?#".contains(c)) {
            return Err(invalid(
                "it has a blank, a ? or a #; in a password write them as %20, %3F, %23",
            ));
        }
        let url = Url::parse(&with_escaped_slashes(text)).map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => invalid("it has no scheme"),
            ParseError::InvalidPort => WRONG_PORT,
            _ => WRONG_HOST,
        })?;
        let tls = match url.scheme() {
            "redis" => false,
            "rediss" => true,
            _ => return Err(invalid("its scheme is neither redis nor rediss")),
        };
        let user = decoded(url.username())?;
        let password = decoded(url.password().unwrap_or_default())?;
        if user.is_some() && password.is_none() {
            return Err(invalid("it has a user without a password"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if is_word_of(name, 253, ".-_") => name.to_owned(),
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => return Err(WRONG_HOST),
        };
        let port = Some(url.port().unwrap_or(6379)).filter(|port| *port > 0).ok_or(WRONG_PORT)?;
        let database = match url.path().strip_prefix('/').unwrap_or_default() {
            "" => 0,
            number => {
                number.parse().map_err(|_| invalid("its database is no number from 0 to 65535"))?
            }
        };
        Ok(Self { tls, host, port, user, password, database })
    }
}

const WRONG_HOST: InvalidBucketUrl = InvalidBucketUrl("its host is no name and no address");
const WRONG_PORT: InvalidBucketUrl = InvalidBucketUrl("its port is no number from 1 to 65535");

/// `text` with each slash of user and password as `%2F`: in a URL a slash ends the host, but passwords
/// that were drawn have some, and no other part stands before an `@`.
fn with_escaped_slashes(text: &str) -> Cow<'_, str> {
    let escaped = text.rsplit_once('@').and_then(|(before, place)| {
        let (scheme, login) = before.split_once("://")?;
        Some(format!("{scheme}://{}@{place}", login.replace('/', "%2F")))
    });
    escaped.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// `text` with each `%XX` replaced by its byte; `None` if it is empty.
fn decoded(text: &str) -> Result<Option<String>, InvalidBucketUrl> {
    let wrong = InvalidBucketUrl("its user or password has a % without two hexadecimal digits");
    let mut escapes = text.split('%').skip(1).map(|rest| rest.as_bytes().get(..2));
    if !escapes.all(|hex| hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))) {
        return Err(wrong);
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| wrong)?;
    Ok((!decoded.is_empty()).then(|| decoded.into_owned()))
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let user = self.user.as_deref().unwrap_or_default();
        let login = match &self.password {
            Some(_) => format!("{user}:***@"),
            None => String::new(),
        };
        write!(f, "{scheme}://{login}{}/{}", self.authority(), self.database)
    }
}

impl fmt::Debug for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketUrl({self})")
    }
}

/// The key of the account's bucket, or of a limited domain's bucket. The prefix is their hash tag, so that a cluster
/// keeps them on one node.
pub fn bucket_key(prefix: &str, domain: Option<&str>) -> String {
    match domain {
        None => format!("{{{prefix}}}:account"),
        Some(name) => format!("{{{prefix}}}:domain:{name}"),
    }
}

impl Variables<'_> {
    pub(super) fn shared_bucket(&mut self) -> Option<SharedBucketConfig> {
        let lost = self.parsed(&settings::SHARED_BUCKET_LOST);
        let word = |text: &str| is_word_of(text, 64, ".-_").then(|| text.to_owned());
        let prefix = self.read(&settings::SHARED_BUCKET_PREFIX, word).unwrap_or_default();
        let Setting { name, range, .. } = settings::SHARED_BUCKET;
        match self.get(name)?.parse() {
            Ok(url) => Some(SharedBucketConfig { url, prefix, lost }),
            Err(InvalidBucketUrl(why)) => {
                let value = format!("not shown, as a password may stand in it ({why})");
                self.refuse_as(InvalidVariable { name, value, allowed: range.to_string() });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PollerConfig;
    use super::*;

    const URL: &str = settings::SHARED_BUCKET.name;

    fn lookup<'a>(given: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            let needed = [
                ("TIDEGATE_LEDGER", "dynamodb:ledger"),
                ("TIDEGATE_CAMPAIGNS", "ledger"),
                ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "https://sqs.example/1/dead"),
            ];
            let found = given.iter().chain(&needed).find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    fn read(given: &[(&str, &str)]) -> Result<Option<SharedBucketConfig>, String> {
        let config = PollerConfig::from_variables(lookup(given));
        config.map(|config| config.shared_bucket).map_err(|error| error.to_string())
    }

    #[test]
    fn there_is_none_unless_it_is_asked_for() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("TIDEGATE_SHARED_BUCKET_LOST", "open")]), Ok(None));
    }

    #[test]
    fn it_fails_closed_unless_open_is_asked_for() {
        let url = (URL, "redis://cache.example");
        let bucket = read(&[url]).unwrap().unwrap();
        assert_eq!((bucket.lost, bucket.prefix.as_str()), (BucketLost::Closed, "tidegate"));
        let open = [
            url,
            ("TIDEGATE_SHARED_BUCKET_LOST", "open"),
            ("TIDEGATE_SHARED_BUCKET_PREFIX", "eu.mail-1_a"),
        ];
        let bucket = read(&open).unwrap().unwrap();
        assert_eq!((bucket.lost, bucket.prefix.as_str()), (BucketLost::Open, "eu.mail-1_a"));
    }

    #[test]
    fn an_address_is_read_in_all_its_parts() {
        let url: BucketUrl = "redis://cache.example".parse().unwrap();
        assert_eq!((url.tls, url.port, url.database, url.user.as_deref()), (false, 6379, 0, None));
        assert_eq!(url.password, None);
        let url: BucketUrl = "rediss://u%3Aser:p%40ss%2F%25@[2001:db8::1]:7000/3".parse().unwrap();
        assert_eq!((url.tls, url.port, url.database), (true, 7000, 3));
        assert_eq!(url.user.as_deref(), Some("u:ser"));
        assert_eq!(
            (url.password.as_deref(), url.authority().as_str()),
            (Some("p@ss/%"), "[2001:db8::1]:7000")
        );
        let url: BucketUrl = "redis://:secret@10.0.0.1:6380".parse().unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (None, Some("secret")));
        let url: BucketUrl = "redis://ada:s/l@sh:é%5B@cache.example".parse().unwrap();
        assert_eq!(
            (url.password.as_deref(), url.host.as_str()),
            (Some("s/l@sh:é["), "cache.example")
        );
    }

    #[test]
    fn what_is_no_address_is_refused_and_its_password_shown_nowhere() {
        for wrong in [
            "cache.example:6379",
            "http://cache.example",
            "redis://",
            "redis://user@cache.example",
            "redis://user:hush@",
            "redis://user:hush@cache.example:0",
            "redis://user:hush@cache.example:65536",
            "redis://user:hush@cache.example/x",
            "redis://user:hush@cache example",
            "redis://user:hush@cache.example?tls=no",
            "redis://user:hush@[::1",
            "redis://user:hush@[cache.example]",
            "redis://user:hush@ca$che.example",
            "redis://user:hush@cache.example:port",
            "redis:user:hush@cache.example",
            "redis://user:hush%4@cache.example",
            "redis://user:hush%ff@cache.example",
            "rediss+insecure://user:hush@cache.example",
        ] {
            let said = read(&[(URL, wrong)]).unwrap_err();
            assert!(said.starts_with("TIDEGATE_SHARED_BUCKET is not shown"), "{said}");
            assert!(said.contains("allowed is redis://[USER") && !said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let bucket = read(&[(URL, "redis://ada:hush@cache.example")]).unwrap().unwrap();
        let shown = format!("{bucket:?} {:?} {}", bucket.url, bucket.url);
        assert!(shown.contains("redis://ada:***@cache.example:6379/0"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn every_invalid_value_is_refused_with_name_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            ("TIDEGATE_SHARED_BUCKET_LOST", "shut", "closed or open"),
            ("TIDEGATE_SHARED_BUCKET_PREFIX", "a{b}", "1 to 64 letters"),
            ("TIDEGATE_SHARED_BUCKET_PREFIX", &"x".repeat(65), "1 to 64 letters"),
        ] {
            let said = read(&[(name, value)]).unwrap_err();
            let shown = format!("{name} is \"{value}\"; allowed is ");
            assert!(said.starts_with(&shown) && said.contains(allowed), "{said}");
        }
    }

    #[test]
    fn the_keys_of_all_buckets_share_a_hash_tag() {
        assert_eq!(bucket_key("tidegate", None), "{tidegate}:account");
        assert_eq!(bucket_key("tidegate", Some("gmail.com")), "{tidegate}:domain:gmail.com");
    }
}
