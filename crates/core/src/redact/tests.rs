use crate::identity::Identity;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn masked(text: &str) -> String {
    AddressVisibility::Masked.within(text)
}

#[test]
fn an_address_is_masked_wherever_it_stands_and_nothing_beside_it() {
    for (text, expected) in [
        ("ada@example.com", "***@example.com"),
        (r#"{"to_phone":"+12065550199"}"#, r#"{"to_phone":"+***99"}"#),
        ("+4917012345678, +1206 or 1+12", "+***78, +1206 or 1+12"),
        ("Ada <ada@example.com>, bob@b.org.", "Ada <***@example.com>, ***@b.org."),
        (r#"{"to":"ada@example.com"}"#, r#"{"to":"***@example.com"}"#),
        (r#"{"to":["a@b.org","c@d.org"],"x":1}"#, r#"{"to":["***@b.org","***@d.org"],"x":1}"#),
        (r#"<a href="mailto:ada@example.com">"#, r#"<a href="mailto:***@example.com">"#),
        ("<a href='mailto:ada@example.com'>", "<a href='mailto:***@example.com'>"),
        ("<b>ada@example.com</b>", "<b>***@example.com</b>"),
        (r#""Hi\nada@example.com""#, r#""Hi\n***@example.com""#),
        (r#""\\nada@example.com""#, r#""\\***@example.com""#),
        (r#""\u003cada@example.com\u003e""#, r#""\u003c***@example.com\u003e""#),
        (r#""ada\u0040example.com""#, r#""***\u0040example.com""#),
        ("/u?to=ada%40example.com&n=1", "/u?to=***%40example.com&n=1"),
        ("?q=%22ada%2Bnews%40example.com%22", "?q=%22***%40example.com%22"),
        ("ada&#64;example.com", "***&#64;example.com"),
        ("one\nada@example.com\n\ttwo", "one\n***@example.com\n\ttwo"),
        ("Write.\u{a0}ada@example.com", "Write.\u{a0}***@example.com"),
        (r#""Write\u00a0ada@example.com""#, r#""Write\u00a0***@example.com""#),
        ("Write to:...ada@example.com", "Write to:...***@example.com"),
        ("o'brien+a.b-c_d@example.com", "***@example.com"),
        ("müller@example.com", "***@example.com"),
        (r#""ada lovelace"@example.com"#, "***@example.com"),
        (r#"{"to":"\"ada l\"@example.com"}"#, r#"{"to":"***@example.com"}"#),
        ("ada@[127.0.0.1] ada@localhost", "***@[127.0.0.1] ***@localhost"),
        ("a@b@c a@example.net%40example.com", "***@***@c ***@***%40example.com"),
    ] {
        assert_eq!(masked(text), expected, "{text}");
        assert_eq!(masked(expected), expected);
        assert_eq!(AddressVisibility::Shown.within(text), text);
    }
}

#[test]
fn what_is_no_address_stays() {
    for text in [
        "40% of 4711",
        "ada'@example.com",
        "<style>@media print{a{b:c}}</style>",
        r#"{"@context":"http://schema.org","@type":"EmailMessage"}"#,
        r#"["","@b"] {"to":"@example.com"}"#,
        "5 @ 3, ada@, @ada, ada @example",
        "\\ % & \" ' . @",
    ] {
        assert_eq!(masked(text), text);
    }
}

#[test]
fn a_masked_number_means_the_number_that_stood_there_and_no_other() {
    let original =
        r#"{"to_phone": "+12065550199", "text": "Call +4917012345678 or +491+a@b.example"}"#;
    let copy = masked(original);
    assert_eq!(unmasked(original, &copy).as_deref(), Some(original));
    let new = copy.replace("+***99", "+12065550123").replace("Call +***78 or ***@b.example", "Hi");
    assert!(unmasked(original, &new).is_some_and(|meant| meant == new), "{new}");
    for other in
        [("+***99", "+***98"), ("+***99", "+***"), ("+***99", "+***990"), ("Call +***78", "Call")]
    {
        assert_eq!(unmasked(original, &copy.replace(other.0, other.1)), None, "{other:?}");
    }
}

#[test]
fn a_plus_and_an_asterisk_before_an_address_are_no_masked_number() {
    let original = "+*ada@example.com";
    assert_eq!(masked(original), "+****@example.com");
    assert_eq!(unmasked(original, "+****@example.com").as_deref(), Some(original));
}

#[test]
fn an_identity_keeps_its_campaign() {
    let of = |id| masked(Identity::from_body_id("news", id).as_str());
    assert_eq!(of("ada@example.com"), "news/id/***@example.com");
    assert_eq!(of("ada%40example.com"), "news/id/***%2540example.com");
    assert_eq!(of("ada%2Bnews%40example.com"), "news/id/***%2540example.com");
    assert_eq!(of("11/ada@example.com"), "news/id/11%2F***@example.com");
    assert_eq!(of("11/4711"), "news/id/11%2F4711");
}

#[test]
fn only_the_domain_of_the_last_address_remains_of_one() {
    assert_eq!(AddressVisibility::Masked.one("a@example.net%40example.com"), "***@example.com");
}

/// What may stand right before an address, in texts, HTML, URLs and JSON.
const BEFORE: [&str; 25] = [
    " ", "\n", "\u{2003}", "<", ">", "\"", " '", "(", "[", "{", ",", ";", ":", "=", "/", "|", "*",
    "\\\"", ".\\n", ".\\r\\n", ".\\t", "\\u003c", "%3C", "%20", "mailto:",
];

fn address() -> impl Strategy<Value = (String, String)> {
    let local = "[A-Za-z0-9]([A-Za-z0-9._+-]{0,9}[A-Za-z0-9])?";
    let domain = "[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?(\\.[a-z]{2,5}){0,2}";
    (local, select(AT.to_vec()), domain)
        .prop_map(|(local, at, domain)| (local, format!("{at}{domain}")))
}

proptest! {
    #[test]
    fn of_any_text_with_addresses_only_these_are_masked(
        parts in vec(("[^@]{0,12}", select(BEFORE.to_vec()), address()), 0..5),
        end in "([^@0-9A-Za-z.-][^@]{0,12})?",
    ) {
        let (mut text, mut expected) = (String::new(), String::new());
        for (any, before, (local, domain)) in &parts {
            text.extend([" ", any, before, local, domain]);
            expected.extend([" ", any, before, MASK, domain]);
        }
        let (text, expected) = (text + &end, expected + &end);
        // The surroundings are to contain no further address.
        prop_assume!(ats(&text).len() == parts.len());
        prop_assert_eq!(masked(&text), expected.as_str(), "{}", text);
        prop_assert_eq!(masked(&expected), expected);
    }

    #[test]
    fn a_masked_copy_that_nobody_changed_means_the_original(
        parts in vec(("[^@*]{0,12}", select(BEFORE.to_vec()), address()), 0..5),
        end in "([^@*0-9A-Za-z.-][^@*]{0,12})?",
    ) {
        let part = |(any, before, (local, domain)): &(String, &str, (String, String))| {
            [" ", any.as_str(), *before, local.as_str(), domain.as_str()].concat()
        };
        let text = parts.iter().map(part).collect::<String>() + &end;
        prop_assume!(ats(&text).len() == parts.len());
        let meant = unmasked(&text, &masked(&text));
        prop_assert_eq!(meant.as_deref(), Some(text.as_str()));
        let more = format!("{} more", masked(&text));
        let expected = format!("{text} more");
        prop_assert_eq!(unmasked(&text, &more), Some(expected));
        let added = format!("{more} ***@elsewhere.example");
        prop_assert_eq!(unmasked(&text, &added), None);
    }

    #[test]
    fn whatever_was_masked_stays_as_it_is(text in "[abn\\\\u04%25&#;\"'.@ ]{0,24}") {
        let once = masked(&text);
        prop_assert_eq!(masked(&once), once.as_str(), "{}", text);
    }
}
