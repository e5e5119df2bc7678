//! Every setting of the sandbox, on the command line, in a test and live: one list, one set of checks.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;
use tidegate_core::rate::Rate;

use crate::clock::Latency;
use crate::sandbox::ses::fault::InjectedFault;
use crate::ses::{QuotaRules, SesTenant};
use crate::value::ValueError;

/// Settings of the sandbox. Their types admit valid values only.
///
/// ```
/// use tidegate_fakes::sandbox::ses::SesSandboxConfig;
/// let config = SesSandboxConfig {
///     quota: "200".parse()?,
///     strict: true,
///     latency: "p50=80ms,p99=400ms".parse()?,
///     faults: vec!["lost-answer,ratio=0.01".parse()?],
///     ..SesSandboxConfig::default()
/// };
/// assert!(!config.paused);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
// More than 12 fields: one for each setting.
pub struct SesSandboxConfig {
    /// Recipients per second that the account may send, 0.001 to 10,000
    #[arg(long, value_name = "RATE", default_value_t = Self::default().quota)]
    #[serde(deserialize_with = "from_text")]
    pub quota: Rate,
    /// Depth of the token bucket, in seconds' worth of quota
    ///
    /// A mail of more recipients than the bucket holds passes when the bucket is full, and
    /// leaves it in debt.
    #[arg(long, value_name = "SECONDS", default_value_t)]
    #[serde(deserialize_with = "from_text")]
    pub bucket_seconds: BucketSeconds,
    /// Let no half-open second hold more than the quota, instead of using a token bucket
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t, hide_default_value = true)]
    pub strict: bool,
    /// Recipients in any 24 hours, or `unlimited`
    #[arg(long, value_name = "RECIPIENTS", allow_hyphen_values = true, default_value_t)]
    #[serde(deserialize_with = "from_text")]
    pub daily_quota: PeriodLimit,
    /// Start with sending paused for the account
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t, hide_default_value = true)]
    pub paused: bool,
    /// US dollars that text messages may cost in a calendar month, at a dollar a part, or `unlimited`
    #[arg(long, value_name = "DOLLARS", allow_hyphen_values = true, default_value_t)]
    #[serde(deserialize_with = "from_text")]
    pub spend_limit: PeriodLimit,
    /// A tenant: `NAME[,paused][,identity/NAME][,configuration-set/NAME][,template/NAME]`; may be given many times
    ///
    /// A mail for a tenant is refused where the tenant is unknown or paused, or is not associated with the
    /// mail's sender, configuration set or template.
    #[arg(long = "tenant", value_name = "TENANT")]
    pub tenants: Vec<SesTenant>,
    /// Time to answer: `80ms`, `50ms..5s` (uniform) or `p50=80ms,p99=400ms` (log-normal)
    #[arg(long, value_name = "TIME", default_value_t)]
    #[serde(deserialize_with = "from_text")]
    pub latency: Latency,
    /// Faults, tried in order; may be given many times
    ///
    /// `KIND[,ratio=0..1][,to=PATTERN][,after=TIME][,operation=GetAccount][,status=N][,message=TEXT]`
    ///
    /// KIND is `lost-answer` (accepted, then the connection is closed without an answer),
    /// `reset` (the connection is reset, nothing accepted), `timeout` (nothing accepted, no
    /// answer; `after` closes the connection), or the code of an error to answer with, such as
    /// `ServiceUnavailable` or `MessageRejected`. PATTERN is a recipient's address with `*` for
    /// any text.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<InjectedFault>,
    /// Seed of the draws of latency and faults
    #[arg(long, value_name = "NUMBER", default_value_t = Self::default().seed)]
    pub seed: u64,
}

impl Default for SesSandboxConfig {
    fn default() -> Self {
        Self {
            quota: Rate::per_second(14.0).unwrap_or(Rate::MIN),
            bucket_seconds: BucketSeconds::default(),
            strict: false,
            daily_quota: PeriodLimit::default(),
            paused: false,
            spend_limit: PeriodLimit::default(),
            tenants: Vec::new(),
            latency: Latency::default(),
            faults: Vec::new(),
            seed: 1,
        }
    }
}

/// A change that cannot be made: nothing of it was.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// It is not a JSON object.
    #[error("a change is a JSON object of settings, such as {{\"quota\": 14}}")]
    NotAnObject(#[source] serde_json::Error),
    /// A setting has no name or no value that is allowed; the message names all of them.
    #[error("{setting}: {reason}")]
    Setting {
        /// The setting's name, with the place inside it.
        setting: String,
        /// The fault, and the values that are allowed.
        reason: String,
    },
}

impl SesSandboxConfig {
    /// These settings with those of a JSON object, as `PATCH /_sandbox/config` takes it, in place of their own.
    ///
    /// ```
    /// use tidegate_fakes::sandbox::ses::SesSandboxConfig;
    /// let config = SesSandboxConfig::default().with_json(br#"{"quota": 200, "latency": "80ms"}"#)?;
    /// assert_eq!(config.quota.as_per_second(), 200.0);
    /// let error = config.with_json(br#"{"qouta": 200}"#).unwrap_err();
    /// assert!(error.to_string().starts_with("qouta: unknown field `qouta`, expected one of `quota`"));
    /// # Ok::<(), tidegate_fakes::sandbox::ses::ChangeError>(())
    /// ```
    ///
    /// # Errors
    /// Not a JSON object, an unknown setting, or a value that the setting does not take.
    pub fn with_json(&self, json: &[u8]) -> Result<Self, ChangeError> {
        let change: Map<String, Value> =
            serde_json::from_slice(json).map_err(ChangeError::NotAnObject)?;
        if let Some((setting, _)) = change.iter().find(|(_, value)| value.is_null()) {
            let reason = "null is no value; leave the setting out to keep it".to_owned();
            return Err(ChangeError::Setting { setting: setting.clone(), reason });
        }
        let mut settings = json!(self);
        for (setting, value) in change {
            settings[setting] = value;
        }
        serde_path_to_error::deserialize(settings).map_err(|error| {
            let setting = error.path().to_string();
            ChangeError::Setting { setting, reason: error.into_inner().to_string() }
        })
    }

    pub(super) fn quota_rules(&self) -> QuotaRules {
        QuotaRules {
            rate: self.quota,
            depth: Duration::from_secs_f64(self.bucket_seconds.0),
            strict: self.strict,
            most_in_a_second: (self.quota.as_millionths() / 1_000_000).max(1),
            daily: self.daily_quota.0,
            spend: self.spend_limit.0,
        }
    }
}

/// Reads a setting from its text, or from a number as the text would have it.
fn from_text<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let value = Value::deserialize(input)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.parse().map_err(D::Error::custom)
}

/// The token bucket's depth as seconds' worth of quota, from 0.001 to 86,400.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BucketSeconds(f64);

impl Default for BucketSeconds {
    fn default() -> Self {
        Self(1.0)
    }
}

impl FromStr for BucketSeconds {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let read = text.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
        let refused = || ValueError::new(text, "a number of seconds from 0.001 to 86400");
        read.map(Self).ok_or_else(refused)
    }
}

impl Display for BucketSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A limit of a period: `Max24HourSend`, the recipients in any 24 hours, or the US dollars that texts may cost in a
/// month; none, or `unlimited`, where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(into = "Value")]
pub struct PeriodLimit(pub Option<u64>);

impl FromStr for PeriodLimit {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        const ALLOWED: &str = "a whole number of recipients or dollars, or `unlimited` (-1)";
        if matches!(text, "unlimited" | "-1") {
            return Ok(Self(None));
        }
        let refused = |_| ValueError::new(format_args!("`{text}`"), ALLOWED);
        text.parse().map(Some).map(Self).map_err(refused)
    }
}

impl Display for PeriodLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(most) => most.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}

impl From<PeriodLimit> for Value {
    fn from(limit: PeriodLimit) -> Self {
        limit.0.map_or_else(|| "unlimited".into(), Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(json: &Value) -> Result<SesSandboxConfig, ChangeError> {
        SesSandboxConfig::default().with_json(json.to_string().as_bytes())
    }

    #[test]
    fn the_configuration_shown_can_be_given_back_as_a_change() {
        let config = SesSandboxConfig {
            quota: Rate::per_second(33.3).expect("quota"),
            daily_quota: PeriodLimit(Some(7)),
            latency: "50ms..5s".parse().expect("latency"),
            faults: vec!["lost-answer,ratio=0.5,to=*@x".parse().expect("fault")],
            strict: true,
            tenants: vec!["acme,paused,identity/x".parse().expect("tenant")],
            ..SesSandboxConfig::default()
        };
        let shown = serde_json::to_value(&config).expect("serialize");
        assert_eq!(change(&shown).expect("every member is a setting"), config);
    }

    #[test]
    fn a_wrong_setting_is_refused_with_name_value_and_what_is_allowed() {
        for (json, parts) in [
            (json!({"quota": 0}), ["quota: ", "from 0.001", "\"0\""]),
            (json!({"quota": "fast"}), ["quota: ", "from 0.001", "\"fast\""]),
            (json!({"quota": 10_001}), ["quota: ", "to 10000", "\"10001\""]),
            (json!({"strict": "yes"}), ["strict: ", "\"yes\"", "a boolean"]),
            (json!({"latency": 80}), ["latency: ", "`80ms`", "not `80`"]),
            (json!({"daily_quota": 1.5}), ["daily_quota: ", "unlimited", "not `1.5`"]),
            (json!({"faults": ["reset", "boom"]}), ["faults[1]: ", "`status`", "`boom`"]),
            (json!({"tenants": ["a b"]}), ["tenants", "such as `acme`", "`a b`"]),
            (json!({"seed": -1}), ["seed: ", "-1", "u64"]),
            (json!({"paused": null}), ["paused: ", "null", "leave"]),
            (json!({"pasued": true}), ["pasued: ", "unknown field `pasued`", "`paused`"]),
        ] {
            let error = change(&json).expect_err("refused").to_string();
            for part in parts {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
        assert!(matches!(
            SesSandboxConfig::default().with_json(b"[]"),
            Err(ChangeError::NotAnObject(_))
        ));
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_value_and_what_is_allowed() {
        let error = "100000".parse::<BucketSeconds>().expect_err("too deep").to_string();
        assert_eq!(error, "must be a number of seconds from 0.001 to 86400, not 100000");
        let error = "-2".parse::<PeriodLimit>().expect_err("negative").to_string();
        assert!(error.contains("not `-2`"), "{error}");
    }

    #[test]
    fn strict_mode_counts_whole_recipients_and_at_least_one() {
        let whole = |rate| {
            let quota = Rate::per_second(rate).expect("rate");
            SesSandboxConfig { quota, ..SesSandboxConfig::default() }.quota_rules().most_in_a_second
        };
        assert_eq!([whole(14.0), whole(14.9), whole(0.2), whole(1.0)], [14, 14, 1, 1]);
    }

    #[test]
    fn a_daily_quota_reads_what_it_writes() {
        for quota in [PeriodLimit(None), PeriodLimit(Some(0)), PeriodLimit(Some(9))] {
            assert_eq!(quota.to_string().parse(), Ok(quota));
            let shown = json!({"daily_quota": quota});
            assert_eq!(change(&shown).expect("as shown").daily_quota, quota);
        }
    }
}
