//! Makes what a plan asks for over REST, and compares what is there already.

use std::collections::BTreeMap;

use bytes::Bytes;
use contract::Service;
use env::Timestamp;
use http::client::percent_encode;
use serde_json::Value;

use super::plan::{Container, Entity, MESSAGES_MAX, Object, Plan, Queue, Share, Table};
use super::{Became, Told};
use crate::client::{Answer, Ask, Client, Endpoints};

/// What one Put Range takes.
const RANGE_BYTES: usize = 4 * 1024 * 1024;

pub async fn apply(plan: &Plan, endpoints: &Endpoints, told: &mut Told) -> Result<(), String> {
    if !plan.containers.is_empty() {
        let mut client = Client::open(endpoints, Service::Blob).await?;
        for container in &plan.containers {
            containers(&mut client, container, told).await?;
        }
    }
    if !plan.queues.is_empty() {
        let mut client = Client::open(endpoints, Service::Queue).await?;
        for queue in &plan.queues {
            queues(&mut client, queue, told).await?;
        }
    }
    if !plan.tables.is_empty() {
        let mut client = Client::open(endpoints, Service::Table).await?;
        for table in &plan.tables {
            tables(&mut client, table, told).await?;
        }
    }
    if !plan.shares.is_empty() {
        let mut client = Client::open(endpoints, Service::File).await?;
        for share in &plan.shares {
            shares(&mut client, share, told).await?;
        }
    }
    Ok(())
}

fn failed(what: &str, answer: &Answer) -> String {
    format!("{what}: {}", answer.words())
}

const METADATA: &str = "x-ms-meta-";

fn metadata_headers(metadata: &BTreeMap<String, String>, names: &mut Vec<String>) {
    names.extend(metadata.keys().map(|name| format!("{METADATA}{name}")));
}

/// Is what is there what is to be there? Names count without case, as headers do.
fn compare_metadata(wanted: &BTreeMap<String, String>, answer: &Answer) -> Option<String> {
    let lower = |pairs: Vec<(String, String)>| {
        pairs.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect::<BTreeMap<_, _>>()
    };
    let there = lower(answer.headers_with(METADATA));
    let wanted = lower(wanted.iter().map(|(name, value)| (name.clone(), value.trim().to_owned())).collect());
    (there != wanted).then(|| format!("it has other metadata: {there:?}"))
}

/// The names live as long as the request that borrows them.
fn with_metadata<'a>(names: &'a [String], metadata: &BTreeMap<String, String>, headers: &mut Vec<(&'a str, String)>) {
    headers.extend(names.iter().map(String::as_str).zip(metadata.values().cloned()));
}

async fn containers(client: &mut Client, container: &Container, told: &mut Told) -> Result<(), String> {
    let (what, path) = (format!("container {}", container.name), format!("/{}", container.name));
    let mut names = Vec::new();
    metadata_headers(&container.metadata, &mut names);
    let mut headers = Vec::new();
    with_metadata(&names, &container.metadata, &mut headers);
    headers.extend(container.public.map(|public| ("x-ms-blob-public-access", public.word().to_owned())));
    let query = [("restype", "container")];
    let made = client.ask(Ask { verb: "PUT", path: &path, query: &query, headers, ..Ask::default() }).await?;
    let became = match (made.status, made.code()) {
        (201, _) => Became::Made,
        (409, "ContainerAlreadyExists") => {
            let there = client.ask(Ask { verb: "GET", path: &path, query: &query, ..Ask::default() }).await?;
            if there.status != 200 {
                return Err(failed(&what, &there));
            }
            let access = there.header("x-ms-blob-public-access");
            match compare_metadata(&container.metadata, &there) {
                Some(why) => Became::Conflict(why),
                None if access != container.public.map(|public| public.word()) => {
                    Became::Conflict(format!("its public access is {}", access.unwrap_or("off")))
                }
                None => Became::There,
            }
        }
        _ => return Err(failed(&what, &made)),
    };
    told.tell(&what, became);
    for blob in &container.blobs {
        let what = format!("blob {}/{}", container.name, blob.name);
        let path = format!("{path}/{}", percent_encode(&blob.name, "/"));
        let became = blob_at(client, &what, &path, blob).await?;
        told.tell(&what, became);
    }
    Ok(())
}

async fn blob_at(client: &mut Client, what: &str, path: &str, blob: &Object) -> Result<Became, String> {
    let mut names = Vec::new();
    metadata_headers(&blob.metadata, &mut names);
    let mut headers = vec![("x-ms-blob-type", "BlockBlob".to_owned()), ("if-none-match", "*".to_owned())];
    with_metadata(&names, &blob.metadata, &mut headers);
    headers.extend(blob.content_type.clone().map(|kind| ("x-ms-blob-content-type", kind)));
    if !blob.tags.is_empty() {
        let tags =
            blob.tags.iter().map(|(name, value)| format!("{}={}", percent_encode(name, ""), percent_encode(value, "")));
        headers.push(("x-ms-tags", tags.collect::<Vec<_>>().join("&")));
    }
    let made = client.ask(Ask { verb: "PUT", path, headers, body: blob.body.clone(), ..Ask::default() }).await?;
    match (made.status, made.code()) {
        (201, _) => return Ok(Became::Made),
        (409, "BlobAlreadyExists") => {}
        _ => return Err(failed(what, &made)),
    }
    if let Some(conflict) = compare_object(client, what, path, blob).await? {
        return Ok(Became::Conflict(conflict));
    }
    let tags = client.ask(Ask { verb: "GET", path, query: &[("comp", "tags")], ..Ask::default() }).await?;
    if tags.status != 200 {
        return Err(failed(what, &tags));
    }
    let there = tags_of(&String::from_utf8_lossy(&tags.body));
    Ok(if there == blob.tags { Became::There } else { Became::Conflict(format!("it has other tags: {there:?}")) })
}

/// `<Tag><Key>a</Key><Value>b</Value></Tag>`; the characters of tags need no escapes.
fn tags_of(xml: &str) -> BTreeMap<String, String> {
    let inner = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(value, _)| value.to_owned())
    };
    let tags = xml.split("<Tag>").skip(1).filter_map(|tag| {
        let value = inner(tag, "Value").unwrap_or_default();
        Some((inner(tag, "Key")?, value))
    });
    tags.collect()
}

/// How a blob or file that is there differs from what is to be.
async fn compare_object(
    client: &mut Client,
    what: &str,
    path: &str,
    object: &Object,
) -> Result<Option<String>, String> {
    let head = client.ask(Ask { verb: "HEAD", path, ..Ask::default() }).await?;
    if head.status != 200 {
        return Err(failed(what, &head));
    }
    let bytes = object.body.len().to_string();
    if head.header("content-length") != Some(bytes.as_str()) {
        let there = head.header("content-length").unwrap_or_default();
        return Ok(Some(format!("it has {there} bytes, not {bytes}")));
    }
    let kind = head.header("content-type").unwrap_or_default();
    if object.content_type.as_deref().is_some_and(|wanted| wanted != kind) {
        return Ok(Some(format!("its content type is {kind}")));
    }
    if let Some(why) = compare_metadata(&object.metadata, &head) {
        return Ok(Some(why));
    }
    let there = client.ask(Ask { verb: "GET", path, ..Ask::default() }).await?;
    match there.status {
        200 if there.body == object.body => Ok(None),
        200 => Ok(Some("it has other content".to_owned())),
        _ => Err(failed(what, &there)),
    }
}

async fn queues(client: &mut Client, queue: &Queue, told: &mut Told) -> Result<(), String> {
    let (what, path) = (format!("queue {}", queue.name), format!("/{}", queue.name));
    let mut names = Vec::new();
    metadata_headers(&queue.metadata, &mut names);
    let mut headers = Vec::new();
    with_metadata(&names, &queue.metadata, &mut headers);
    let made = client.ask(Ask { verb: "PUT", path: &path, headers, ..Ask::default() }).await?;
    let became = match (made.status, made.code()) {
        (201, _) => Became::Made,
        (204, _) => Became::There,
        (409, "QueueAlreadyExists") => Became::Conflict("it has other metadata".to_owned()),
        _ => return Err(failed(&what, &made)),
    };
    told.tell(&what, became);
    if queue.messages.is_empty() {
        return Ok(());
    }
    let (what, path) = (format!("messages of queue {}", queue.name), format!("{path}/messages"));
    let most = MESSAGES_MAX.to_string();
    let query = [("numofmessages", most.as_str()), ("peekonly", "true")];
    let seen = client.ask(Ask { verb: "GET", path: &path, query: &query, ..Ask::default() }).await?;
    if seen.status != 200 {
        return Err(failed(&what, &seen));
    }
    let xml = String::from_utf8_lossy(&seen.body).into_owned();
    let there: Vec<String> = xml
        .split("<MessageText>")
        .skip(1)
        .filter_map(|rest| rest.split_once("</MessageText>"))
        .map(|(text, _)| unescape(text))
        .collect();
    let became = if there == queue.messages {
        Became::There
    } else if there.is_empty() {
        for text in queue.messages.iter().map(|text| escape(text)) {
            let body = Bytes::from(format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"));
            let put = client.ask(Ask { verb: "POST", path: &path, body, ..Ask::default() }).await?;
            if put.status != 201 {
                return Err(failed(&what, &put));
            }
        }
        Became::Made
    } else {
        Became::Conflict(format!("it holds {} other messages", there.len()))
    };
    told.tell(&what, became);
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\r', "&#13;")
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#13;", "\r")
        .replace("&#xD;", "\r")
        .replace("&amp;", "&")
}

const JSON: &str = "application/json;odata=nometadata";

async fn tables(client: &mut Client, table: &Table, told: &mut Told) -> Result<(), String> {
    let what = format!("table {}", table.name);
    let headers = || {
        vec![
            ("accept", JSON.to_owned()),
            ("content-type", "application/json".to_owned()),
            ("prefer", "return-no-content".to_owned()),
        ]
    };
    let body = Bytes::from(serde_json::json!({ "TableName": table.name }).to_string());
    let made = client.ask(Ask { verb: "POST", path: "/Tables", headers: headers(), body, ..Ask::default() }).await?;
    let became = match made.status {
        201 | 204 => Became::Made,
        409 => Became::There,
        _ => return Err(failed(&what, &made)),
    };
    told.tell(&what, became);
    for entity in &table.entities {
        let what = format!("entity {}({:?}, {:?})", table.name, entity.partition_key, entity.row_key);
        let body = Bytes::from(Value::Object(entity.json.clone()).to_string());
        let path = format!("/{}", table.name);
        let made = client.ask(Ask { verb: "POST", path: &path, headers: headers(), body, ..Ask::default() }).await?;
        let became = match made.status {
            201 | 204 => Became::Made,
            409 => {
                let key = |text: &str| percent_encode(&text.replace('\'', "''"), "");
                let keys = format!("(PartitionKey='{}',RowKey='{}')", key(&entity.partition_key), key(&entity.row_key));
                let path = format!("{path}{keys}");
                let there = client
                    .ask(Ask { verb: "GET", path: &path, headers: vec![("accept", JSON.to_owned())], ..Ask::default() })
                    .await?;
                if there.status != 200 {
                    return Err(failed(&what, &there));
                }
                let json = serde_json::from_slice(&there.body).map_err(|error| format!("{what}: {error}"))?;
                compare_entity(entity, &json).map_or(Became::There, Became::Conflict)
            }
            _ => return Err(failed(&what, &made)),
        };
        told.tell(&what, became);
    }
    Ok(())
}

/// How an entity that is there differs.
fn compare_entity(entity: &Entity, there: &Value) -> Option<String> {
    let Value::Object(there) = there else { return Some("it is no entity".to_owned()) };
    let plain = |name: &str| !name.contains("odata.") && name != "Timestamp";
    let same = |a: &Value, b: &Value| match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        // A time may be written in several ways.
        (Value::String(a), Value::String(b)) if a != b => {
            match (Timestamp::parse_iso8601(a), Timestamp::parse_iso8601(b)) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            }
        }
        (a, b) => a == b,
    };
    for (name, value) in entity.json.iter().filter(|(name, _)| plain(name)) {
        if !there.get(name).is_some_and(|found| same(found, value)) {
            return Some(format!("its {name} is {}", there.get(name).unwrap_or(&Value::Null)));
        }
    }
    let more = there.keys().find(|name| plain(name) && !entity.json.contains_key(*name));
    more.map(|name| format!("it has {name}, too"))
}

async fn shares(client: &mut Client, share: &Share, told: &mut Told) -> Result<(), String> {
    let (what, path) = (format!("share {}", share.name), format!("/{}", share.name));
    let mut names = Vec::new();
    metadata_headers(&share.metadata, &mut names);
    let mut headers = Vec::new();
    with_metadata(&names, &share.metadata, &mut headers);
    headers.extend(share.quota.map(|quota| ("x-ms-share-quota", quota.to_string())));
    let query = [("restype", "share")];
    let made = client.ask(Ask { verb: "PUT", path: &path, query: &query, headers, ..Ask::default() }).await?;
    let became = match (made.status, made.code()) {
        (201, _) => Became::Made,
        (409, "ShareAlreadyExists") => {
            let there = client.ask(Ask { verb: "GET", path: &path, query: &query, ..Ask::default() }).await?;
            let quota = there.header("x-ms-share-quota").and_then(|quota| quota.parse::<u32>().ok());
            match compare_metadata(&share.metadata, &there) {
                Some(why) => Became::Conflict(why),
                None if share.quota.is_some() && quota != share.quota => {
                    Became::Conflict(format!("its quota is {} GiB", quota.unwrap_or_default()))
                }
                None => Became::There,
            }
        }
        _ => return Err(failed(&what, &made)),
    };
    told.tell(&what, became);
    for directory in &share.directories {
        let what = format!("directory {}/{directory}", share.name);
        let path = format!("{path}/{}", percent_encode(directory, "/"));
        let made =
            client.ask(Ask { verb: "PUT", path: &path, query: &[("restype", "directory")], ..Ask::default() }).await?;
        let became = match (made.status, made.code()) {
            (201, _) => Became::Made,
            (409, "ResourceAlreadyExists") => Became::There,
            (409, code) => Became::Conflict(code.to_owned()),
            _ => return Err(failed(&what, &made)),
        };
        told.tell(&what, became);
    }
    for file in &share.files {
        let what = format!("file {}/{}", share.name, file.name);
        let path = format!("{path}/{}", percent_encode(&file.name, "/"));
        let became = file_at(client, &what, &path, file).await?;
        told.tell(&what, became);
    }
    Ok(())
}

async fn file_at(client: &mut Client, what: &str, path: &str, file: &Object) -> Result<Became, String> {
    // Put File replaces: so it is looked for first.
    let head = client.ask(Ask { verb: "HEAD", path, ..Ask::default() }).await?;
    match head.status {
        200 => return Ok(compare_object(client, what, path, file).await?.map_or(Became::There, Became::Conflict)),
        404 => {}
        _ => return Err(failed(what, &head)),
    }
    let mut names = Vec::new();
    metadata_headers(&file.metadata, &mut names);
    let mut headers = vec![("x-ms-type", "file".to_owned()), ("x-ms-content-length", file.body.len().to_string())];
    with_metadata(&names, &file.metadata, &mut headers);
    headers.extend(file.content_type.clone().map(|kind| ("x-ms-content-type", kind)));
    let made = client.ask(Ask { verb: "PUT", path, headers, ..Ask::default() }).await?;
    if made.status != 201 {
        return Err(failed(what, &made));
    }
    let mut start = 0;
    while start < file.body.len() {
        let piece = file.body.slice(start..(start + RANGE_BYTES).min(file.body.len()));
        let range = format!("bytes={start}-{}", start + piece.len() - 1);
        start += piece.len();
        let headers = vec![("x-ms-write", "update".to_owned()), ("x-ms-range", range)];
        let put = client.ask(Ask { verb: "PUT", path, query: &[("comp", "range")], headers, body: piece }).await?;
        if put.status != 201 {
            return Err(failed(what, &put));
        }
    }
    Ok(Became::Made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_text() {
        let xml = "<Tags><TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value></Value></Tag></TagSet></Tags>";
        assert_eq!(tags_of(xml), BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]));
        for text in ["a&lt;<", "x & y > \"z\" 'ü' \r\n"] {
            assert_eq!(unescape(&escape(text)), text);
        }
    }

    #[test]
    fn entities_that_differ() {
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let Value::Object(wanted) =
            json(r#"{"PartitionKey":"a","RowKey":"1","n":1.0,"n@odata.type":"Edm.Double","t":"2024-01-01T00:00:00Z"}"#)
        else {
            panic!()
        };
        let entity = Entity { partition_key: "a".into(), row_key: "1".into(), json: wanted };
        let there = r#"{"odata.etag":"x","Timestamp":"y","PartitionKey":"a","RowKey":"1","n":1,"t":"2024-01-01T00:00:00.0000000Z"}"#;
        assert_eq!(compare_entity(&entity, &json(there)), None);
        assert!(
            compare_entity(&entity, &json(&there.replace("\"n\":1", "\"n\":2")))
                .is_some_and(|why| why.contains("its n is 2"))
        );
        assert!(compare_entity(&entity, &json(&there.replace("\"t\"", "\"u\""))).is_some());
        assert!(
            compare_entity(&entity, &json(&there.replace("{", "{\"more\":1,"))).is_some_and(|why| why.contains("more"))
        );
    }
}
