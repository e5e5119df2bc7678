//! The contract of the `SuppressionList` port.

use std::collections::BTreeMap;

use tidegate_delivery::ports::{SuppressionList, SuppressionReason};

use super::{behaviours, hold_together};

/// Gives the contract fresh suppression lists of one adapter.
pub trait SuppressionRoom {
    type List: SuppressionList;

    /// A list with these addresses.
    fn open(&self, addresses: &[(&str, SuppressionReason)]) -> impl Future<Output = Self::List>;
}

/// Runs all behaviours of the suppression list on one adapter.
pub async fn suppression_contract(room: &impl SuppressionRoom) {
    hold_together(behaviours![room =>
        the_pages_together_have_every_address_once,
        an_address_is_found_in_its_own_spelling_alone,
    ])
    .await;
}

async fn the_pages_together_have_every_address_once(room: &impl SuppressionRoom) {
    for number in [0, 1, 7] {
        let addresses: Vec<String> = (0..number).map(|n| format!("a{n}@example.com")).collect();
        let reasons = [SuppressionReason::Bounce, SuppressionReason::Complaint];
        let put: Vec<_> =
            addresses.iter().map(String::as_str).zip(reasons.into_iter().cycle()).collect();
        let list = room.open(&put).await;
        let (mut found, mut after, mut pages) = (BTreeMap::new(), None, 0);
        loop {
            let page = list.page(after.as_deref()).await.unwrap();
            pages += 1;
            assert!(pages < 100, "the last page has a successor");
            for entry in page.addresses {
                assert!(entry.since.as_millis() > 0);
                assert_eq!(found.insert(entry.address, entry.reason), None, "told twice");
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let expected: BTreeMap<String, SuppressionReason> =
            put.into_iter().map(|(address, reason)| (address.to_owned(), reason)).collect();
        assert_eq!(found, expected);
    }
}

async fn an_address_is_found_in_its_own_spelling_alone(room: &impl SuppressionRoom) {
    let list = room.open(&[("Ada+x@example.com", SuppressionReason::Complaint)]).await;
    let found = list.find("Ada+x@example.com").await.unwrap().unwrap();
    assert_eq!((found.reason, found.tenant), (SuppressionReason::Complaint, None));
    for other in ["ada+x@example.com", "Ada+X@example.com", "bob@example.com"] {
        assert_eq!(list.find(other).await.unwrap(), None, "{other}");
    }
}
