use std::fmt::{self, Display};

use serde::Serialize;
use tidegate_core::identity::EpochMillis;

use super::letter::{Doubt, Letter};

/// Selects dead letters. A letter must meet every condition; a list is met by any of its values,
/// and an empty list by every letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LetterFilter {
    /// Mails' ids, identities, or SQS message ids.
    pub ids: Vec<String>,
    pub campaigns: Vec<String>,
    /// Codes; upper and lower case are the same.
    pub codes: Vec<String>,
    pub domains: Vec<String>,
    /// Dead-lettered at this time or later.
    pub since: Option<EpochMillis>,
    pub until: Option<EpochMillis>,
    /// Only mails that may have been sent.
    pub unknown: bool,
}

impl LetterFilter {
    /// Whether it lets every letter through.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn admits(&self, letter: &Letter) -> bool {
        let any = |values: &[String], is: &dyn Fn(&str) -> bool| {
            values.is_empty() || values.iter().any(|value| is(value))
        };
        let entry = letter.entry();
        any(&self.ids, &|id| letter.is(id))
            && any(&self.campaigns, &|name| entry.is_some_and(|entry| entry.campaign == name))
            && any(&self.codes, &|code| {
                letter.code().is_some_and(|own| own.eq_ignore_ascii_case(code))
            })
            && any(&self.domains, &|domain| {
                domains(letter).iter().any(|own| own.eq_ignore_ascii_case(domain))
            })
            && self.since.is_none_or(|since| letter.since >= since)
            && self.until.is_none_or(|until| letter.since < until)
            && (!self.unknown || letter.doubt() != Doubt::None)
    }
}

/// The domains of a letter's recipients, each once.
pub(super) fn domains(letter: &Letter) -> Vec<String> {
    let to = letter.entry().map(|entry| entry.to.as_slice()).unwrap_or_default();
    let domain = |to: &String| {
        let domain = to.rsplit_once('@').map_or("", |(_, domain)| domain);
        domain.trim_end_matches(['>', ' ']).to_ascii_lowercase()
    };
    let mut domains: Vec<String> = to.iter().map(domain).collect();
    domains.sort();
    domains.dedup();
    domains
}

impl Display for LetterFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = Vec::new();
        let lists = [
            ("id", &self.ids),
            ("campaign", &self.campaigns),
            ("code", &self.codes),
            ("domain", &self.domains),
        ];
        for (name, values) in lists {
            if !values.is_empty() {
                said.push(format!("{name} {}", values.join(" or ")));
            }
        }
        said.extend(self.since.map(|since| format!("since {since}")));
        said.extend(self.until.map(|until| format!("until {until}")));
        if self.unknown {
            said.push("perhaps sent".to_owned());
        }
        f.write_str(&if said.is_empty() { "all".to_owned() } else { said.join(", ") })
    }
}
