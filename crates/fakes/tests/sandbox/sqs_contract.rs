//! The contract of the `Queues` port, on the SDK's client and the sandbox.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::builders::SendMessageBatchRequestEntryBuilder;
use aws_sdk_sqs::types::{
    MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
    SendMessageBatchResultEntry,
};
use tidegate_fakes::sandbox::sqs::{SqsSandbox, SqsSandboxConfig};
use tidegate_tests::contract::directory::directory_contract;
use tidegate_tests::contract::queues::queues_contract;
use tidegate_tests::contract::sqs::SqsRoom;
use tidegate_tests::local::sdk_config;

async fn started(create: bool) -> (SqsSandbox, Client) {
    let address = "127.0.0.1:0".parse().unwrap();
    let sandbox =
        SqsSandbox::start(SqsSandboxConfig { create, ..SqsSandboxConfig::default() }, address)
            .await
            .unwrap();
    let client = Client::new(&sdk_config(sandbox.url()).await);
    (sandbox, client)
}

#[tokio::test]
async fn queues_and_their_directory_on_the_sandbox_keep_the_contract() {
    let (sandbox, client) = started(false).await;
    let room = SqsRoom::new(client);
    queues_contract(&room).await;
    directory_contract(&room).await;
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_stack_of_elsewhere_finds_its_queues_made_at_first_use_and_its_calls_counted() {
    let (sandbox, client) = started(true).await;
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/spring";
    let sent = client.send_message().queue_url(url).message_body("hello").send().await.unwrap();
    assert_eq!(sent.md5_of_message_body(), Some("5d41402abc4b2a76b9719d911017c592"));
    assert_eq!(sent.md5_of_message_attributes(), None);
    let elsewhere = "http://127.0.0.1:4566/000000000000/spring";
    let received = client.receive_message().queue_url(elsewhere).send().await.unwrap();
    let message = &received.messages()[0];
    assert_eq!((message.body(), message.message_id()), (Some("hello"), sent.message_id()));
    assert!(message.attributes().is_none(), "none was asked for");
    let found = client.get_queue_url().queue_name("spring").send().await.unwrap();
    assert_eq!(found.queue_url().unwrap(), format!("{}/000000000000/spring", sandbox.url()));
    let stats = sandbox.stats().await;
    let calls: Vec<_> = stats.calls.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(calls, [("GetQueueUrl", 1), ("ReceiveMessage", 1), ("SendMessage", 1)]);
    assert_eq!((stats.queues["spring"].visible, stats.queues["spring"].in_flight), (0, 1));
    sandbox.shutdown().await;
}

#[tokio::test]
async fn without_create_a_queue_that_nobody_made_is_refused_as_sqs_does() {
    let (sandbox, client) = started(false).await;
    let error = client.get_queue_url().queue_name("spring").send().await.unwrap_err();
    let error = error.into_service_error();
    assert!(error.is_queue_does_not_exist(), "{error:?}");
    assert_eq!(error.meta().code(), Some("AWS.SimpleQueueService.NonExistentQueue"));
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_message_for_no_queue_is_refused_as_sqs_does_and_makes_none() {
    let (sandbox, client) = started(true).await;
    let error = client.send_message().message_body("hello").send().await.unwrap_err();
    assert_eq!(error.into_service_error().meta().code(), Some("MissingParameter"));
    assert!(sandbox.stats().await.queues.is_empty());
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_queue_keeps_its_settings_and_refuses_impossible_ones() {
    let (sandbox, client) = started(false).await;
    let create = |seconds: &str| {
        let call = client.create_queue().queue_name("spring");
        call.attributes(QueueAttributeName::VisibilityTimeout, seconds).send()
    };
    let error = create("43201").await.unwrap_err().into_service_error();
    assert!(error.is_invalid_attribute_value(), "{error:?}");
    assert!(error.to_string().contains("InvalidAttributeValue"), "{error}");
    for seconds in ["7", "8"] {
        create(seconds).await.unwrap();
    }
    let attribute_names = [QueueAttributeName::VisibilityTimeout, QueueAttributeName::QueueArn];
    let call = client
        .get_queue_attributes()
        .queue_url("spring")
        .set_attribute_names(Some(attribute_names.into()));
    let told = call.send().await.unwrap().attributes.unwrap();
    let expected = [
        (QueueAttributeName::QueueArn, "arn:aws:sqs:us-east-1:000000000000:spring".to_owned()),
        (QueueAttributeName::VisibilityTimeout, "7".to_owned()),
    ];
    assert_eq!(told, expected.into());
    sandbox.shutdown().await;
}

#[tokio::test]
async fn queues_are_made_with_tags_and_listed_page_by_page() {
    let (sandbox, client) = started(false).await;
    for name in ["autumn", "spring", "summer"] {
        client.create_queue().queue_name(name).tags("name", name).send().await.unwrap();
    }
    let list = client.list_queues().queue_name_prefix("s").max_results(1);
    let urls = list.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await.unwrap();
    let expected =
        ["spring", "summer"].map(|name| format!("{}/000000000000/{name}", sandbox.url()));
    assert_eq!(urls, expected);
    let tags = client.list_queue_tags().queue_url(&urls[1]).send().await.unwrap().tags.unwrap();
    assert_eq!(tags, [("name".to_owned(), "summer".to_owned())].into());
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_sandbox_that_stops_does_not_wait_for_long_polls() {
    let (sandbox, client) = started(true).await;
    let client = Client::from_conf(
        client
            .config()
            .to_builder()
            .retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled())
            .build(),
    );
    let poll = client.receive_message().queue_url("spring").wait_time_seconds(20).send();
    let stop = async {
        while sandbox.stats().await.calls.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        sandbox.shutdown().await;
    };
    let both = async { tokio::join!(poll, stop) };
    let (answer, ()) = tokio::time::timeout(std::time::Duration::from_secs(4), both).await.unwrap();
    assert!(answer.is_err());
}

#[tokio::test]
async fn what_this_endpoint_cannot_keep_is_refused_alone_among_good_entries() {
    let (sandbox, client) = started(true).await;
    let entry = |id: &str| SendMessageBatchRequestEntry::builder().id(id).message_body(id);
    let number = MessageAttributeValue::builder().data_type("Number").string_value("1");
    let send = |url: &'static str, entries: Vec<SendMessageBatchRequestEntryBuilder>| {
        let entries = entries.into_iter().map(|entry| entry.build().unwrap()).collect();
        client.send_message_batch().queue_url(url).set_entries(Some(entries)).send()
    };
    let typed = entry("typed").message_attributes("pass", number.build().unwrap());
    let answer = send("spring", vec![entry("a"), typed, entry("b")]).await.unwrap();
    let good: Vec<_> = answer.successful().iter().map(SendMessageBatchResultEntry::id).collect();
    assert_eq!(good, ["a", "b"]);
    let refused = &answer.failed()[0];
    assert_eq!((refused.id(), refused.sender_fault()), ("typed", true));
    assert!(refused.message().unwrap().starts_with("pass: Number is not `String`"));

    let answer = send("merge.fifo", vec![entry("a").message_group_id("g")]).await.unwrap();
    assert!(answer.failed()[0].message().unwrap().contains("MessageDeduplicationId"));

    let error = send("spring", vec![entry("a"), entry("a")]).await.unwrap_err();
    let error = error.into_service_error();
    assert!(error.is_batch_entry_ids_not_distinct(), "{error:?}");
    sandbox.shutdown().await;
}

#[tokio::test]
async fn a_receive_gives_the_attributes_it_names_and_hides_messages_as_long_as_it_says() {
    let (sandbox, client) = started(true).await;
    let text = |value: &str| {
        MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
    };
    let call = client.send_message().queue_url("spring").message_body("hello");
    let call =
        call.message_attributes("campaign", text("big")).message_attributes("pass", text("0"));
    let sent = call.send().await.unwrap();
    assert_eq!(sent.md5_of_message_attributes(), Some("e8c92c57588d704f6416198cfb9b0bc6"));
    let receive = |asked: &'static str| {
        let call = client.receive_message().queue_url("spring").visibility_timeout(0);
        call.message_attribute_names(asked).send()
    };
    for (asked, attribute_names) in
        [("All", &["campaign", "pass"][..]), ("camp.*", &["campaign"]), ("x", &[])]
    {
        let answer = receive(asked).await.unwrap();
        let attributes = answer.messages()[0].message_attributes();
        let mut found: Vec<_> = attributes.iter().flat_map(|all| all.keys()).collect();
        found.sort();
        assert_eq!(found, attribute_names);
    }
    sandbox.shutdown().await;
}
