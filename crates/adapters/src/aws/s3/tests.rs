use tidegate_delivery::ports::FailureKind;

use super::*;
use crate::aws::tests::fake::{Fake, FakeAnswer};

fn deferral(fake: &Fake) -> S3DeferralStore {
    S3DeferralStore::new(&fake.s3(), Location::parse("s3://tides/deferral").unwrap())
}

fn name() -> ObjectName {
    "20261120T203607Z.big.2.1a2b.jsonl.gz".parse().unwrap()
}

const MISSING: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"#;
const NO_BUCKET: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"#;
const OUTRUN: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>PreconditionFailed</Code><Message>At least one of the pre-conditions you specified did not hold</Message></Error>"#;

#[tokio::test]
async fn an_object_goes_to_its_key() {
    let fake = Fake::once(200, "");
    deferral(&fake).put(&name(), vec![1, 2, 3]).await.unwrap();
    let seen = fake.seen().remove(0);
    let path = "/deferral/mail/20261120T203607Z.big.2.1a2b.jsonl.gz";
    assert!(seen.path.contains(path) && seen.path.contains("tides"), "{}", seen.path);
}

#[tokio::test]
async fn a_page_gives_names_and_what_is_none() {
    let page = r#"<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>true</IsTruncated>
        <Contents><Key>deferral/mail/20261120T203607Z.big.2.1a2b.jsonl.gz</Key><Size>99</Size></Contents>
        <Contents><Key>deferral/mail/notes.txt</Key><Size>1</Size></Contents></ListBucketResult>"#;
    let fake = Fake::once(200, page);
    let page = deferral(&fake).list(Some("20251120T203607Z.big.2.1a2b.jsonl.gz")).await.unwrap();
    assert_eq!(page.objects.len(), 1);
    assert_eq!((&page.objects[0].name, page.objects[0].bytes), (&name(), 99));
    assert_eq!(
        (page.strange, page.next.as_deref()),
        (vec!["notes.txt".to_owned()], Some("notes.txt"))
    );
    let asked = fake.seen().remove(0).path;
    assert!(
        asked.contains("prefix=deferral%2Fmail%2F")
            && asked.contains("start-after=deferral%2Fmail%2F2025"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_missing_progress_is_none_and_a_missing_bucket_an_error() {
    assert_eq!(deferral(&Fake::once(404, MISSING)).progress(&name()).await.unwrap(), None);
    let error = deferral(&Fake::once(404, NO_BUCKET)).progress(&name()).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    let error = deferral(&Fake::once(404, MISSING)).get(&name()).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    assert!(error.resource.starts_with("s3://tides/deferral/mail/2026"), "{}", error.resource);
}

#[tokio::test]
async fn a_write_of_ones_own_that_was_answered_late_is_success() {
    let ours = Progress { through: 10, by: "me".to_owned(), ..Progress::default() };
    for (stands, expected) in [(ours.clone(), true), (Progress::default(), false)] {
        let body = serde_json::to_string(&stands).unwrap();
        let fake = Fake::new([
            FakeAnswer::Http(412, &[], OUTRUN.to_owned()),
            FakeAnswer::Http(200, &[("etag", "\"7\"")], body),
        ]);
        let written = deferral(&fake)
            .set_progress(&name(), &ours, Some(&Version::new("\"6\"")))
            .await
            .unwrap();
        assert_eq!(written.is_some(), expected);
        let seen = fake.seen();
        assert_eq!(seen[0].header("if-match"), Some("\"6\""));
    }
    let fake = Fake::new([FakeAnswer::Http(200, &[("etag", "\"1\"")], String::new())]);
    let written = deferral(&fake).set_progress(&name(), &ours, None).await.unwrap();
    assert_eq!(written, Some(Version::new("\"1\"")));
    assert_eq!(fake.seen()[0].header("if-none-match"), Some("*"));
}
