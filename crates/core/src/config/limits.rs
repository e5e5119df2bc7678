use super::settings::{self, Range};
use super::variables::Variables;
use crate::channel::Channel;
use crate::limits::InitialLimits;

/// The limits with which a stack begins, and what becomes of mail that is over a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsConfig {
    /// `TIDEGATE_CHANNEL`: an e-mail has other properties that can be limited than a text.
    pub channel: Channel,
    /// `TIDEGATE_LIMITS`; an empty list limits nothing.
    pub initial: InitialLimits,
    /// `TIDEGATE_LIMIT_QUEUES`: URLs in the order of the groups, then that of `*`. Further queues are
    /// only emptied, because a limit that was removed leaves mail in its queue.
    pub queues: Vec<String>,
    /// Whether `TIDEGATE_DEFERRAL` is set: what is left at a limit's end can be deferred.
    pub stores_deferred: bool,
}

/// The most queues that may be listed: one for each of 20 groups, and one for `*`.
const MOST: usize = 21;

impl Variables<'_> {
    pub(super) fn limits(&mut self, channel: Channel) -> LimitsConfig {
        let initial: InitialLimits = self.explained(&settings::LIMITS).unwrap_or_default();
        let setting = settings::LIMIT_QUEUES;
        let queues = self.read(&setting, urls).unwrap_or_default();
        let needed = initial.len();
        if queues.len() < needed && (queues.is_empty() == self.get(setting.name).is_none()) {
            let one_each = "one for each group of TIDEGATE_LIMITS in its order, then one for *";
            let allowed = format!("at least {needed} URLs of standard queues, {one_each}");
            self.refuse_with(setting.name, allowed);
        }
        let stores_deferred = self.get(settings::DEFERRAL.name).is_some();
        LimitsConfig { channel, initial, queues, stores_deferred }
    }
}

pub(super) fn urls(text: &str) -> Option<Vec<String>> {
    let urls: Vec<String> = text.split(',').map(|url| url.trim().to_owned()).collect();
    let distinct = urls.iter().enumerate().all(|(index, url)| !urls[..index].contains(url));
    let legal = urls.iter().all(|url| Range::StandardQueue.contains(url));
    (legal && distinct && urls.len() <= MOST).then_some(urls)
}

#[cfg(test)]
mod tests {
    use super::super::PollerConfig;
    use super::*;

    fn read(limits: &str, queues: &str) -> Result<LimitsConfig, String> {
        let lookup = |name: &str| match name {
            "TIDEGATE_LIMITS" => Some(limits.to_owned()),
            "TIDEGATE_LIMIT_QUEUES" => Some(queues.to_owned()),
            "TIDEGATE_LEDGER" => Some("memory".to_owned()),
            "TIDEGATE_DEAD_LETTER_QUEUE_URL" => Some("https://sqs/1/dead".to_owned()),
            "TIDEGATE_CAMPAIGNS" => Some("ledger".to_owned()),
            _ => None,
        };
        let config = PollerConfig::from_variables(lookup).map_err(|error| error.to_string())?;
        Ok(config.limits)
    }

    #[test]
    fn a_queue_for_each_group_and_more_are_taken() {
        assert_eq!(read("", "").unwrap(), LimitsConfig::default());
        let config =
            read("gmail.com=10/s, *=5%", "https://sqs/1/a,https://sqs/1/b, https://sqs/1/c")
                .unwrap();
        assert_eq!((config.initial.len(), config.queues[2].as_str()), (2, "https://sqs/1/c"));
    }

    #[test]
    fn a_list_without_its_queues_is_refused_with_what_it_needs() {
        for (limits, queues, said) in [
            (
                "gmail.com=10/s, *=5%",
                "",
                "TIDEGATE_LIMIT_QUEUES is not set; allowed is at least 2 URLs",
            ),
            (
                "gmail.com=10/s, *=5%",
                "https://sqs/1/a",
                "allowed is at least 2 URLs of standard queues, one for each group",
            ),
            (
                "gmail.com=10/s",
                "https://sqs/1/a.fifo",
                "allowed is at most 21 URLs of standard queues",
            ),
            ("gmail.com=10/s", "https://sqs/1/a,https://sqs/1/a", "none twice"),
            (
                "gmail.com=fast",
                "https://sqs/1/a",
                "TIDEGATE_LIMITS is \"gmail.com=fast\"; allowed is \"gmail.com=fast\": \"fast\" is no rate",
            ),
        ] {
            let error = read(limits, queues).unwrap_err();
            assert!(error.contains(said), "{limits} {queues}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
