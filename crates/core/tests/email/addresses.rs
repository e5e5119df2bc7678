//! Tests of recipients' addresses and of allowed senders.

use proptest::prelude::*;
use tidegate_core::email::{Address, AllowedSenders, EmailErrorKind};

use super::{long_with, parse, refused};

#[test]
fn what_nobody_sees_in_an_address_is_named_with_its_place_and_the_address_is_not() {
    for (address, expected) in [
        ("ada@example.com\u{200b}", "invisible character U+200B, which stands at the end"),
        ("\u{2060} ada@example.com", "U+2060, which stands at the beginning"),
        ("ada\u{ad}@example.com", "U+00AD, which stands as character 4"),
        ("ada@exam\u{a0}ple.com", "U+00A0, which stands as character 9"),
        ("\u{202a}ada@example.com\u{202c}", "U+202A, which stands at the beginning"),
        ("ada@example.com\u{2069}", "U+2069, which stands at the end"),
        ("ada@\u{feff}example.com", "U+FEFF, which stands as character 5"),
        ("ad\u{3000}a@example.com", "U+3000, which stands as character 3"),
        ("Ada <ada@example.com\u{200d}>", "U+200D, which stands at the end"),
        ("ada@example.com\u{fe0f}", "U+FE0F, which stands at the end"),
        ("ada\u{e0061}@example.com", "U+E0061, which stands as character 4"),
        ("ada\t@example.com", "U+0009, which stands as character 4"),
        (
            "ada\u{2019}s@example.com",
            "ASCII local part (SES does not take others), and has U+2019, which stands as character 4",
        ),
        ("ada..l@example.com", "two dots in a row before the @"),
        (".ada@example.com", "or one at its beginning or end: an address that has them"),
        ("ada.@example.com", "is written in quotes, as \"first..last\"@example.com"),
    ] {
        let error = Address::parse(address).unwrap_err().to_string();
        assert!(error.contains(expected), "{address:?}: {error}");
        assert!(!error.contains("ada"), "{error}");
    }
    // A name may have them: an emoji of several persons is joined by some.
    let family = "\u{1f468}\u{200d}\u{1f469} Ada <ada@example.com>";
    assert_eq!(Address::parse(family).unwrap().addr_spec(), "ada@example.com");
    assert!(Address::parse("\"ada..l\"@example.com").is_ok());
}

#[test]
fn a_recipient_that_ses_would_refuse_is_named_with_its_index() {
    for (address, expected) in [
        ("ada", "must be one address like ada@example.com"),
        ("a@b@c.org", "must be one address"),
        ("a b@c.org", "must be one address"),
        ("a@b.org, c@d.org", "must be one address"),
        ("a@localhost", "must be one address"),
        ("a@[127.0.0.1]", "must be one address"),
        ("a@-b.org", "must be one address"),
        ("a@b_c.org", "must be one address"),
        ("a@b..org", "must be one address"),
        ("a@b.org.", "must be one address"),
        ("@b.org", "must be one address"),
        ("", "must be an address"),
        ("  ", "must be an address"),
        ("ädä@example.com", "ASCII local part"),
        ("ada@bücher.example", "punycode"),
        ("ada@example.com\\r\\nBcc: eve@example.com", "U+000D, which stands as character 16"),
        ("Ada\\u0000 <ada@example.com>", "U+0000, which stands as character 4"),
        ("Lovelace, Ada <ada@example.com>", "double quotes"),
        ("eve@example.com <ada@example.com>", "double quotes"),
        ("\\\"Ada <ada@example.com>", "double quotes"),
        ("\\\"A\\\" B <ada@example.com>", "double quotes"),
        ("Ada <ada@example.com", "must be one address"),
        ("Ada <>", "must be one address"),
    ] {
        let list = format!(r#"["a@b.org", "{address}"]"#);
        refused("to", &list, "to[1]", expected);
    }
    let local = |n: usize| format!("\"{}@example.com\"", "a".repeat(n));
    refused("cc", &local(65), "cc", "at most 64");
    assert!(parse(&long_with("cc", &local(64))).is_ok());
    let named = |n: usize| format!("\"{} <a@b.org>\"", "n".repeat(n));
    refused("reply_to", &named(311), "reply_to", "at most 320");
    assert!(parse(&long_with("reply_to", &named(310))).is_ok());
    refused("from", "[\"a@b.org\"]", "from", "must be a string, not a list");
    refused("to", "{}", "to", "a list of strings, not an object");
    refused("to", "[7]", "to[0]", "must be a string, not 7");
}

#[test]
fn display_names_are_taken_quoted_bare_and_in_any_script() {
    for (address, name, header) in [
        ("Ada <a@b.org>", Some("Ada"), "Ada <a@b.org>"),
        ("<a@b.org>", None, "a@b.org"),
        (" a@b.org ", None, "a@b.org"),
        ("Dr. Ada <a@b.org>", Some("Dr. Ada"), "\"Dr. Ada\" <a@b.org>"),
        (r#"\"A \\\"B\\\" C\" <a@b.org>"#, Some("A \"B\" C"), r#""A \"B\" C" <a@b.org>"#),
        ("Zoë <a@b.org>", Some("Zoë"), "=?UTF-8?B?Wm/Dqw==?= <a@b.org>"),
        (
            "=?UTF-8?B?Wm/Dqw==?= <a@b.org>",
            Some("=?UTF-8?B?Wm/Dqw==?="),
            "=?UTF-8?B?Wm/Dqw==?= <a@b.org>",
        ),
        ("o'hara+news@xn--bcher-kva.example", None, "o'hara+news@xn--bcher-kva.example"),
    ] {
        let email = parse(&long_with("to", &format!("\"{address}\""))).unwrap();
        assert_eq!(email.to[0].name(), name, "{address}");
        assert_eq!(email.to[0].header_value(), header, "{address}");
    }
    let email = parse(&long_with("to", &format!("\"{} <a@b.org>\"", "ж".repeat(60)))).unwrap();
    let header = email.to[0].header_value();
    assert!(header.is_ascii() && header.split(' ').all(|word| word.len() <= 75), "{header}");
}

#[test]
fn only_allowed_senders_may_send() {
    let from = |address: &str| parse(&long_with("from", &format!("\"{address}\""))).unwrap();
    let senders: AllowedSenders = "news@example.org, @example.net,example.com".parse().unwrap();
    for allowed in ["news@example.org", "News <NEWS@Example.ORG>", "a@example.net", "a@EXAMPLE.com"]
    {
        assert!(senders.admit(from(allowed)).is_ok(), "{allowed}");
    }
    for refused in ["other@example.org", "a@mail.example.net", "a@notexample.com", "a@b.org"] {
        let error = senders.admit(from(refused)).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::SenderNotAllowed, "from"));
        assert!(error.to_string().contains("TIDEGATE_ALLOWED_SENDERS"), "{error}");
        assert!(error.to_string().contains(refused) && !error.redacted().contains(refused));
    }
    let everyone: AllowedSenders = "*".parse().unwrap();
    assert_eq!(everyone, AllowedSenders::everyone());
    assert_eq!(everyone.admit(from("A@b.Org")), Ok(from("A@b.Org")));
}

/// The same list is in an IAM condition that compares by case; a wrong case gives a 403 that holds all
/// sending.
#[test]
fn a_sender_leaves_as_the_list_spells_it() {
    let list = "News@Example.org,*@Example.net,@EXAMPLE.com,example.IO,a@example.io, b@EXAMPLE.io";
    let senders: AllowedSenders = list.parse().unwrap();
    for (written, sent) in [
        ("news@example.org", "News@Example.org"),
        ("News <NEWS@EXAMPLE.ORG>", "News <News@Example.org>"),
        ("Ada@example.NET", "Ada@Example.net"),
        ("Ada@Example.net", "Ada@Example.net"),
        ("ada@example.com", "ada@EXAMPLE.com"),
        ("Zoë <c@example.io>", "=?UTF-8?B?Wm/Dqw==?= <c@example.IO>"),
        ("A@example.io", "a@example.io"),
        ("A@example.IO", "A@example.IO"),
    ] {
        let parsed = || parse(&long_with("from", &format!("\"{written}\""))).unwrap();
        let email = senders.admit(parsed()).unwrap();
        assert_eq!(email.from.header_value(), sent, "{written}");
        assert_eq!(email.to, parsed().to);
    }
}

/// Compares like IAM's `StringLike`. A bare domain, which IAM does not know, is treated as `*@domain`.
fn string_like(list: &str, address: &str) -> bool {
    list.split(',').any(|entry| match entry.strip_prefix('*') {
        Some(end) => address.ends_with(end),
        None => entry == address,
    })
}

proptest! {
    #[test]
    fn whom_the_poller_lets_send_iam_lets_send(
        list in prop::collection::vec("([aAbB]|\\*)@[xX]\\.[oO]rg", 1..4),
        sender in "[aAbB]@[xX]\\.[oO]rg",
    ) {
        let list = list.join(",");
        let senders: AllowedSenders = list.parse().unwrap();
        if let Some(spelt) = senders.spelling(&sender) {
            prop_assert!(string_like(&list, &spelt), "{list}: {sender} as {spelt}");
            prop_assert!(spelt.eq_ignore_ascii_case(&sender));
        } else {
            prop_assert!(!string_like(&list.to_lowercase(), &sender.to_lowercase()));
        }
    }
}

#[test]
fn a_list_of_senders_that_says_nothing_clear_is_refused_with_its_value() {
    for list in [
        "",
        "a@b.org,",
        "example",
        "*.example.org",
        "**@example.org",
        "*@example",
        "news-*@example.org",
        "Ada <a@b.org>",
        "@",
        "a@@b.org",
        "bücher.example",
        "a@b.org;c@d.org",
        "https://example.org",
    ] {
        let error = list.parse::<AllowedSenders>().unwrap_err().to_string();
        assert!(error.contains("comma list of addresses"), "{list}: {error}");
    }
    let error = "a@b.org, nobody".parse::<AllowedSenders>().unwrap_err().to_string();
    assert!(error.starts_with("\"nobody\" is not allowed"), "{error}");
}
