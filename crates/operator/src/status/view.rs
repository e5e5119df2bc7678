use super::{CampaignStatus, HoldStatus, LimitStatus, QuotaStatus, Status};
use crate::page::{Page, Span, TextTable, Tone, View};
use crate::suggest::SuggestedCommand;
use std::time::Duration;
use tidegate_core::channel::Words;
use tidegate_core::config::EXPRESS;
use tidegate_core::control::HoldReason;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::format::{count, percent, rate, span, time};
use tidegate_delivery::ports::QueueDepth;

impl View for Status {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{}, {}", self.stack, time(self.at)));
        page.fields(self.summary(true));
        page.heading("Campaigns");
        page.table(self.table());
        self.sections(page);
        if !self.changes.is_empty() {
            page.heading("Changes");
            self.changes.view(page);
        }
    }
}

impl Status {
    /// The parts below the campaigns, as far as the stack has them.
    pub(crate) fn sections(&self, page: &mut Page) {
        if !self.holds.is_empty() {
            page.heading("Holds");
            let mut table =
                TextTable::new(["of", "reason", "since", "until", "lifted by", "detail"]);
            self.holds.iter().for_each(|hold| table.row(row(hold)));
            page.table(table);
        }
        if !self.limits.is_empty() {
            page.heading("Limits");
            page.table(limits(&self.limits));
        }
        if !self.runs.is_empty() {
            page.heading("Runs");
            self.runs.view(page);
        }
    }

    /// The stack in a few fields. Whether it sends is said where that is `known`: the figures are of this moment.
    pub(crate) fn summary(&self, known: bool) -> Vec<(&'static str, Span)> {
        let mut fields = Vec::new();
        fields.extend(known.then(|| ("sending", self.sending())));
        fields.push(("quota", self.quota.line()));
        let Words { unit, limit, .. } = self.quota.words;
        fields.push(("waiting", Span::from(self.waiting.in_words())));
        if let Some(daily) = &self.quota.daily {
            let [sent, quota, left] =
                [daily.sent, daily.quota, daily.left_for_campaigns].map(count);
            let text = format!(
                "{sent} of {quota} {unit}s sent in 24 hours; campaigns may use {left} more"
            );
            fields.push((limit, Span::from(text)));
        }
        let spend = |dollars| (limit, Span::from(format!("${} a month", count(dollars))));
        fields.extend(self.quota.spend_limit.map(spend));
        let closed = self.limits.iter().filter(|limit| limit.closed);
        let closed: Vec<&str> = closed.map(LimitStatus::name).collect();
        if !closed.is_empty() {
            fields.push(("limits closed", Span::new(Tone::Warning, closed.join(", "))));
        }
        fields.extend(self.level.in_words().map(|text| ("level", Span::new(Tone::Warning, text))));
        if let Some(since) = self.level.growing_since {
            let text = format!("since {}: more comes than the quota lets go", time(since));
            fields.push(("backlog grows", Span::new(Tone::Warning, text)));
        }
        let dead = match self.queues.get("dead_letters").map_or(0, |depth| depth.all()) {
            0 => Span::from("none"),
            dead => {
                let text = format!("{}; `{}` says why", count(dead), SuggestedCommand::Dead);
                Span::new(Tone::Warning, text)
            }
        };
        fields.push(("dead letters", dead));
        let counted = |name| count(self.counter(name));
        if self.counter(Counter::WindowsMissed) > 0 {
            let missed = counted(Counter::WindowsMissed);
            let text = format!("{missed} seconds since the start: their ticks were lost or late");
            fields.push(("not served", Span::new(Tone::Warning, text)));
        }
        let [sent, refused, retried, dead] =
            [Counter::Sent, Counter::Refused, Counter::Retried, Counter::Dead].map(counted);
        let text = format!(
            "{sent} {unit}s sent, {refused} refused for the rate and tried again, {retried} retries, {dead} dead-lettered"
        );
        fields.push(("since the start", Span::from(text)));
        fields
    }

    fn table(&self) -> TextTable {
        let names = ["name", "weight", "share", "sent", "waiting", "in flight", "delayed", ""];
        let mut table = (1..7).fold(TextTable::new(names), TextTable::right);
        let row = |name: Span, figures: [String; 3], depth: &QueueDepth, end: Span| {
            let depths = [depth.visible, depth.in_flight, depth.delayed].map(count);
            let figures = figures.into_iter().chain(depths).map(Span::from);
            std::iter::once(name).chain(figures).chain([end])
        };
        if let Some(depth) = self.queues.get("express") {
            let sent = count(at_least_0(Counter::Sent.sum_of(EXPRESS, &self.counters)));
            let figures = ["first".to_owned(), "-".to_owned(), sent];
            let held = self.held(EXPRESS).unwrap_or_default();
            table.row(row(Span::new(Tone::Strong, EXPRESS), figures, depth, held));
        }
        for campaign in &self.campaigns {
            let weight = campaign.weight_in_words();
            let figures = [weight, percent(campaign.share), count(campaign.sent)];
            let name = Span::new(Tone::Strong, &campaign.name);
            table.row(row(name, figures, &campaign.backlog, self.stands_until(campaign)));
            for (name, depth) in &campaign.priority_queues {
                let name = Span::from(format!("  of it {name}"));
                table.row(row(name, Default::default(), depth, Span::default()));
            }
        }
        table
    }

    /// That holds of its own stop a campaign, or express mail.
    fn held(&self, name: &str) -> Option<Span> {
        let mut own = self.holds.iter().filter(|hold| hold.campaign.as_deref() == Some(name));
        let is_paused = |hold: &HoldStatus| hold.reason == HoldReason::Paused.as_str();
        let paused = own.next().map(|first| is_paused(first) && own.all(is_paused))?;
        Some(if paused { Span::new(Tone::Warning, "paused") } else { Span::new(Tone::Bad, "held") })
    }

    /// The limit of a campaign, while it lets nothing through.
    pub fn closed(&self, campaign: &str) -> Option<&LimitStatus> {
        self.limit_of(campaign).filter(|limit| limit.closed)
    }

    /// The reason why a campaign alone is stopped, and how much of it is dead; empty for most.
    pub fn stands(&self, campaign: &CampaignStatus) -> Span {
        let closed = || self.closed(&campaign.name).map(|_| Span::new(Tone::Warning, "closed"));
        let no_share = || {
            let waits = campaign.weight == 0 && campaign.backlog.all() > 0;
            waits.then(|| Span::new(Tone::Warning, "no share"))
        };
        let stopped = self.held(&campaign.name).or_else(closed).or_else(no_share);
        let dead = (campaign.dead > 0).then(|| format!("{} dead", count(campaign.dead)));
        let tone = stopped.as_ref().map_or(Tone::Warning, |stopped| stopped.tone);
        let said: Vec<String> =
            stopped.map(|stopped| stopped.text).into_iter().chain(dead).collect();
        Span::new(tone, said.join(", "))
    }

    /// As [`Self::stands`], with the time at which a closed campaign opens.
    pub(crate) fn stands_until(&self, campaign: &CampaignStatus) -> Span {
        let opens_at = self.closed(&campaign.name).and_then(|limit| limit.opens_at);
        let Span { tone, text } = self.stands(campaign);
        let opens = opens_at.map(|at| format!(", opens {}", time(at))).unwrap_or_default();
        Span::new(tone, text + &opens)
    }

    /// The campaigns, and express mail, of which nothing may be sent now.
    fn stopped(&self) -> Vec<&str> {
        let names = self.campaigns.iter().map(|campaign| campaign.name.as_str());
        let express = self.queues.contains_key("express").then_some(EXPRESS);
        let is_stopped = |name: &&str| self.held(name).is_some() || self.closed(name).is_some();
        express.into_iter().chain(names).filter(is_stopped).collect()
    }

    /// Whether mail goes out now, and if not why, in a few words.
    pub fn sending(&self) -> Span {
        if let Some(hold) = self.holds.iter().find(|hold| hold.campaign.is_none()) {
            return Span::new(Tone::Bad, format!("no: {}", hold.what));
        }
        let Words { service, message, .. } = self.quota.words;
        let (tone, said) = match (self.breaker.state, self.serving.state) {
            ("blocking", _) => {
                let until = self.breaker.until.map(time).unwrap_or_default();
                (Tone::Bad, format!("no: {service} fails; the breaker tries it again at {until}"))
            }
            ("probing", _) => {
                (Tone::Warning, format!("the breaker tries {service} with one {message}"))
            }
            (_, "serving") if self.campaigns.iter().all(|campaign| campaign.held) => {
                (Tone::Warning, "every campaign is held".to_owned())
            }
            (_, "serving") => match self.stopped() {
                stopped if stopped.is_empty() => (Tone::Good, "yes".to_owned()),
                stopped => (Tone::Warning, format!("yes, but not {}", stopped.join(", "))),
            },
            (_, "idle") => {
                (Tone::Plain, "idle: every queue was empty when last checked".to_owned())
            }
            (_, "never") => (Tone::Warning, "no window was ever served".to_owned()),
            _ => {
                let last = self.serving.last_window.unwrap_or(self.at).as_millis();
                let ago = Duration::from_millis(self.at.as_millis().saturating_sub(last));
                let served = format!("no: no window was served for {}", span(ago));
                (Tone::Bad, format!("{served}; is the EventBridge rule enabled?"))
            }
        };
        Span::new(tone, said)
    }
}

impl CampaignStatus {
    /// The weight, with the configured one where an operator or a rule has changed it.
    pub(crate) fn weight_in_words(&self) -> String {
        if self.weight == self.configured_weight {
            return self.weight.to_string();
        }
        format!("{} (of {})", self.weight, self.configured_weight)
    }
}

impl QuotaStatus {
    /// The quota in force, and what lowers it.
    pub fn line(&self) -> Span {
        let Some(in_force) = self.in_force else {
            let found =
                format!("unknown: {} does not tell it, and none is configured", self.words.service);
            return Span::new(Tone::Bad, found);
        };
        let mut text = format!("{} in force", rate(in_force));
        if let Some(slots) = self.slots_per_second {
            text = format!("{text}, {} with the rate margin of {}", rate(slots), self.rate_margin);
        }
        let caps = [
            (format!("{} allows", self.words.service), self.account_per_second),
            ("configured cap".to_owned(), self.configured_cap),
            ("operator's cap".to_owned(), self.operator_cap),
        ];
        let caps = caps.into_iter().filter_map(|(of, cap)| Some(format!("{of} {}", rate(cap?))));
        let mut why: Vec<String> = caps.collect();
        let lowered = self.factor < 1.0;
        if lowered {
            why.push(format!("refusals leave {}", percent(self.factor)));
        }
        let tone = if lowered { Tone::Warning } else { Tone::Plain };
        Span::new(tone, if why.is_empty() { text } else { format!("{text} ({})", why.join(", ")) })
    }
}

impl View for QuotaStatus {
    fn view(&self, page: &mut Page) {
        page.spans([self.line()]);
    }
}

impl View for Vec<LimitStatus> {
    fn view(&self, page: &mut Page) {
        if self.is_empty() {
            return page.line(Tone::Plain, "nothing is limited but by the quota");
        }
        page.table(limits(self));
    }
}

/// The weights and shares of all campaigns.
impl View for Vec<CampaignStatus> {
    fn view(&self, page: &mut Page) {
        let mut table = TextTable::new(["name", "weight", "configured", "share"]);
        table = table.right(1).right(2).right(3);
        for campaign in self {
            table.row([
                campaign.name.clone(),
                campaign.weight.to_string(),
                campaign.configured_weight.to_string(),
                percent(campaign.share),
            ]);
        }
        page.table(table);
    }
}

fn limits(limits: &[LimitStatus]) -> TextTable {
    let mut table = TextTable::new(["limit of", "limit", "in force", "waiting"]);
    for limit in limits {
        let in_force = match (limit.closed, limit.opens_at) {
            (true, Some(opens_at)) => format!("closed until {}", time(opens_at)),
            (true, None) => "closed".to_owned(),
            (false, _) => limit.per_second.map_or_else(|| "the quota".to_owned(), rate),
        };
        table.row([
            Span::from(limit.key.clone()),
            Span::from(limit.limit.clone()),
            Span::from(in_force),
            Span::from(limit.waiting.map_or_else(|| "-".to_owned(), count)),
        ]);
    }
    table
}

fn row(hold: &HoldStatus) -> [Span; 6] {
    [
        Span::new(Tone::Strong, hold.campaign.as_deref().unwrap_or("all sending")),
        Span::new(Tone::Bad, &hold.reason),
        Span::from(time(hold.since)),
        Span::from(hold.until.map_or_else(|| "-".to_owned(), time)),
        Span::from(&hold.lifted_by),
        Span::from(&hold.detail),
    ]
}
