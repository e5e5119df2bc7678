//! SES's suppression lists: a whole one, and one address. SES answers one such call a second.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::email::Address;
use tidegate_delivery::ports::{
    Clock, PortError, SuppressedAddress, SuppressionList, SuppressionReason,
};

/// Time between two calls.
const PACE: Duration = Duration::from_secs(1);
/// How often a page is asked for that fails. The waits between are 1, 2, 4, 8 and 16 s.
const TRIES: u32 = 6;

/// Reads a whole suppression list: addresses in lower case, and their entries. `read` is called with the number
/// of addresses of each page. A list of 100,000 takes 100 s. After a failure it goes on at the page that failed.
///
/// # Errors
/// [`PortError`] if SES refuses, or still does not answer after half a minute.
pub async fn suppressed(
    list: &impl SuppressionList,
    clock: &impl Clock,
    read: impl Fn(u64),
) -> Result<BTreeMap<String, SuppressedAddress>, PortError> {
    let (mut all, mut after, mut tried) = (BTreeMap::new(), None, 1);
    loop {
        let page = match list.page(after.as_deref()).await {
            Err(error) if tried < TRIES && error.kind.may_pass() => {
                pause(clock, PACE * 2_u32.pow(tried - 1)).await;
                tried += 1;
                continue;
            }
            answer => answer?,
        };
        read(page.addresses.len() as u64);
        all.extend(page.addresses.into_iter().map(|entry| (entry.address.to_lowercase(), entry)));
        (after, tried) = (page.next, 1);
        if after.is_none() {
            return Ok(all);
        }
        pause(clock, PACE).await;
    }
}

async fn pause(clock: &impl Clock, time: Duration) {
    clock.sleep_until(clock.monotonic() + time).await;
}

/// Looks an address up as it is given, without its name, and then in lower case. SES finds it only in the spelling
/// in which it was put on the list, which most often is one of these.
///
/// # Errors
/// [`PortError`] if SES does not answer or refuses.
pub async fn find(
    list: &impl SuppressionList,
    clock: &impl Clock,
    address: &str,
) -> Result<Option<SuppressedAddress>, PortError> {
    let parsed = Address::parse(address);
    let given = parsed.as_ref().map_or(address, Address::addr_spec);
    let found = list.find(given).await?;
    let lower = given.to_lowercase();
    if found.is_some() || lower == given {
        return Ok(found);
    }
    pause(clock, PACE).await;
    list.find(&lower).await
}

/// The event for which an address was put on the list, in words.
pub(crate) const fn in_words(reason: SuppressionReason) -> &'static str {
    match reason {
        SuppressionReason::Bounce => "a mail to it bounced",
        SuppressionReason::Complaint => "its recipient complained",
    }
}

/// The list on which an address is, in words.
pub(crate) fn list_of(entry: &SuppressedAddress) -> String {
    match &entry.tenant {
        Some(tenant) => format!("the suppression list of the tenant {tenant}"),
        None => "the account's suppression list".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Timestamp;
    use tidegate_core::identity::EpochMillis;
    use tidegate_delivery::ports::{Clock as _, FailureKind};
    use tidegate_fakes::{Fault, FaultPlan, MemorySuppressionList, Operation, Rule, Universe};

    use super::*;

    fn universe() -> Universe {
        Universe::starting_at(Timestamp::from_millis(1_000_000))
    }

    fn list(addresses: &[&str]) -> MemorySuppressionList {
        let list = MemorySuppressionList::default();
        for address in addresses {
            list.put(address, SuppressionReason::Bounce, EpochMillis::new(1));
        }
        list
    }

    /// Pages have two addresses, and the first has none.
    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_at_one_call_a_second_and_goes_on_at_the_page_that_failed() {
        let (clock, plan) = (universe().clock(), FaultPlan::new(universe(), 1));
        let list = list(&["A@example.com", "b@example.com", "c@example.com", "d@example.com"]);
        let list = list.with_faults(&plan);
        let began = clock.monotonic();
        let read = std::cell::RefCell::new(Vec::new());
        let all = suppressed(&list, &clock, |more| read.borrow_mut().push(more)).await.unwrap();
        assert!(all.len() == 4 && all.contains_key("a@example.com"));
        assert_eq!(*read.borrow(), [0, 2, 2]);
        assert_eq!(clock.monotonic().saturating_since(began), Duration::from_secs(2));
        // The second page fails twice, and is the next one that is asked for.
        read.borrow_mut().clear();
        let failing = || Rule::new(Fault::Before(FailureKind::Refused("Throttled".to_owned())));
        plan.add(failing().on(Operation::ListSuppressed).nth(2));
        plan.add(failing().on(Operation::ListSuppressed).nth(3));
        let all = suppressed(&list, &clock, |more| read.borrow_mut().push(more)).await.unwrap();
        assert_eq!((all.len(), &read.borrow()[..]), (4, &[0, 2, 2][..]));
        // A refusal that stays one ends it.
        plan.clear();
        let denied = Fault::Before(FailureKind::Denied("AccessDenied".to_owned()));
        plan.add(Rule::new(denied).on(Operation::ListSuppressed));
        let began = clock.monotonic();
        assert!(suppressed(&list, &clock, |_| {}).await.is_err());
        assert_eq!(clock.monotonic(), began);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_asked_for_as_given_without_its_name_and_in_lower_case() {
        let (clock, list) =
            (universe().clock(), list(&["Ada.Case@example.com", "bob@example.com"]));
        for (asked, found) in [
            ("Ada.Case@example.com", Some("Ada.Case@example.com")),
            ("Ada <Ada.Case@example.com>", Some("Ada.Case@example.com")),
            ("BOB@example.com", Some("bob@example.com")),
            // As at AWS: no call finds this one.
            ("ada.case@example.com", None),
        ] {
            let entry = find(&list, &clock, asked).await.unwrap();
            assert_eq!(entry.as_ref().map(|entry| entry.address.as_str()), found, "{asked}");
        }
    }
}
