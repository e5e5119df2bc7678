use super::{CampaignStatus, HoldStatus, LimitStatus, QuotaStatus, Status};
use crate::format::{count, percent, rate, span, time};
use crate::page::{Page, Span, TextTable, Tone, View};
use std::time::Duration;
use tidegate_core::counters::Counter;
use tidegate_core::identity::EpochMillis;

impl View for Status {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{}, {}", self.stack, time(self.at)));
        page.fields(self.summary());
        page.heading("Campaigns");
        page.table(table(&self.campaigns));
        if !self.runs.is_empty() {
            page.heading("Runs");
            self.runs.view(page);
        }
        if !self.limits.is_empty() {
            page.heading("Limits");
            page.table(limits(&self.limits));
        }
        if !self.holds.is_empty() {
            page.heading("Holds");
            let mut table =
                TextTable::new(["of", "reason", "since", "until", "lifted by", "detail"]);
            self.holds.iter().for_each(|hold| table.row(row(hold)));
            page.table(table);
        }
        if !self.changes.is_empty() {
            page.heading("Changes");
            self.changes.view(page);
        }
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
            Span::from(count(limit.waiting)),
        ]);
    }
    table
}

impl Status {
    fn summary(&self) -> Vec<(&'static str, Span)> {
        let mut fields = vec![("sending", self.sending()), ("quota", self.quota.line())];
        let words = self.quota.words;
        let left = self.serving.left.as_ref();
        fields.extend(left.map(|left| ("last window", left.in_words(words.message).into())));
        if let Some(daily) = &self.quota.daily {
            let text = format!(
                "{} of {} {}s sent in 24 hours; campaigns may use {} more",
                count(daily.sent),
                count(daily.quota),
                words.unit,
                count(daily.left_for_campaigns)
            );
            fields.push((words.limit, Span::from(text)));
        }
        if let Some(dollars) = self.quota.spend_limit {
            fields.push((words.limit, Span::from(format!("${} a month", count(dollars)))));
        }
        let closed = self.limits.iter().filter(|limit| limit.closed);
        let closed: Vec<&str> = closed.map(LimitStatus::name).collect();
        if !closed.is_empty() {
            fields.push(("limits closed", Span::new(Tone::Warning, closed.join(", "))));
        }
        if let Some(text) = self.level.in_words() {
            fields.push(("level", Span::new(Tone::Warning, text)));
        }
        let dead = self.queues.get("dead_letters").map_or(0, |depth| depth.all());
        let tone = if dead > 0 { Tone::Warning } else { Tone::Plain };
        fields.push(("dead letters", Span::new(tone, count(dead))));
        for (name, key) in [("merge queue", "merge"), ("express queue", "express")] {
            if let Some(depth) = self.queues.get(key) {
                fields.push((name, Span::from(count(depth.all()))));
            }
        }
        let counted = |name| count(self.counter(name));
        let early = self.counter(Counter::TicksEarly).checked_div(self.counter(Counter::Windows));
        if let Some(early) = early {
            let missed = counted(Counter::WindowsMissed);
            let text =
                format!("{early} ms before their windows on average; {missed} windows missed");
            fields.push(("ticks", Span::from(text)));
        }
        fields.push((
            "since the start",
            Span::from(format!(
                "{} {}s sent, {} refused for the rate, {} retries, {} dead-lettered, {} slots skipped, {} unused",
                counted(Counter::Sent),
                words.unit,
                counted(Counter::Refused),
                counted(Counter::Retried),
                counted(Counter::Dead),
                counted(Counter::Skipped),
                counted(Counter::Unused),
            )),
        ));
        fields
    }

    /// Whether mail goes out now, and if not why, in a few words.
    pub fn sending(&self) -> Span {
        let held = self.holds.iter().find(|hold| hold.campaign.is_none());
        let ago = |at: Option<EpochMillis>| {
            let millis = at.map_or(0, |at| self.at.as_millis().saturating_sub(at.as_millis()));
            span(Duration::from_millis(millis))
        };
        if let Some(hold) = held {
            return Span::new(Tone::Bad, format!("held: {}", hold.reason));
        }
        match (self.breaker.state, self.serving.state) {
            ("blocking", _) => {
                let until = self.breaker.until.map(time).unwrap_or_default();
                Span::new(Tone::Bad, format!("circuit breaker blocks; it probes at {until}"))
            }
            ("probing", _) => Span::new(
                Tone::Warning,
                format!("circuit breaker probes with one {}", self.quota.words.message),
            ),
            (_, "serving") if self.campaigns.iter().all(|campaign| campaign.held) => {
                Span::new(Tone::Warning, "every campaign is held")
            }
            (_, "serving") => Span::new(Tone::Good, "yes"),
            (_, "idle") => Span::from("idle: every queue was empty when last checked"),
            (_, "never") => Span::new(Tone::Warning, "no window was ever served"),
            _ => Span::new(
                Tone::Bad,
                format!(
                    "no: no window was served for {}; is the EventBridge rule enabled?",
                    ago(self.serving.last_window)
                ),
            ),
        }
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
            text = format!("{text}, {} with the rate margin", rate(slots));
        }
        let mut why: Vec<String> = Vec::new();
        if let Some(account) = self.account_per_second {
            why.push(format!("{} allows {}", self.words.service, rate(account)));
        }
        if let Some(cap) = self.configured_cap {
            why.push(format!("configured cap {}", rate(cap)));
        }
        if let Some(cap) = self.operator_cap {
            why.push(format!("operator's cap {}", rate(cap)));
        }
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

/// The weights and shares of all campaigns.
impl View for Vec<LimitStatus> {
    fn view(&self, page: &mut Page) {
        if self.is_empty() {
            return page.line(Tone::Plain, "nothing is limited but by the quota");
        }
        page.table(limits(self));
    }
}

impl View for Vec<CampaignStatus> {
    fn view(&self, page: &mut Page) {
        let mut table = TextTable::new(["name", "weight", "configured", "share", "rule"]);
        table = table.right(1).right(2).right(3);
        for campaign in self {
            table.row([
                campaign.name.clone(),
                campaign.weight.to_string(),
                campaign.configured_weight.to_string(),
                percent(campaign.share),
                campaign.weight_rule.clone().unwrap_or_default(),
            ]);
        }
        page.table(table);
    }
}

fn table(campaigns: &[CampaignStatus]) -> TextTable {
    let names = ["name", "weight", "share", "sent", "waiting", "in flight", "delayed", ""];
    let mut table = (1..7).fold(TextTable::new(names), TextTable::right);
    for campaign in campaigns {
        let overridden = campaign.weight != campaign.configured_weight;
        let weight = if overridden {
            format!("{} (of {})", campaign.weight, campaign.configured_weight)
        } else {
            campaign.weight.to_string()
        };
        let held = if campaign.held { Span::new(Tone::Bad, "held") } else { Span::default() };
        table.row([
            Span::new(Tone::Strong, &campaign.name),
            Span::from(weight),
            Span::from(percent(campaign.share)),
            Span::from(count(campaign.sent)),
            Span::from(count(campaign.backlog.visible)),
            Span::from(count(campaign.backlog.in_flight)),
            Span::from(count(campaign.backlog.delayed)),
            held,
        ]);
        for (name, depth) in &campaign.priority_queues {
            let [visible, in_flight, delayed] =
                [depth.visible, depth.in_flight, depth.delayed].map(|n| Span::from(count(n)));
            let [weight, share, sent, held] = std::array::from_fn(|_| Span::default());
            let name = Span::from(format!("  of it {name}"));
            table.row([name, weight, share, sent, visible, in_flight, delayed, held]);
        }
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
