use super::*;
use crate::aws::tests::fake::{Fake, FakeAnswer};

fn store(fake: &Fake) -> S3Store {
    S3Store::new(&fake.s3(), Location::parse("s3://tides/store").unwrap())
}

const KEY: &str = "timed/20261120T203607Z.big.1a2b.2.jsonl.gz";

const MISSING: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"#;
const NO_BUCKET: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"#;
const OUTRUN: &str = r#"<?xml version="1.0" encoding="UTF-8"?><Error><Code>PreconditionFailed</Code><Message>At least one of the pre-conditions you specified did not hold</Message></Error>"#;

#[tokio::test]
async fn an_object_goes_to_its_key() {
    let fake = Fake::once(200, "");
    store(&fake).put(KEY, vec![1, 2, 3]).await.unwrap();
    let path = fake.seen().remove(0).path;
    assert!(path.contains(&format!("/store/{KEY}")) && path.contains("tides"), "{path}");
}

#[tokio::test]
async fn a_page_gives_keys_without_the_stores_prefix() {
    let page = r#"<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>true</IsTruncated>
        <Contents><Key>store/timed/a</Key><Size>99</Size></Contents>
        <Contents><Key>store/timed/b</Key><Size>1</Size></Contents></ListBucketResult>"#;
    let fake = Fake::once(200, page);
    let page = store(&fake).list("timed", Some("timed/2025")).await.unwrap();
    assert_eq!(page.objects[0], StoredObject { key: "timed/a".to_owned(), bytes: 99 });
    assert_eq!((page.objects.len(), page.next.as_deref()), (2, Some("timed/b")));
    let asked = fake.seen().remove(0).path;
    assert!(
        asked.contains("prefix=store%2Ftimed%2F")
            && asked.contains("start-after=store%2Ftimed%2F2025"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_missing_object_is_none_and_a_missing_bucket_an_error() {
    assert_eq!(store(&Fake::once(404, MISSING)).get(KEY).await.unwrap(), None);
    let error = store(&Fake::once(404, NO_BUCKET)).get(KEY).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    assert!(error.resource.starts_with("s3://tides/store/timed/2026"), "{}", error.resource);
}

#[tokio::test]
async fn no_more_of_an_object_is_asked_for_than_is_wanted() {
    let fake = Fake::new([FakeAnswer::Http(206, &[("etag", "\"1\"")], "abc".to_owned())]);
    assert_eq!(store(&fake).get_most(KEY, 3).await.unwrap().unwrap(), b"abc");
    assert_eq!(fake.seen()[0].header("range"), Some("bytes=0-2"));
    assert_eq!(store(&Fake::once(404, MISSING)).get_most(KEY, 3).await.unwrap(), None);
    let empty = "<Error><Code>InvalidRange</Code><Message>not satisfiable</Message></Error>";
    let empty = store(&Fake::once(416, empty)).get_most(KEY, 3).await.unwrap();
    assert_eq!(empty, Some(Vec::new()));
}

#[tokio::test]
async fn a_write_of_ones_own_that_was_answered_late_is_success() {
    for (stands, expected) in [("ours", true), ("another's", false)] {
        let fake = Fake::new([
            FakeAnswer::Http(412, &[], OUTRUN.to_owned()),
            FakeAnswer::Http(200, &[("etag", "\"7\"")], stands.to_owned()),
        ]);
        let version = Version::new("\"6\"");
        let written = store(&fake).replace(KEY, b"ours".to_vec(), Some(&version)).await.unwrap();
        assert_eq!(written.is_some(), expected);
        assert_eq!(fake.seen()[0].header("if-match"), Some("\"6\""));
    }
    let fake = Fake::new([FakeAnswer::Http(200, &[("etag", "\"1\"")], String::new())]);
    let written = store(&fake).replace(KEY, Vec::new(), None).await.unwrap();
    assert_eq!(written, Some(Version::new("\"1\"")));
    assert_eq!(fake.seen()[0].header("if-none-match"), Some("*"));
}
