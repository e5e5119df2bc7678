use tidegate_core::Timestamp;
use tidegate_core::email::Address;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, FaultPlan, MemoryLedger, Operation, Rule, SimClock, Universe};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_795_206_967_042);

fn keys(names: &[&str]) -> BTreeSet<AddressKey> {
    names.iter().map(|name| AddressKey::of_text(&format!("{name}@example.com"))).collect()
}

fn address(name: &str) -> Address {
    Address::parse(&format!("{name}@example.com")).unwrap()
}

fn clock() -> SimClock {
    Universe::starting_at(NOW).clock()
}

async fn done(ledger: &MemoryLedger, action: ExcludeAction, names: &[&str]) -> ExcludeReport {
    let author = Author { by: "ada".to_owned(), reason: "unsubscribed".to_owned() };
    exclude(action, &keys(names), &author, ledger, &clock(), |_| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn addresses_come_onto_the_list_and_off_it_once_and_the_history_tells_who_and_why() {
    let ledger = MemoryLedger::default();
    let added = done(&ledger, ExcludeAction::Add, &["ada", "bob"]).await;
    assert_eq!((added.changed, added.addresses, added.recorded), (2, 2, true));
    let again = done(&ledger, ExcludeAction::Add, &["bob", "cy"]).await;
    assert_eq!((again.changed, again.addresses), (1, 3));
    let nothing = done(&ledger, ExcludeAction::Add, &["bob"]).await;
    assert_eq!((nothing.changed, nothing.recorded), (0, false));
    let removed = done(&ledger, ExcludeAction::Remove, &["bob", "di"]).await;
    assert_eq!((removed.changed, removed.addresses), (1, 2));
    let list = read(&ledger).await.unwrap();
    assert!(
        list.contains(address("ada").addr_spec()) && !list.contains(address("bob").addr_spec())
    );
    assert_eq!(state(&ledger).await.unwrap(), ExclusionState { version: 3, addresses: 2 });
    let changes = ledger.changes().await.unwrap();
    let said: Vec<_> = changes.iter().map(|c| format!("{} {}", c.action, c.detail)).collect();
    assert_eq!(
        said,
        [
            "include 1 recipient fewer, 2 in all",
            "exclude 1 recipient more, 3 in all",
            "exclude 2 recipients more, 2 in all"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_breaks_off_is_completed_by_the_same_one_again() {
    let plan = FaultPlan::new(Universe::starting_at(NOW), 1);
    let ledger = MemoryLedger::default();
    let failing = ledger.clone().with_faults(&plan);
    plan.add(Rule::new(Fault::After(FailureKind::TimedOut)).on(Operation::SetControl));
    let author = Author { by: "ada".to_owned(), reason: "unsubscribed".to_owned() };
    let asked = keys(&["ada"]);
    let first = exclude(ExcludeAction::Add, &asked, &author, &failing, &clock(), |_| {}).await;
    assert!(matches!(first, Err(ExcludeError::Port(_))), "{first:?}");
    plan.clear();
    done(&ledger, ExcludeAction::Add, &["ada"]).await;
    assert_eq!(state(&ledger).await.unwrap().addresses, 1);
    assert!(read(&ledger).await.unwrap().contains(address("ada").addr_spec()));
}

#[tokio::test(start_paused = true)]
async fn two_who_change_the_list_at_once_lose_nothing() {
    let ledger = MemoryLedger::default();
    let names: Vec<String> = (0..40).map(|number| format!("reader-{number}")).collect();
    let some = |from: usize| names[from..from + 20].iter().map(String::as_str).collect::<Vec<_>>();
    let (first, second) = (some(0), some(20));
    let (a, b) = futures_util::join!(
        done(&ledger, ExcludeAction::Add, &first),
        done(&ledger, ExcludeAction::Add, &second)
    );
    assert_eq!(a.changed + b.changed, 40);
    assert_eq!(state(&ledger).await.unwrap().addresses, 40);
}
