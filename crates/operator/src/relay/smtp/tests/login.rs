use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::time::Instant;

use super::super::login::{FailedLogins, MOST_ADDRESSES, MOST_WAIT, SmtpUsers};

fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(number).into()
}

#[test]
fn only_the_password_of_the_user_is_right() {
    let passwords = [("ada", "secret"), ("bob", "")];
    let owned = passwords.map(|(user, password)| (user.to_owned(), password.to_owned()));
    let users = SmtpUsers::new(BTreeMap::from(owned));
    let is_right = |user: &str, password: &str| users.admits(user, password);
    assert!(is_right("ada", "secret") && is_right("bob", ""));
    for (user, password) in
        [("ada", ""), ("ada", "Secret"), ("bob", "secret"), ("Ada", "secret"), ("", "")]
    {
        assert!(!is_right(user, password), "{user} {password}");
    }
}

#[test]
fn failures_are_forgotten_in_time_and_never_too_many_to_remember() {
    let (mut logins, now) = (FailedLogins::default(), Instant::now());
    for _ in 0..5 {
        logins.checked(address(0), false, now);
    }
    assert_eq!(logins.wait(address(0), now), Some(Duration::from_secs(16)));
    let later = now + Duration::from_mins(16);
    assert_eq!(logins.wait(address(0), later), Some(Duration::ZERO));
    logins.checked(address(0), false, later);
    assert_eq!(logins.wait(address(0), later), Some(Duration::from_secs(1)), "anew");

    let mut logins = FailedLogins::default();
    let most = u32::try_from(MOST_ADDRESSES).unwrap();
    for number in 0..most + 10 {
        logins.checked(address(number), false, now + Duration::from_millis(number.into()));
    }
    assert_eq!(logins.len(), MOST_ADDRESSES);
    let last = now + Duration::from_millis((most + 9).into());
    assert_eq!(logins.wait(address(9), last), Some(Duration::ZERO), "another one is forgotten");
    assert!(logins.wait(address(most + 9), last).unwrap() > Duration::ZERO);
}

proptest! {
    #[test]
    fn wrong_logins_of_one_address_are_checked_ever_less_often(
        steps in vec((0..3_u32, 0..15_000_u64), 1..20),
    ) {
        let mut logins = FailedLogins::default();
        let mut now = Instant::now();
        // Per address: the failures, and when the last was checked.
        let mut known: BTreeMap<u32, (u32, Instant)> = BTreeMap::new();
        for (number, step) in steps {
            now += Duration::from_millis(step);
            let Some(wait) = logins.wait(address(number), now) else {
                prop_assert!(false, "one client that waits for its answers is never turned away");
                break;
            };
            prop_assert!(wait <= MOST_WAIT);
            now += wait;
            logins.checked(address(number), false, now);
            let (failures, last) = known.entry(number).or_insert((0, now));
            let delay = if *failures == 0 { 0 } else { (1 << (*failures - 1).min(5)).min(30) };
            prop_assert!(now - *last >= Duration::from_secs(delay));
            (*failures, *last) = (*failures + 1, now);
        }
    }
}
