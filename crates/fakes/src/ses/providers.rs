//! Recipients' providers: each takes so many mails a second for its domains and defers what is over.

use std::collections::VecDeque;

use tidegate_core::Timestamp;
use tidegate_core::channel::Content;
use tidegate_core::identity::EpochMillis;
use tidegate_core::timestamp::SECOND;
use tidegate_delivery::ports::Mail;

/// The providers of recipients' domains, and the deferrals that SES reports.
#[derive(Debug, Default)]
pub(super) struct Providers {
    providers: Vec<Provider>,
    deferrals: Vec<String>,
}

#[derive(Debug)]
struct Provider {
    domains: Vec<String>,
    /// Mails that it takes in any second; no sender knows.
    rate: usize,
    /// When it took the mails of the last second.
    taken: VecDeque<Timestamp>,
}

impl Providers {
    pub(super) fn set(&mut self, domains: &[&str], rate: usize) {
        let domains: Vec<String> = domains.iter().map(|domain| (*domain).to_owned()).collect();
        match self.providers.iter_mut().find(|known| known.domains == domains) {
            Some(known) => known.rate = rate,
            None => self.providers.push(Provider { domains, rate, taken: VecDeque::new() }),
        }
    }

    /// A mail that SES accepted reaches the provider of each recipient.
    pub(super) fn reach(&mut self, mail: &Mail<'_>, message_id: &str, now: Timestamp) {
        for provider in &mut self.providers {
            for to in provider.recipients(mail.content) {
                if !provider.takes(now) {
                    self.deferrals.push(notice(mail, message_id, &to, now));
                }
            }
        }
    }

    pub(super) fn take_deferrals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.deferrals)
    }
}

impl Provider {
    fn recipients(&self, content: &Content) -> Vec<String> {
        let is_own = |to: &&str| {
            let domain = to.rsplit_once('@').map(|(_, domain)| domain);
            domain.is_some_and(|domain| self.domains.iter().any(|own| own == domain))
        };
        content.recipients().filter(is_own).map(str::to_owned).collect()
    }

    fn takes(&mut self, now: Timestamp) -> bool {
        let passed = |at: &Timestamp| now.as_nanos().saturating_sub(at.as_nanos()) >= SECOND;
        while self.taken.front().is_some_and(passed) {
            self.taken.pop_front();
        }
        let takes = self.taken.len() < self.rate;
        if takes {
            self.taken.push_back(now);
        }
        takes
    }
}

/// The notice that the stack's rule makes of SES's event "Email Delivery Delayed".
fn notice(mail: &Mail<'_>, message_id: &str, to: &str, now: Timestamp) -> String {
    let limits = mail.limits.map(|limits| vec![limits]);
    let tags = serde_json::json!({"tidegate_campaign": [mail.campaign], "tidegate_limit": limits});
    serde_json::json!({
        "kind": "deferral", "campaign": [mail.campaign], "id": message_id, "tags": tags,
        "recipients": [{"emailAddress": to, "status": "4.4.7"}],
        "sent_at": EpochMillis::from(now),
    })
    .to_string()
}
