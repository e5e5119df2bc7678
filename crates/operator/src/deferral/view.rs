use tidegate_core::Timestamp;
use tidegate_delivery::replay::Why;

use super::{DeferralReplayReport, Deferred, DeferredList};
use crate::page::{Page, TextTable, Tone, View};
use tidegate_core::format::{bytes, count, counted, span};

impl View for DeferredList {
    fn view(&self, page: &mut Page) {
        if self.all.objects == 0 {
            page.line(Tone::Good, format!("nothing is deferred in {}", self.location));
        } else {
            let mails = counted(self.all.mails, "message");
            let objects = counted(self.all.objects, "object");
            page.heading(format!("{mails} deferred, {objects} in {}", self.location));
            let columns = ["campaign", "messages", "objects", "size", "oldest"];
            let mut table = TextTable::new(columns).right(1).right(2).right(3).right(4);
            for (name, deferred) in &self.campaigns {
                table.row([
                    name.clone(),
                    count(deferred.mails),
                    count(deferred.objects),
                    bytes(deferred.bytes),
                    self.oldest(deferred),
                ]);
            }
            page.table(table);
        }
        if !self.unknown_campaigns.is_empty() {
            let names = self.unknown_campaigns.join(", ");
            page.line(
                Tone::Warning,
                format!("there is no campaign {names}: its messages cannot be replayed"),
            );
        }
        if !self.strange.is_empty() {
            let strange = counted(self.strange.len() as u64, "object");
            page.line(Tone::Warning, format!("also stored there: {strange} of other software"));
        }
    }
}

impl DeferredList {
    fn oldest(&self, deferred: &Deferred) -> String {
        let age = self
            .now
            .zip(deferred.oldest)
            .map(|(now, oldest)| span(Timestamp::from(now).saturating_since(oldest.opens())));
        age.map_or_else(String::new, |age| format!("{age} ago"))
    }
}

impl View for DeferralReplayReport {
    fn view(&self, page: &mut Page) {
        let done = &self.done;
        let mails = counted(done.mails, "message");
        let tone = if done.is_all() { Tone::Good } else { Tone::Plain };
        page.line(tone, format!("{mails} brought back to their queues"));
        let mut table = TextTable::new(["campaign", "messages"]).right(1);
        for (name, mails) in &done.campaigns {
            table.row([name.clone(), count(*mails)]);
        }
        if !done.campaigns.is_empty() {
            page.table(table);
        }
        for left in &done.left {
            let why = match &left.why {
                Why::NoCampaign => format!("there is no campaign {}", left.campaign),
                Why::Held => format!("the campaign {} is held", left.campaign),
                Why::Taken => "another process replays it now".to_owned(),
                Why::Unreadable(said) => said.clone(),
                Why::Refused(code) => format!("the queue refused some of it ({code})"),
            };
            page.line(Tone::Warning, format!("left: {}: {why}", left.object));
        }
        if self.interrupted {
            page.line(Tone::Warning, "interrupted: run the same command again to continue");
        } else if !done.through {
            page.line(Tone::Faint, "the limit was reached; there is more");
        }
    }
}
