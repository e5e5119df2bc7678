//! The workload of a run: campaigns, weights, number of mails, and the quota they share.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_core::channel::{Channel, Words};

/// The most recipients of one mail, as SES has it.
pub(super) const MOST_RECIPIENTS: u32 = 50;

/// One campaign of a local run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalCampaign {
    pub name: String,
    /// From 1 to 10,000; shares are in proportion.
    pub weight: u32,
    pub mails: u64,
    /// Recipients of each of its mails, or parts of each of its texts: 1 to 50.
    pub recipients: u32,
}

impl LocalCampaign {
    pub fn total(&self) -> u64 {
        self.mails * u64::from(self.recipients)
    }
}

/// The channel of a local run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LocalChannel {
    /// E-mail, through SES.
    #[default]
    Email,
    /// Text messages, through AWS End User Messaging.
    Sms,
}

impl LocalChannel {
    /// The words for what the channel sends.
    pub(crate) const fn words(self) -> Words {
        match self {
            Self::Email => Channel::Email.words(),
            Self::Sms => Channel::Sms.words(),
        }
    }

    /// A message body of the channel.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Email => {
                r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#
            }
            Self::Sms => r#"{"to_phone": "+12065550100", "text": "Your parcel is here."}"#,
        }
    }
}

/// The workload of a local run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalPlan {
    /// Recipients or parts a second that the account may send.
    pub quota: f64,
    #[serde(default)]
    pub channel: LocalChannel,
    /// The campaigns, in the order of the template's queues.
    pub campaigns: Vec<LocalCampaign>,
}

impl LocalPlan {
    pub fn total(&self) -> u64 {
        self.campaigns.iter().map(LocalCampaign::total).sum()
    }

    pub fn mails(&self) -> u64 {
        self.campaigns.iter().map(|campaign| campaign.mails).sum()
    }

    /// The messages, and the parts of the quota that they take where that is not one each: `384 texts (400 parts:
    /// each of small has 3)`.
    pub fn in_words(&self) -> String {
        let Words { message, unit, .. } = self.channel.words();
        let several = self.campaigns.iter().filter(|campaign| campaign.recipients > 1);
        let several = several.map(|of| format!("each of {} has {}", of.name, of.recipients));
        let several: Vec<String> = several.collect();
        let messages = format!("{} {message}s", self.mails());
        if several.is_empty() {
            return messages;
        }
        format!("{messages} ({} {unit}s: {})", self.total(), several.join(", "))
    }

    /// A campaign's place in the list.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.campaigns.iter().position(|campaign| campaign.name == name)
    }

    /// A campaign's share of the quota while all have mails waiting, 0 to 1.
    pub fn share(&self, campaign: usize) -> f64 {
        let weights: u32 = self.campaigns.iter().map(|campaign| campaign.weight).sum();
        let weight = self.campaigns.get(campaign).map_or(0, |campaign| campaign.weight);
        f64::from(weight) / f64::from(weights.max(1))
    }
}

/// The weights of the big and the small campaign, written `90/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightPair(pub u32, pub u32);

/// A text that is no pair of weights.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("two whole numbers from 1 to 10000 with a slash between, such as 90/10")]
pub struct InvalidWeightPair;

impl std::str::FromStr for WeightPair {
    type Err = InvalidWeightPair;

    fn from_str(text: &str) -> Result<Self, InvalidWeightPair> {
        let weight =
            |text: &str| text.trim().parse().ok().filter(|weight| (1..=10_000).contains(weight));
        let (big, small) = text.split_once('/').ok_or(InvalidWeightPair)?;
        Ok(Self(weight(big).ok_or(InvalidWeightPair)?, weight(small).ok_or(InvalidWeightPair)?))
    }
}

impl std::fmt::Display for WeightPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// Splits `mails` so that the small campaign ends first. It gets three fifths of its share: of
/// 1,000 mails at 90/10 its share is 100, so it gets 60 and ends when 600 are sent. Both get at
/// least one mail if there are two.
///
/// ```
/// use tidegate_devstack::{WeightPair, split};
/// assert_eq!(split(1_000, WeightPair(90, 10)), (940, 60));
/// ```
pub fn split(mails: u64, weights: WeightPair) -> (u64, u64) {
    let (big, small) = (u64::from(weights.0), u64::from(weights.1));
    let few = (mails * small * 3 / ((big + small) * 5)).clamp(mails.min(1), mails.max(2) - 1);
    (mails - few, few)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_split_loses_no_mail_and_the_small_campaign_ends_first(
            mails in 50u64..100_000, big in 1u32..100, small in 1u32..100,
        ) {
            let (most, few) = split(mails, WeightPair(big, small));
            prop_assert_eq!(most + few, mails);
            // While both send, the big campaign sends big/small times as much: some of it is left.
            prop_assert!(most * u64::from(small) >= few * u64::from(big));
        }
    }

    #[test]
    fn a_mail_or_two_can_be_split() {
        assert_eq!(split(0, WeightPair(90, 10)), (0, 0));
        assert_eq!(split(1, WeightPair(90, 10)), (0, 1));
        assert_eq!(split(2, WeightPair(90, 10)), (1, 1));
    }

    #[test]
    fn weights_are_read_as_they_are_written() {
        assert_eq!("90/10".parse(), Ok(WeightPair(90, 10)));
        assert_eq!(WeightPair(90, 10).to_string(), "90/10");
        for wrong in ["90", "0/10", "90/", "a/b", "90/10/5", "10001/1", "-1/2"] {
            assert_eq!(wrong.parse::<WeightPair>(), Err(InvalidWeightPair), "{wrong}");
        }
    }
}
