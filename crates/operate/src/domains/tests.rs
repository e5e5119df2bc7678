use std::cell::RefCell;

use super::*;
use crate::page::Page;

fn table() -> ProviderTable {
    ProviderTable::parse(
        "own.txt",
        "# A comment\ngmail: gmail.com googlemail.com # and another\ngmail mx: google.com\n\nweb: web.example",
    )
    .unwrap()
}

fn counts(text: &str) -> DomainCounts {
    let mut counts = DomainCounts::default();
    counts.read("list", None, text.as_bytes()).unwrap();
    counts
}

#[test]
fn the_shipped_table_reads_and_each_of_its_groups_is_a_key() {
    let table = ProviderTable::parse("providers.txt", SHIPPED).unwrap();
    assert_eq!(ProviderTable::shipped(), table);
    for provider in table.iter() {
        let key: LimitKey = provider.key().parse().unwrap();
        assert_eq!(key.names(), provider.domains(), "{}", provider.name());
    }
    for (domain, name) in
        [("GoogleMail.com", "gmail"), ("hotmail.co.uk", "microsoft"), ("web.de", "gmx")]
    {
        assert_eq!(table.of_domain(domain).unwrap().name(), name);
    }
    for (host, name) in [
        ("aspmx.l.google.com", Some("gmail")),
        ("example-org.mail.protection.outlook.com.", Some("microsoft")),
        ("MTA5.am0.yahoodns.net", Some("yahoo")),
        ("mx.evilgoogle.com", None),
        ("google.com.example", None),
    ] {
        assert_eq!(table.of_host(host).map(Provider::name), name, "{host}");
    }
}

#[test]
fn a_table_with_a_fault_names_its_line() {
    for (text, said) in [
        ("gmail gmail.com", "own.txt:1: line: must be such as \"gmail: gmail.com"),
        ("\ngmail ns: gmail.com", "own.txt:2: line: must be such as"),
        ("GMail: gmail.com", "own.txt:1: provider: must have a name of lower-case letters"),
        (": gmail.com", "own.txt:1: provider: must have a name"),
        (
            "gmail: gmail",
            "own.txt:1: domain: must be a domain such as gmail.com in ASCII, not \"gmail\"",
        ),
        ("a: x.example\nb: y.example x.example", "own.txt:2: domain: must stand once in the table"),
        ("a: x.example+y.example", "own.txt:1: domain: must be a domain"),
    ] {
        let fault = ProviderTable::parse("own.txt", text).unwrap_err().to_string();
        assert!(fault.starts_with(said), "{text}: {fault}");
    }
}

#[test]
fn lists_of_every_form_are_counted() {
    for (text, expected) in [
        ("to,name\nada@gmail.com,Ada\n\"Bob <b@GMAIL.com>\",Bob\n", 2),
        ("\u{feff}name;E-Mail;email\nAda;x;ada@gmail.com\n", 1),
        ("ada@gmail.com\n\n# gone\nb@gmail.com,2026\n", 2),
        ("address\nada@gmail.com\n", 1),
        ("gmail.com\ngmail.com\n", 2),
        ("{\"to\": [\"a@gmail.com\", \"b@gmail.com\"]}\n{\"to\": \"c@gmail.com\"}\n", 3),
    ] {
        assert_eq!(
            (counts(text).get("gmail.com"), counts(text).recipients()),
            (expected, expected)
        );
    }
    let mut asked = DomainCounts::default();
    asked.read("list", Some("Mail"), "to,mail\na@x.example,b@gmail.com\n".as_bytes()).unwrap();
    assert_eq!((asked.get("gmail.com"), asked.recipients()), (1, 1));
}

#[test]
fn a_row_without_an_address_is_a_fault_with_its_line() {
    let read = |column, text: &str| {
        DomainCounts::default().read("list", column, text.as_bytes()).unwrap_err().to_string()
    };
    assert!(
        read(None, "a@gmail.com\nada\n").starts_with("list:2: address: must be an address like")
    );
    assert!(read(None, "to,n\na@x@y,1\n").starts_with("list:2: address: must be one address like"));
    assert!(read(None, "to,n\n,1\n").starts_with("list:2: address: must be an address like"));
    let fault = read(Some("mail"), "to,n\na@gmail.com,1\n");
    assert_eq!(fault, "list:1: column: must be one of to, n, not \"mail\"");
}

/// Knows the hosts of two domains.
struct Hosts(RefCell<Vec<String>>);

impl MailExchangers for Hosts {
    async fn of_domain(&self, domain: &str) -> Result<Vec<String>, LookupError> {
        self.0.borrow_mut().push(domain.to_owned());
        match domain {
            "hosted.example" => Ok(vec!["aspmx.l.google.com".to_owned(), "alt.example".to_owned()]),
            "own.example" => Ok(vec!["mx.own.example".to_owned()]),
            _ => Err(LookupError::NoDomain),
        }
    }
}

#[tokio::test]
async fn only_domains_that_the_table_does_not_know_are_looked_up() {
    let list = "gmail.com\nhosted.example\nhosted.example\nown.example\ngone.example\n";
    let hosts = Hosts(RefCell::default());
    let mut found = Found::new();
    let take = |domain: &str, answer| drop(found.insert(domain.to_owned(), answer));
    look_up(&counts(list), &table(), &hosts, take).await;
    assert_eq!(hosts.0.take(), ["hosted.example", "gone.example", "own.example"]);
    let report = DomainsReport::of(&counts(list), &table(), Some(&found));
    let [gmail] = &*report.providers else { panic!("{report:?}") };
    assert_eq!((gmail.recipients, &*gmail.key), (3, "gmail.com+hosted.example"));
    let page = Page::of(&report).plain();
    for said in [
        "5 recipients, 4 domains",
        "gmail              3  60.0 %  hosted.example 2, gmail.com 1",
        "gone.example           1  there is no such domain",
        "own.example            1  mx.own.example",
        "tidegate limit set gmail.com+hosted.example RATE --adaptive --reason '…'",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
fn a_domain_that_was_not_looked_up_in_time_says_so() {
    let report = DomainsReport::of(&counts("own.example\n"), &table(), Some(&Found::new()));
    assert_eq!(report.others[0].fault.as_deref(), Some("not looked up in the time given"));
    let report = DomainsReport::of(&counts("own.example\n"), &table(), None);
    assert_eq!((&report.others[0].fault, &report.others[0].mx), (&None, &None));
}

#[test]
fn a_key_has_the_providers_own_domains_first_and_at_most_a_hundred() {
    let hosted: Vec<String> = (100..250).map(|n| format!("d{n}.example")).collect();
    let list = format!("googlemail.com\n{}\n", hosted.join("\n"));
    let hosts = || Ok(vec!["aspmx.l.google.com".to_owned()]);
    let found: Found = hosted.iter().map(|domain| (domain.clone(), hosts())).collect();
    let report = DomainsReport::of(&counts(&list), &table(), Some(&found));
    let [gmail] = &*report.providers else { panic!("{report:?}") };
    let key: LimitKey = gmail.key.parse().unwrap();
    assert_eq!((key.name(), key.names().len(), gmail.not_in_key), ("googlemail.com", 100, 51));
}
