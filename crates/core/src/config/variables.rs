use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::settings::{self, DefaultValue, Setting};
use crate::number::whole;
use crate::text::{cut, is_word_of};

/// One environment variable that is missing or has an invalid value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name} is {value}; allowed is {allowed}")]
pub struct InvalidVariable {
    /// The variable's name, such as `TIDEGATE_LEDGER`.
    pub name: &'static str,
    /// The given value in quotes, or "not set". It is left out if it may contain a password.
    pub value: String,
    /// A description of the allowed values, for the operator.
    pub allowed: String,
}

/// All missing and invalid variables of one start; shown one per line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<InvalidVariable>);

/// Reads variables and collects all faults, so that one start reports all of them.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    invalid: Vec<InvalidVariable>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, invalid: Vec::new() }
    }

    pub(super) fn finish<C>(self, config: C) -> Result<C, ConfigError> {
        if self.invalid.is_empty() { Ok(config) } else { Err(ConfigError(self.invalid)) }
    }

    /// The variable's value without blanks around it. An empty value counts as not set, because
    /// deployment templates pass unset parameters as empty strings.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.lookup)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Refuses the variable's value, or that it has none, and says the range of the list.
    pub(super) fn refuse(&mut self, setting: &Setting) {
        self.refuse_with(setting.name, setting.range.to_string());
    }

    /// As [`Variables::refuse`], with what is allowed in this case.
    pub(super) fn refuse_with(&mut self, name: &'static str, allowed: String) {
        let value = self
            .get(name)
            .map_or_else(|| "not set".to_owned(), |value| format!("\"{}\"", cut(&value, 120)));
        self.invalid.push(InvalidVariable { name, value, allowed });
    }

    /// As [`Variables::refuse`], for a value that must not be shown because it may contain a password.
    pub(super) fn refuse_as(&mut self, invalid: InvalidVariable) {
        self.invalid.push(invalid);
    }

    /// The setting's value: what `parse` makes of the variable, or else of the default. `parse` sees no
    /// text outside the range. None if the value is refused, and if there is neither variable nor default.
    pub(super) fn read<T>(
        &mut self,
        setting: &Setting,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = match (self.get(setting.name), setting.default) {
            (Some(given), _) => Some(given),
            (None, DefaultValue::Value(default)) => Some(default.to_owned()),
            (None, DefaultValue::Otherwise(_)) => return None,
            (None, DefaultValue::Required) => None,
        };
        let value = text.filter(|text| setting.range.contains(text)).and_then(|text| parse(&text));
        if value.is_none() {
            self.refuse(setting);
        }
        value
    }

    pub(super) fn text(&mut self, setting: &Setting) -> Option<String> {
        self.read(setting, |text| Some(text.to_owned()))
    }

    /// A value that is refused with the range of the list if it cannot be parsed.
    pub(super) fn parsed<T: FromStr + Default>(&mut self, setting: &Setting) -> T {
        self.read(setting, |text| text.parse().ok()).unwrap_or_default()
    }

    /// A value that is refused with its own parser's error, which names the faulty part.
    pub(super) fn explained<T>(&mut self, setting: &Setting) -> Option<T>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let parsed = self.read(setting, |text| Some(text.parse::<T>()))?;
        parsed.map_err(|error| self.refuse_with(setting.name, error.to_string())).ok()
    }

    /// A share from 0 to 1, converted to millionths.
    pub(super) fn millionths(&mut self, setting: &Setting) -> u64 {
        whole((self.parsed::<f64>(setting) * 1e6).round())
    }

    pub(super) fn milliseconds(&mut self, setting: &Setting) -> Duration {
        Duration::from_millis(self.parsed(setting))
    }

    /// The beginning of the campaign queues' names. It is refused with a ledger in memory, because the
    /// poller would not see the campaigns that the scheduler finds.
    pub(super) fn campaign_queues(&mut self, ledger_is_shared: bool) -> Option<String> {
        // A queue's name has at most 80 characters, so at least one remains for the rest.
        let prefix = |text: &str| is_word_of(text, 79, "-_").then(|| text.to_owned());
        let prefix = self.read(&settings::CAMPAIGN_QUEUES, prefix)?;
        if !ledger_is_shared {
            let allowed = "none with TIDEGATE_LEDGER memory; with dynamodb:TABLE a prefix";
            self.refuse_with(settings::CAMPAIGN_QUEUES.name, allowed.to_owned());
        }
        Some(prefix)
    }
}
