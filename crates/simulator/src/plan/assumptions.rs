//! The assumptions of a forecast.

use tidegate_core::Window;
use tidegate_core::channel::Channel;
use tidegate_core::format::{count, time};
use tidegate_core::limits::Dimension;

use super::scenario::Scenario;

/// The most closed limits that are named.
const MOST_CLOSED: usize = 10;

/// Everything that the forecast of `scenario` assumes, in words.
pub(super) fn assumptions(scenario: &Scenario) -> Vec<String> {
    let (service, message) = (scenario.channel.words().service, scenario.channel.words().message);
    let but = if scenario.faults.is_empty() { "" } else { ", but for the faults given" };
    let mut said = vec![format!(
        "{service} takes every {message}{but}, and nothing else sends from the account"
    )];
    said.extend(scenario.assumptions.iter().cloned());
    let holds = scenario.control.named_holds().map(|(campaign, reason, hold)| {
        let of = campaign.unwrap_or("all sending");
        match hold.until {
            Some(until) => format!("{of} is held ({reason}) until {}", time(until)),
            None => format!("{of} stays held ({reason}): the hold has no end"),
        }
    });
    said.extend(holds);
    let is_all_held = scenario.control.holds.named().next().is_some();
    if is_all_held && scenario.express.is_some_and(|rate| rate > 0.0) {
        said.push("express mail that comes while all sending is held is left out".to_owned());
    }
    let table = scenario.control.limit_table(&scenario.limits().cloned().unwrap_or_default());
    let closed = scenario.campaigns.iter().filter(|load| load.mails > 0).filter_map(|load| {
        let window = Window::containing(scenario.start);
        let limit = table.find(Dimension::Campaign, &load.name)?;
        let limit = table.get(limit.index).filter(|_| table.closes_campaign(&load.name, window));
        Some(format!("{} waits for its limit to open ({})", load.name, limit?.1))
    });
    said.extend(closed.take(MOST_CLOSED));
    if let Some(daily) = scenario.daily.filter(|daily| daily.sent > 0) {
        let sent = count(daily.sent);
        said.push(format!(
            "the {sent} recipients of the last 24 hours leave SES's count 24 hours after the start"
        ));
    }
    let limits = scenario.limits().is_some_and(|limits| !limits.is_empty());
    if limits && scenario.domains.is_empty() && scenario.channel == Channel::Email {
        said.push("no two mails go to one recipient domain, so that no limit of one delays them (--domain says otherwise)".to_owned());
    }
    said
}
