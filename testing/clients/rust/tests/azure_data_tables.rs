//! The Rust client of tables, of the SDK's years before 1.0, with the account's key.

use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::*;
use azure_storage::{CloudLocation, StorageCredentials};
use futures::StreamExt;
use lazuli_clients::{ACCOUNT, KEY, fresh_name, table_endpoint};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
struct Person {
    #[serde(rename = "PartitionKey")]
    city: String,
    #[serde(rename = "RowKey")]
    name: String,
    email: String,
    #[serde(rename = "age@odata.type")]
    age_type: Option<String>,
    age: Option<String>,
}

fn person(name: &str, email: &str) -> Person {
    let (city, name, email) = ("Ulm".into(), name.into(), email.into());
    // Beyond what a floating point number can hold.
    Person { city, name, email, age_type: Some("Edm.Int64".into()), age: Some("9007199254740993".into()) }
}

fn service() -> TableServiceClient {
    let credentials = StorageCredentials::access_key(ACCOUNT, KEY.to_string());
    let location = CloudLocation::Custom { account: ACCOUNT.into(), uri: table_endpoint() };
    TableServiceClientBuilder::with_location(location, credentials).build()
}

/// Table names are letters and digits alone.
fn table(word: &str) -> TableClient {
    service().table_client(fresh_name(word).replace('-', ""))
}

#[tokio::test]
async fn tables() {
    let table = table("tables");
    table.create().await.expect("created");
    let mut pages =
        service().list().filter(Filter::new(format!("TableName eq '{}'", table.table_name()))).into_stream();
    let page = pages.next().await.expect("a page").expect("listed");
    assert_eq!(page.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), [table.table_name()]);
    assert!(table.create().await.is_err(), "it is there");
    table.delete().await.expect("deleted");
    assert!(table.delete().await.is_err(), "it is gone");
}

#[tokio::test]
async fn entities() {
    let table = table("entities");
    table.create().await.expect("created");
    let first = person("ONeil", "old@example.org");
    let inserted: InsertEntityResponse<Person> =
        table.insert(&first).expect("written").return_entity(true).await.expect("inserted");
    assert_eq!(inserted.entity_with_metadata.expect("returned").entity.age, first.age);
    assert!(table.insert::<_, Person>(&first).expect("written").await.is_err(), "it is there");

    let entity = table.partition_key_client("Ulm").entity_client("ONeil");
    let got = entity.get::<Person>().await.expect("there");
    assert_eq!((got.entity.email.as_str(), &got.entity.age), ("old@example.org", &first.age));

    let new = person("ONeil", "new@example.org");
    entity.update(&new, IfMatchCondition::Etag(got.etag.clone())).expect("written").await.expect("updated");
    let stale = entity.merge(&first, IfMatchCondition::Etag(got.etag)).expect("written").await;
    assert!(stale.is_err(), "the ETag is of the entity before");
    entity.merge(&new, IfMatchCondition::Any).expect("written").await.expect("forced");
    entity.insert_or_replace(&new).expect("written").await.expect("replaced");
    entity.insert_or_merge(&new).expect("written").await.expect("merged");

    let mut pages = table
        .query()
        .filter(Filter::new("email eq 'new@example.org' and PartitionKey eq 'Ulm'"))
        .into_stream::<Person>();
    let page = pages.next().await.expect("a page").expect("found");
    assert_eq!(page.entities.len(), 1);
    entity.delete().await.expect("deleted");
    assert!(entity.get::<Person>().await.is_err(), "it is gone");
}

/// All or nothing.
#[tokio::test]
async fn transactions() {
    let table = table("transactions");
    table.create().await.expect("created");
    let partition = table.partition_key_client("Ulm");
    let both =
        partition.transaction().insert(&person("a", "1")).expect("written").insert(&person("b", "1")).expect("written");
    both.await.expect("done");
    let again =
        partition.transaction().insert(&person("c", "1")).expect("written").insert(&person("a", "2")).expect("written");
    let done = again.await;
    let is_refused = done.map_or(true, |done| done.operation_responses.iter().any(|one| !one.status_code.is_success()));
    assert!(is_refused, "one of them is there");
    assert!(partition.entity_client("c").get::<Person>().await.is_err(), "nothing was done");
    assert!(partition.entity_client("b").get::<Person>().await.is_ok());
}
