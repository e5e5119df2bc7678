use proptest::prelude::*;

use super::*;
use crate::identity::Identity;
use crate::timestamp::Window;

fn envelope(id: &str) -> Envelope {
    Envelope::fresh("big", Identity::from_body_id("big", id), EpochMillis::new(7))
}

proptest! {
    #[test]
    fn an_object_reads_back_what_was_packed(
        bodies in proptest::collection::vec((".{0,80}", "[a-z]{1,9}", any::<u32>()), 0..20),
    ) {
        let mails: Vec<(StoredMail, Envelope)> = bodies
            .into_iter()
            .map(|(body, id, pass)| {
                let envelope = Envelope { pass, ..envelope(&id) };
                (StoredMail::of(body, &envelope, envelope.first_attempt_at), envelope)
            })
            .collect();
        let lines: Vec<StoredMail> = mails.iter().map(|(line, _)| line.clone()).collect();
        prop_assert_eq!(unpack(&pack(&lines).unwrap()).unwrap(), mails);
    }

    #[test]
    fn no_bytes_are_too_strange_to_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(unpack(&bytes).is_err());
    }

    #[test]
    fn names_read_back_what_they_write_and_sort_by_time(
        windows in (0_u64..4_000_000_000, 0_u64..4_000_000_000),
        campaigns in ("[A-Za-z0-9_-]{1,64}", "[A-Za-z0-9_-]{1,64}"),
        mails in any::<u64>(),
    ) {
        let name = |second, campaign: &str| ObjectName {
            waits: Waits::Timed,
            window: Window::from_epoch_second(second),
            campaign: campaign.to_owned(),
            mails,
            token: "1a2b3c".to_owned(),
        };
        let (a, b) = (name(windows.0, &campaigns.0), name(windows.1, &campaigns.1));
        prop_assume!(campaigns.0 != "express");
        prop_assert_eq!(a.to_string().parse(), Ok(a.clone()));
        if windows.0 != windows.1 {
            prop_assert_eq!(a.to_string() < b.to_string(), a < b);
        }
    }

    #[test]
    fn progress_knows_the_lines_it_was_told(lines in proptest::collection::btree_set(0_usize..60, 0..60)) {
        let mut progress = Progress::default();
        let mut shuffled: Vec<usize> = lines.iter().copied().collect();
        shuffled.sort_by_key(|line| line * 37 % 61);
        for line in &shuffled {
            progress.note(*line);
        }
        for line in &shuffled {
            progress.note(*line);
        }
        prop_assert_eq!(progress.count(), lines.len());
        prop_assert!((0..61).all(|line| progress.has(line) == lines.contains(&line)));
        prop_assert!(progress.beyond.iter().all(|line| *line > progress.through));
    }
}

#[test]
fn names_that_are_none_are_refused() {
    for text in [
        "",
        "20261120T203607Z.big.1a.250.jsonl.gz",
        "mail/20261120T203607Z.big.1a.250.jsonl.gz",
        "timed/20261120T203607Z.big.1a.250.jsonl",
        "timed/20261120T203607Z.big.250.jsonl.gz",
        "timed/20261320T203607Z.big.1a.250.jsonl.gz",
        "timed/20261120T203607Z.express.1a.250.jsonl.gz",
        "timed/20261120T203607Z.big.1a.+250.jsonl.gz",
        "timed/20261120T203607Z.big.1a.x.250.jsonl.gz",
        "timed/20261120T203607Z.big.1/a.250.jsonl.gz",
    ] {
        assert!(text.parse::<ObjectName>().is_err(), "{text}");
    }
}

#[test]
fn an_object_that_is_cut_off_gives_nothing() {
    let lines: Vec<StoredMail> = (0..50)
        .map(|n| StoredMail::of(format!("body {n}"), &envelope(&n.to_string()), None))
        .collect();
    let whole = pack(&lines).unwrap();
    for end in [0, 1, whole.len() / 2, whole.len() - 1] {
        assert!(matches!(unpack(&whole[..end]), Err(Unreadable::Packed(_))), "{end}");
    }
}

#[test]
fn a_line_without_an_identity_is_named() {
    let mut line = StoredMail::of("{}".to_owned(), &envelope("7"), None);
    line.attributes.remove("identity");
    let whole = pack(&[StoredMail::of("{}".to_owned(), &envelope("6"), None), line]).unwrap();
    let error = unpack(&whole).unwrap_err();
    assert_eq!(error.to_string(), "line 2 has no envelope");
}

#[test]
fn locations_are_a_bucket_and_a_prefix() {
    let long = format!("s3://tides/{}", "x".repeat(257));
    for text in [
        "",
        "s3://",
        "s3://ab",
        "s3://Tides",
        "s3://tides/",
        "s3://tides//a",
        "s3://tides/a/",
        "s3://tides/../a",
        "s3://-tides",
        "s3://tides/a b",
        "tides/deferral",
        &long,
    ] {
        assert_eq!(Location::parse(text), None, "{text}");
    }
    let bare = Location::parse("s3://my.tides-1").unwrap();
    assert_eq!(
        (bare.key("mail/x"), bare.to_string()),
        ("mail/x".to_owned(), "s3://my.tides-1".to_owned())
    );
    let deep = Location::parse("s3://tides/a/b").unwrap();
    assert_eq!(
        (deep.key("mail/x"), deep.to_string()),
        ("a/b/mail/x".to_owned(), "s3://tides/a/b".to_owned())
    );
}

#[test]
fn nobody_else_is_at_it_once_the_time_is_over() {
    let at = EpochMillis::new;
    let taken = Progress { by: "ada".to_owned(), until: Some(at(100)), ..Progress::default() };
    assert!(taken.is_taken("grace", at(99)));
    assert!(!taken.is_taken("ada", at(99)) && !taken.is_taken("grace", at(100)));
}

#[test]
fn a_row_that_its_template_refuses_is_done_and_noted() {
    let mut progress = Progress::default();
    progress.refuse(0, 7);
    assert!(progress.has(0) && !progress.has(1));
    assert!(progress.refused.contains(7) && progress.refused.count() == 1);
}
