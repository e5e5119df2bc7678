//! Settings, mailbox, figures and shutdown over real HTTP.

use std::io::ErrorKind;
use std::time::Duration;

use super::support::{Client, SEND, START_NS, mail, start};
use serde_json::{Value, json};
use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};
use tokio::time::Instant;

#[tokio::test]
async fn every_setting_changes_while_the_sandbox_runs() {
    let (sandbox, clock) = start(json!({"quota": 1})).await;
    let mut client = Client::connect(&sandbox).await;
    let all = json!({
        "quota": 200.0, "bucket_seconds": 0.5, "strict": true, "daily_quota": 1000,
        "paused": true, "spend_limit": 500, "latency": "50ms..5s", "seed": 9,
        "faults": ["lost-answer,operation=SendEmail,ratio=0.5,after=2s"],
        "tenants": ["acme,paused,configuration-set/news,identity/x"],
    });
    let answer = client.change(all.clone()).await;
    assert_eq!((answer.status, answer.json()), (200, all.clone()));
    assert_eq!(client.get("/_sandbox/config").await.json(), all);
    let back = json!({"quota": 2, "paused": false, "latency": "0ms", "faults": [], "strict": false, "bucket_seconds": 1});
    client.change(back).await;
    clock.move_by_millis(1_000);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.send("a@x").await.expect("answer").status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn a_change_with_one_wrong_setting_changes_nothing() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    let before = client.get("/_sandbox/config").await.json();
    for (change, named) in [
        (
            json!({"quota": 99, "qouta": 1}),
            "unknown field `qouta`, expected one of `quota`, `bucket_seconds`",
        ),
        (json!({"quota": 99, "latency": "soon"}), "latency: must be a time such as `80ms`"),
        (
            json!({"quota": 99, "faults": ["reset,ratio=2"]}),
            "faults[0]: must be a fault whose `ratio`",
        ),
        (json!([]), "a change is a JSON object"),
    ] {
        let answer = client.change(change).await;
        assert_eq!(answer.status, 400);
        let message = answer.json()["message"].as_str().expect("message").to_owned();
        assert!(message.contains(named), "{message}");
    }
    assert_eq!(client.get("/_sandbox/config").await.json(), before);
}

#[tokio::test]
async fn the_mailbox_lists_mails_in_order_of_arrival_with_all_their_facts() {
    let (sandbox, clock) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    client.send("ada@example.com").await.expect("answer");
    clock.move_by_millis(1);
    let raw = json!({"Content": {"Raw": {"Data": "RnJvbTogYUB4ClRvOiBiQHgsIGNAeApTdWJqZWN0OiBSYXcKCkhpCg=="}}});
    client.call(SEND, &raw.to_string()).await.expect("answer");
    let mails = client.get("/_sandbox/mails").await.json();
    let mut first = mails[0].clone();
    let id = first["message_id"].take();
    assert!(id.as_str().is_some_and(|id| id.ends_with("-000000")), "{id}");
    assert_eq!(
        first,
        json!({
            "seq": 1, "arrived_ns": START_NS,
            "from": "news@example.org", "to": ["ada@example.com"], "cc": [], "bcc": [],
            "recipients": 1, "subject": "Hello", "kind": "simple", "status": "accepted",
            "tags": {"tidegate_campaign": "big", "tidegate_id": "m-1"}, "message_id": null,
        })
    );
    assert_eq!(mails[1]["arrived_ns"], START_NS + 1_000_000);
    assert_eq!((&mails[1]["subject"], &mails[1]["recipients"]), (&json!("Raw"), &json!(2)));
    assert_eq!(client.get("/_sandbox/mails?after=1&limit=5").await.json(), json!([mails[1]]));
    for (query, named) in [
        ("after=x", "after: invalid digit"),
        (
            "limit=0",
            "limit: 0; `after` must be a mail's number, or 0 for the oldest, and `limit` a",
        ),
        ("limit=10001", "from 1 to 10000"),
        ("from=1", "unknown field `from`, expected `after` or `limit`"),
    ] {
        let answer = client.get(&format!("/_sandbox/mails?{query}")).await;
        let message = answer.json()["message"].as_str().expect("message").to_owned();
        assert!(answer.status == 400 && message.contains(named), "{message}");
    }
    let mut whole = client.get("/_sandbox/mails/1").await.json();
    assert_eq!(whole["request"].take(), mail("ada@example.com"));
    assert_eq!(client.get("/_sandbox/mails/3").await.status, 404);
}

#[tokio::test]
async fn only_the_last_mails_are_kept_whole() {
    let (sandbox, _) = start(json!({"quota": 1_000})).await;
    let mut client = Client::connect(&sandbox).await;
    for _ in 0..201 {
        client.send("a@x").await.expect("answer");
    }
    assert_eq!(client.get("/_sandbox/mails").await.json().as_array().map(Vec::len), Some(201));
    assert_eq!(client.get("/_sandbox/stats").await.json()["forgotten"], 0);
    assert_eq!(client.get("/_sandbox/mails/1").await.json()["request"], Value::Null);
    assert!(client.get("/_sandbox/mails/2").await.json()["request"].is_object());
}

#[tokio::test]
async fn the_figures_tell_what_arrived_and_emptying_the_mailbox_resets_them() {
    let (sandbox, clock) = start(json!({"quota": 2})).await;
    let mut client = Client::connect(&sandbox).await;
    for _ in 0..4 {
        client.send("a@x").await.expect("answer");
    }
    clock.move_by_millis(1_000);
    client.send("a@x").await.expect("answer");
    let stats = client.get("/_sandbox/stats").await.json();
    assert_eq!(stats["arrived"], json!({"mails": 5, "recipients": 5}));
    assert_eq!(stats["accepted"], json!({"mails": 3, "recipients": 3}));
    assert_eq!(stats["refused"], json!({"TooManyRequestsException": 2}));
    assert_eq!(stats["campaigns"], json!({"big": {"mails": 3, "recipients": 3}}));
    assert_eq!(stats["duplicates"], 2);
    assert_eq!(stats["worst_sliding_second"], 2);
    assert_eq!(stats["worst_sliding_second_offered"], 4);
    assert_eq!(stats["first_arrival_ns"], START_NS);
    assert_eq!(stats["last_arrival_ns"], START_NS + 1_000_000_000);
    assert_eq!(stats["last_minute"].as_array().map(Vec::len), Some(61));
    assert_eq!(client.call("DELETE /_sandbox/mails", "").await.expect("answer").status, 204);
    let stats = client.get("/_sandbox/stats").await.json();
    assert_eq!(stats["arrived"], json!({"mails": 0, "recipients": 0}));
    assert_eq!((&stats["duplicates"], &stats["last_seq"]), (&json!(0), &json!(3)));
    assert_eq!(client.get("/_sandbox/mails").await.json(), json!([]));
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let (sandbox, _) = start(json!({})).await;
    let page = Client::connect(&sandbox).await.get("/").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(
        page.header("content-security-policy")
            .is_some_and(|csp| csp.starts_with("default-src 'none'"))
    );
    for outside in
        ["http://", "https://", "src=\"//", "innerHTML", "insertAdjacentHTML", "document.write"]
    {
        assert!(!page.body.contains(outside), "{outside}");
    }
}

#[tokio::test]
async fn hundreds_of_connections_are_served_at_once_and_kept_alive() {
    let (sandbox, _) = start(json!({"quota": 10_000, "latency": "1ms"})).await;
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(Client::connect(&sandbox).await);
    }
    let body = mail("a@x").to_string();
    for _ in 0..2 {
        for client in &mut clients {
            client.write(SEND, &body).await.expect("write");
        }
        for client in &mut clients {
            assert_eq!(client.read().await.expect("answer").status, 200);
        }
    }
    assert_eq!(sandbox.stats().accepted.mails, 600);
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_answers_in_flight_out_and_does_not_wait_for_those_that_never_come() {
    let (sandbox, _) = start(json!({"latency": "1s", "faults": ["timeout,to=never@x"]})).await;
    let (mut waiting, mut never) =
        (Client::connect(&sandbox).await, Client::connect(&sandbox).await);
    never.write(SEND, &mail("never@x").to_string()).await.expect("write");
    waiting.write(SEND, &mail("a@x").to_string()).await.expect("write");
    while sandbox.stats().arrived.mails < 2 {
        tokio::task::yield_now().await;
    }
    let (started, addr) = (Instant::now(), sandbox.addr());
    sandbox.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(waiting.read().await.expect("answer").status, 200);
    assert_eq!(never.read().await.expect_err("closed").kind(), ErrorKind::UnexpectedEof);
    let refused = tokio::net::TcpStream::connect(addr).await.expect_err("no longer listening");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let (sandbox, _) = start(json!({})).await;
    let error =
        SesSandbox::start(SesSandboxConfig::default(), sandbox.addr()).await.err().expect("taken");
    assert_eq!(error.to_string(), format!("cannot listen on {}", sandbox.addr()));
    assert_eq!(error.source.kind(), ErrorKind::AddrInUse);
}
