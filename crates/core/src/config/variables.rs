use std::time::Duration;

use super::error::{ConfigError, InvalidVariable};
use super::queue_url::{is_fifo, is_url, queue_prefix};
use super::renamed::RENAMED;
use super::settings::{self, Setting};
use super::values::{Cap, LedgerKind};
use crate::breaker::BreakerPolicy;
use crate::daily::{DailyPace, DailyPolicy, Reserve};
use crate::email::AllowedSenders;
use crate::rate::Rate;

/// Reads variables and collects all faults, so that one start reports all of them.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    invalid: Vec<InvalidVariable>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let mut vars = Self { lookup, invalid: Vec::new() };
        for (old, new) in RENAMED.iter().filter(|(old, _)| old.starts_with("TIDEGATE_")) {
            if vars.get(old).is_some() {
                vars.refuse(old, format!("no value: the variable is now called {new}"));
            }
        }
        vars
    }

    pub(super) fn finish<C>(self, config: C) -> Result<C, ConfigError> {
        if self.invalid.is_empty() { Ok(config) } else { Err(ConfigError(self.invalid)) }
    }

    /// The variable's value without blanks around it. An empty value counts as not set, because
    /// deployment templates pass unset parameters as empty strings.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(super) fn refuse(&mut self, name: &'static str, allowed: impl Into<String>) {
        let value = self.get(name).map_or_else(|| "not set".to_owned(), |value| quoted(&value));
        self.invalid.push(InvalidVariable { name, value, allowed: allowed.into() });
    }

    /// As [`Variables::refuse`], for a value that must not be shown because it may contain a password.
    pub(super) fn refuse_as(&mut self, invalid: InvalidVariable) {
        self.invalid.push(invalid);
    }

    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
        default: T,
    ) -> T {
        self.optional(name, allowed, parse).unwrap_or(default)
    }

    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
        stand_in: T,
    ) -> T {
        if self.get(name).is_none() {
            self.refuse(name, allowed);
        }
        self.parsed(name, allowed, parse, stand_in)
    }

    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(name)?;
        let parsed = parse(&value);
        if parsed.is_none() {
            self.refuse(name, allowed);
        }
        parsed
    }

    /// The value of a setting of the list; `default` if it is not set or invalid.
    pub(super) fn setting<T>(
        &mut self,
        setting: &Setting,
        parse: impl Fn(&str) -> Option<T>,
        default: T,
    ) -> T {
        self.parsed(setting.name, &setting.range.to_string(), parse, default)
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self, setting: &Setting) -> Option<T> {
        self.setting(setting, |text| setting.whole(text)?.try_into().ok().map(Some), None)
    }

    /// A share from 0 to 1, converted to millionths.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000")]
    pub(super) fn millionths(&mut self, setting: &Setting, default: u64) -> u64 {
        self.setting(setting, |text| Some((setting.number(text)? * 1e6).round() as u64), default)
    }

    /// A queue's URL; `fifo` says whether the queue must be FIFO, `None` allows both.
    pub(super) fn queue_url(&mut self, name: &'static str, fifo: Option<bool>) -> Option<String> {
        let allowed = match fifo {
            Some(true) => "the URL of a FIFO queue (http or https, ending in .fifo)",
            Some(false) => "the URL of a standard queue (http or https, not ending in .fifo)",
            None => "the URL of a queue (http or https)",
        };
        self.optional(name, allowed, |text| {
            (is_url(text) && fifo.is_none_or(|fifo| is_fifo(text) == fifo)).then(|| text.to_owned())
        })
    }

    pub(super) fn required_queue_url(&mut self, name: &'static str) -> String {
        if self.get(name).is_none() {
            self.refuse(name, "the URL of a standard queue (http or https, not ending in .fifo)");
        }
        self.queue_url(name, Some(false)).unwrap_or_default()
    }

    /// The beginning of the campaign queues' names. It is refused with a ledger in memory, because the
    /// poller would not see the campaigns that the scheduler finds.
    pub(super) fn campaign_queues(&mut self, ledger_is_shared: bool) -> Option<String> {
        const NAME: &str = "TIDEGATE_CAMPAIGN_QUEUES";
        let allowed = "1 to 79 letters, digits, - and _ that queues' names begin with, such as tidegate-campaign-";
        let prefix = self.optional(NAME, allowed, queue_prefix)?;
        if !ledger_is_shared {
            self.refuse(NAME, "none with TIDEGATE_LEDGER memory; with dynamodb:TABLE a prefix");
        }
        Some(prefix)
    }

    pub(super) fn ledger(&mut self) -> LedgerKind {
        let parse = |text: &str| match text.strip_prefix("dynamodb:") {
            Some(table) if !table.is_empty() => Some(LedgerKind::DynamoDb(table.to_owned())),
            None if text == "memory" => Some(LedgerKind::Memory),
            _ => None,
        };
        self.required("TIDEGATE_LEDGER", "memory or dynamodb:TABLE", parse, LedgerKind::Memory)
    }

    pub(super) fn cap(&mut self) -> Cap {
        let quota = |text: &str| Rate::per_second(settings::QUOTA.number(text)?).ok().map(Some);
        Cap { quota: self.setting(&settings::QUOTA, quota, None), daily: self.daily() }
    }

    pub(super) fn lead(&mut self) -> Duration {
        Duration::from_millis(self.number(&settings::LEAD).unwrap_or(400))
    }

    pub(super) fn send_timeout(&mut self) -> Duration {
        Duration::from_millis(self.number(&settings::SEND_TIMEOUT).unwrap_or(5_000))
    }

    fn daily(&mut self) -> DailyPolicy {
        let default = DailyPolicy::default();
        let pace = |text: &str| match text {
            "full" => Some(DailyPace::Full),
            "spread" => Some(DailyPace::Spread),
            _ => None,
        };
        let reserve = "a number of recipients such as 500, or a share from 0% to 99%";
        DailyPolicy {
            pace: self.setting(&settings::DAILY, pace, default.pace),
            reserve: self.parsed(
                "TIDEGATE_DAILY_RESERVE",
                reserve,
                |text| text.parse::<Reserve>().ok(),
                default.reserve,
            ),
        }
    }

    pub(super) fn breaker(&mut self) -> BreakerPolicy {
        let default = BreakerPolicy::default();
        BreakerPolicy {
            share: self.millionths(&settings::BREAKER_SHARE, default.share),
            after: self.number(&settings::BREAKER_SECONDS).unwrap_or(default.after),
            outcomes: self.number(&settings::BREAKER_OUTCOMES).unwrap_or(default.outcomes),
            stop: self.number(&settings::BREAKER_STOP).unwrap_or(default.stop),
            probe: self.number(&settings::BREAKER_PROBE).unwrap_or(default.probe),
        }
    }

    pub(super) fn allowed_senders(&mut self) -> AllowedSenders {
        const NAME: &str = "TIDEGATE_ALLOWED_SENDERS";
        let Some(value) = self.get(NAME) else { return AllowedSenders::everyone() };
        match value.parse::<AllowedSenders>() {
            Ok(senders) => senders,
            Err(error) => {
                self.refuse(NAME, error.to_string());
                AllowedSenders::everyone()
            }
        }
    }
}

fn quoted(value: &str) -> String {
    let short: String = value.chars().take(120).collect();
    let more = if short.len() < value.len() { "…" } else { "" };
    format!("\"{short}{more}\"")
}
