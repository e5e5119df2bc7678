//! Missing or unreachable parts: the error is clear, and nothing is lost.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::Value;

use crate::site::{BIG, SMALL, Site, mail};

/// The error events of a log.
fn errors(log: &str) -> Vec<Value> {
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["level"] == "ERROR").collect()
}

#[tokio::test]
async fn a_missing_queue_is_told_by_name_and_the_other_campaigns_go_on() {
    let mut site = Site::start(|_| {}).await;
    let missing = site.queue(SMALL);
    let sqs = aws_sdk_sqs::Client::new(&site.sdk);
    sqs.delete_queue().queue_url(missing.as_str()).send().await.unwrap();
    site.put(BIG, &["ada", "grace", "alan"].map(|name| mail(&format!("{name}@example.com")))).await;
    let mut said = Vec::new();
    for _ in 0..5 {
        let answer = site.poll("{}").await;
        assert_eq!(answer.payload["end"], "served", "{answer:?}");
        said.extend(errors(&answer.log));
    }
    site.wait_for(3, 5).await;
    let told = said.iter().find(|event| event["campaign"] == "small").unwrap();
    let error = told["error"].as_str().unwrap();
    assert!(error.contains(missing.as_str()) && error.contains("does not exist"), "{error}");
}

#[tokio::test]
async fn an_sqs_that_does_not_answer_or_a_ledger_that_is_gone_loses_nothing() {
    // It takes connections, and never says a word.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut site =
        Site::start(|setup| setup.parameters.push(("SqsEndpointUrl".to_owned(), url))).await;
    site.put(BIG, &["ada", "grace", "alan"].map(|name| mail(&format!("{name}@example.com")))).await;
    let answer = site.poll("{}").await;
    assert_eq!(answer.payload["end"], "served", "{answer:?}");
    let said = errors(&answer.log);
    assert!(said.iter().any(|event| event["message"] == "not fed"), "{answer:?}");

    let dynamodb = aws_sdk_dynamodb::Client::new(&site.sdk);
    let table = site.aws.stack.output("LedgerTable").unwrap();
    dynamodb.delete_table().table_name(table).send().await.unwrap();
    let answer = site.poll("{}").await;
    assert!(answer.failed, "{answer:?}");
    assert_eq!(answer.payload["errorType"], "LedgerUnreachable", "{answer:?}");
    let why = answer.payload["errorMessage"].as_str().unwrap();
    assert!(why.contains("is not served: the ledger is out of reach"), "{why}");
    let mut events = answer.log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let metrics = events.find(|event| event["Function"] == "poller").unwrap();
    assert!(metrics["LedgerFailed"].as_f64().unwrap() >= 1.0, "{metrics}");

    assert_eq!(site.depth(BIG).await.visible, 3);
    assert!(site.look().await.is_empty());
}
