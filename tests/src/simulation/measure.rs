//! Measures a finished run: rate, shares, losses and duplicates, the quantities that Tidegate promises.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tidegate_core::compression::decompress;
use tidegate_core::identity::Identity;
use tidegate_core::store::unpack;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::poll::WindowReport;
use tidegate_fakes::{QueuedMessage, SesArrival};
use tidegate_simulator::{DEAD_LETTERS, url};

use super::World;

/// The least share of the quota that was used in any `length` windows within `windows`, counted
/// from `first`. A span's edges cut a slot in two: one recipient counts for that.
///
/// # Panics
/// Where `windows` are fewer than `length`.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn utilisation(world: &World, first: Window, windows: Range<u64>, length: u64) -> f64 {
    let arrivals = world.ses.arrivals();
    let allowed = world.settings.quota * length as f64;
    let last = windows.end.saturating_sub(length);
    assert!(windows.start <= last, "the run is shorter than {length} windows");
    let used = (windows.start..=last).map(|start| {
        let got = sent(&arrivals, &span(first, start..start + length));
        (got + 1) as f64 / allowed
    });
    used.fold(f64::INFINITY, f64::min)
}

/// The time from the opening of the first window of a range to the end of its last.
pub fn span(first: Window, windows: Range<u64>) -> Range<Timestamp> {
    first.plus(windows.start).opens()..first.plus(windows.end).opens()
}

/// Recipients that SES accepted within `span`.
pub fn sent(arrivals: &[SesArrival], span: &Range<Timestamp>) -> u64 {
    let within = arrivals.iter().filter(|a| a.verdict.is_ok() && span.contains(&a.at));
    within.map(|arrival| u64::from(arrival.recipients)).sum()
}

/// A campaign's share of the recipients that SES accepted within `span`, 0.0 to 1.0.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn share(arrivals: &[SesArrival], campaign: &str, span: &Range<Timestamp>) -> f64 {
    let own: Vec<SesArrival> =
        arrivals.iter().filter(|a| a.campaign == campaign).cloned().collect();
    sent(&own, span) as f64 / sent(arrivals, span).max(1) as f64
}

/// The most recipients that arrived in any half-open second, refused ones included.
pub fn worst_second(arrivals: &[SesArrival]) -> u64 {
    let timed = arrivals.iter().map(|arrival| (arrival.at.as_nanos(), arrival.recipients));
    tidegate_fakes::worst_second(timed)
}

/// The arrivals for recipients of these domains, each reduced to those recipients.
pub fn to_domains(arrivals: &[SesArrival], domains: &[&str]) -> Vec<SesArrival> {
    let of = |address: &&String| {
        address.rsplit_once('@').is_some_and(|(_, domain)| domains.contains(&domain))
    };
    let own = arrivals.iter().map(|arrival| {
        let addresses: Vec<String> = arrival.addresses.iter().filter(of).cloned().collect();
        let recipients = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        SesArrival { addresses, recipients, ..arrival.clone() }
    });
    own.filter(|arrival| arrival.recipients > 0).collect()
}

impl World {
    /// How often SES accepted each mail, by id.
    pub fn accepted(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for arrival in self.ses.accepted() {
            *counts.entry(arrival.id).or_insert(0) += 1;
        }
        counts
    }

    /// Mails that SES accepted more than once.
    pub fn duplicates(&self) -> Vec<String> {
        let twice = self.accepted().into_iter().filter(|(_, count)| *count > 1);
        twice.map(|(id, _)| id).collect()
    }

    /// The ids of all mails on a queue (dead letters included) or in the deferral store.
    pub fn waiting(&self) -> BTreeSet<String> {
        let standing =
            self.queues.urls().into_iter().flat_map(|queue| self.queues.contents(&queue));
        let standing = standing.filter_map(|message| id_of(&message));
        standing.chain(self.deferred().into_iter().map(|(id, _)| id)).collect()
    }

    /// The ids of all mail on a queue that is not the dead-letter queue.
    pub fn unsent(&self) -> BTreeSet<String> {
        let urls = self.queues.urls().into_iter().filter(|queue| *queue != url(DEAD_LETTERS));
        urls.flat_map(|queue| self.queues.contents(&queue)).filter_map(|m| id_of(&m)).collect()
    }

    /// The ids and bodies of deferred mail, the oldest object first. Objects that cannot be read
    /// are left out.
    pub fn deferred(&self) -> Vec<(String, String)> {
        let objects = self.store.contents().into_iter();
        let mails = objects.filter_map(|(_, bytes)| unpack(&bytes).ok()).flatten();
        mails.map(|(line, envelope)| (envelope.identity.id().into_owned(), line.body)).collect()
    }

    /// Whether every queue but the dead-letter queue is empty and nothing is deferred.
    pub fn is_drained(&self) -> bool {
        if !self.store.contents().is_empty() {
            return false;
        }
        let mut urls = self.queues.urls().into_iter().filter(|queue| *queue != url(DEAD_LETTERS));
        urls.all(|queue| self.queues.contents(&queue).is_empty())
    }

    /// The ids of all mails that were put on a queue.
    pub fn enqueued(&self) -> Vec<String> {
        self.enqueued.borrow().keys().cloned().collect()
    }

    /// Mails that were put on a queue, were not accepted by SES, and are no longer stored anywhere.
    /// Must be empty.
    pub fn lost(&self) -> Vec<String> {
        let (accepted, waiting) = (self.accepted(), self.waiting());
        let gone = |id: &&String| !accepted.contains_key(*id) && !waiting.contains(*id);
        self.enqueued.borrow().keys().filter(gone).cloned().collect()
    }

    /// Mails that SES refused, for whatever reason.
    pub fn refused(&self) -> usize {
        self.ses.arrivals().iter().filter(|arrival| arrival.verdict.is_err()).count()
    }

    /// The reports so far, by window.
    pub fn reports(&self) -> Vec<WindowReport> {
        let mut reports: Vec<_> =
            self.poller_runs().iter().filter_map(|start| start.report().cloned()).collect();
        reports.sort_by_key(|report| report.window);
        reports
    }

    /// The report of the poller that claimed this window: of several reports for a window the one
    /// with slots.
    pub fn report_of(&self, window: Window) -> Option<WindowReport> {
        let reports = self.reports().into_iter().filter(|report| report.window == window);
        reports.max_by_key(|report| report.slots)
    }
}

/// The id of the mail in a message: from its identity, else from its body.
fn id_of(message: &QueuedMessage) -> Option<String> {
    if let Some(identity) = message.attributes.get("identity") {
        return Identity::parse(identity).ok().map(|identity| identity.id().into_owned());
    }
    let read = decompress(&message.body).and_then(Result::ok);
    let body = read.as_deref().unwrap_or(&message.body);
    let (_, rest) = body.split_once(r#""id": ""#)?;
    rest.split_once('"').map(|(id, _)| id.to_owned())
}
