//! The official client of queues, with an account SAS.

use std::collections::{HashMap, HashSet};

use azure_core::http::{StatusCode, Url};
use azure_storage_queue::{
    QueueClient, QueueServiceClient,
    models::{
        QueueClientCreateOptions, QueueClientGetPropertiesResultHeaders, QueueClientPeekMessagesOptions,
        QueueClientReceiveMessagesOptions, QueueClientUpdateMessageOptions, QueueMessage,
        QueueServiceClientListQueuesOptions, SignedIdentifiers,
    },
};
use futures::TryStreamExt;
use lazuli_clients::{fresh_name, provide_tls, queue_endpoint, queue_sas};

fn service() -> QueueServiceClient {
    provide_tls();
    let url = format!("{}?{}", queue_endpoint(), queue_sas("rwdlacup"));
    QueueServiceClient::new(Url::parse(&url).expect("a URL"), None, None).expect("a client")
}

async fn queue(word: &str) -> QueueClient {
    let client = service().queue_client(&fresh_name(word)).expect("a client");
    client.create(None).await.expect("a queue");
    client
}

fn text(text: &str) -> QueueMessage {
    QueueMessage { message_text: Some(text.to_string()) }
}

async fn count(queue: &QueueClient) -> i64 {
    let properties = queue.get_properties(None).await.expect("properties");
    properties.approximate_messages_count().expect("a number").expect("it is told")
}

#[track_caller]
fn refused<T>(outcome: azure_core::Result<T>, status: StatusCode) {
    assert_eq!(outcome.err().expect("should have been refused").http_status(), Some(status));
}

#[tokio::test]
async fn queues() {
    let client = service().queue_client(&fresh_name("queues")).expect("a client");
    let with = |value: &str| {
        let metadata = Some(HashMap::from([("hello".to_string(), value.to_string())]));
        Some(QueueClientCreateOptions { metadata, ..Default::default() })
    };
    assert_eq!(client.create(with("world")).await.expect("created").status(), StatusCode::Created);
    assert_eq!(client.create(with("world")).await.expect("there").status(), StatusCode::NoContent);
    refused(client.create(with("moon")).await, StatusCode::Conflict);
    let metadata = client.get_properties(None).await.expect("properties").metadata().expect("metadata");
    assert_eq!(metadata["hello"], "world");
    client.set_metadata(&HashMap::from([("a".to_string(), "1".to_string())]), None).await.expect("set");
    // No SAS reaches access policies.
    refused(client.get_access_policy(None).await, StatusCode::Forbidden);
    let none = SignedIdentifiers { items: None }.try_into().expect("a document");
    refused(client.set_access_policy(none, None).await, StatusCode::Forbidden);
    assert!(client.exists().await.expect("an answer"));
    client.delete(None).await.expect("deleted");
    assert!(!client.exists().await.expect("an answer"));
}

#[tokio::test]
async fn listing() {
    let prefix = fresh_name("listing");
    for n in 0..5 {
        service().queue_client(&format!("{prefix}-{n}")).expect("a client").create(None).await.expect("created");
    }
    let options =
        QueueServiceClientListQueuesOptions { prefix: Some(prefix.clone()), maxresults: Some(2), ..Default::default() };
    let mut pages = service().list_queues(Some(options)).expect("a pager").into_pages();
    let mut sizes = Vec::new();
    while let Some(page) = pages.try_next().await.expect("a page") {
        sizes.push(page.into_model().expect("a listing").queue_items.len());
    }
    assert_eq!(sizes, [2, 2, 1]);
}

#[tokio::test]
async fn messages() {
    let queue = queue("messages").await;
    let sent = queue.send_message(text(" a <b> & \n ").try_into().expect("a document"), None).await.expect("sent");
    let sent = sent.into_model().expect("an answer").into_message().expect("one");
    let peeked = queue.peek_messages(Some(QueueClientPeekMessagesOptions::default())).await.expect("peeked");
    let peeked = peeked.into_model().expect("an answer").items.expect("one");
    assert_eq!(peeked[0].message_text.as_deref(), Some(" a <b> & \n "));
    let got = queue.receive_messages(None).await.expect("received").into_model().expect("an answer");
    let got = got.items.expect("one").remove(0);
    assert_eq!((got.message_id.clone(), got.dequeue_count), (sent.message_id.clone(), Some(1)));
    let (id, old, receipt) =
        (got.message_id.expect("an id"), sent.pop_receipt.expect("a receipt"), got.pop_receipt.expect("a receipt"));
    refused(queue.delete_message(&id, &old, None).await, StatusCode::NotFound);
    let options = QueueClientUpdateMessageOptions {
        queue_message: Some(text("two").try_into().expect("a document")),
        ..Default::default()
    };
    let updated = queue.update_message(&id, &receipt, 0, Some(options)).await.expect("updated");
    assert_eq!(updated.status(), StatusCode::NoContent);
    refused(queue.delete_message(&id, &receipt, None).await, StatusCode::NotFound);
    let again = queue.receive_messages(None).await.expect("received").into_model().expect("an answer");
    let again = again.items.expect("one").remove(0);
    assert_eq!(again.message_text.as_deref(), Some("two"));
    queue.delete_message(&id, &again.pop_receipt.expect("a receipt"), None).await.expect("deleted");
    assert_eq!(count(&queue).await, 0);
    queue.send_message(text("x").try_into().expect("a document"), None).await.expect("sent");
    queue.clear(None).await.expect("cleared");
    assert_eq!(count(&queue).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn competing_consumers() {
    let queue = std::sync::Arc::new(queue("competing").await);
    for n in 0..100 {
        queue.send_message(text(&n.to_string()).try_into().expect("a document"), None).await.expect("sent");
    }
    let consumers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let options = QueueClientReceiveMessagesOptions {
                        number_of_messages: Some(3),
                        visibility_timeout: Some(600),
                        ..Default::default()
                    };
                    let received = queue.receive_messages(Some(options)).await.expect("received");
                    let Some(items) = received.into_model().expect("an answer").items else { return got };
                    for one in items {
                        let (id, receipt) = (one.message_id.expect("an id"), one.pop_receipt.expect("a receipt"));
                        queue.delete_message(&id, &receipt, None).await.expect("deleted");
                        got.push(one.message_text.expect("a text"));
                    }
                }
            })
        })
        .collect();
    let mut got = Vec::new();
    for consumer in consumers {
        got.extend(consumer.await.expect("no panic"));
    }
    assert_eq!((got.len(), got.into_iter().collect::<HashSet<_>>().len(), count(&queue).await), (100, 100, 0));
}
