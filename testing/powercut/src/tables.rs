//! Tables as containers of entities. What stands before the slash of a name is the partition key, the rest the row key;
//! the operation and the body are two properties.

use crate::client::Client;
use crate::store::{Answer, Condition, Found, Listed, Member, Store};

const JSON: (&str, &str) = ("content-type", "application/json");
const ACCEPT: (&str, &str) = ("accept", "application/json;odata=minimalmetadata");

pub struct Tables {
    client: Client,
}

impl Tables {
    pub fn new(port: u16) -> Tables {
        Tables { client: Client::of_tables(port) }
    }
}

fn keys(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

fn path(table: &str, name: &str) -> String {
    let (partition, row) = keys(name);
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

/// Method, path, If-Match and body of the request that puts an entity.
fn put_request(table: &str, member: &Member) -> (&'static str, String, Option<String>, String) {
    let (partition, row) = keys(member.name);
    // Bodies are printable but for their ends of lines.
    let text = String::from_utf8_lossy(member.body).replace('\n', "\\n");
    let entity = format!(
        r#"{{"PartitionKey":"{partition}","RowKey":"{row}","Operation":"{}","Body":"{text}"}}"#,
        member.operation
    );
    // Replacing and merging in turn: an entity has the same properties either way.
    let method = if member.operation.is_multiple_of(2) { "PUT" } else { "MERGE" };
    match &member.condition {
        Condition::None => (method, path(table, member.name), None, entity),
        Condition::Is(etag) => (method, path(table, member.name), Some(etag.clone()), entity),
        Condition::Absent => ("POST", format!("/{table}"), None, entity),
    }
}

/// The string property of this name, wherever it comes first.
fn property(json: &str, name: &str) -> Option<String> {
    let start = format!("\"{name}\":\"");
    let mut rest = json[json.find(&start)? + start.len()..].chars();
    let mut value = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(value),
            '\\' => match rest.next()? {
                'n' => value.push('\n'),
                'u' => {
                    let code: String = rest.by_ref().take(4).collect();
                    value.push(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)?);
                }
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

fn entity(json: &str) -> Found {
    Found {
        etag: property(json, "odata.etag").unwrap_or_default(),
        operation: property(json, "Operation").and_then(|n| n.parse().ok()),
        body: property(json, "Body").unwrap_or_default().into_bytes(),
    }
}

impl Store for Tables {
    fn create_container(&mut self, table: &str) -> Answer {
        let body = format!(r#"{{"TableName":"{table}"}}"#);
        self.client.change("POST", "/Tables", &[], &[JSON, ACCEPT], body.as_bytes())
    }

    fn delete_container(&mut self, table: &str) -> Answer {
        self.client.change("DELETE", &format!("/Tables('{table}')"), &[], &[ACCEPT], &[])
    }

    fn put(&mut self, table: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer {
        let member = Member { name, operation, body, condition: condition.clone() };
        let (method, path, etag, entity) = put_request(table, &member);
        let mut headers = vec![JSON, ACCEPT];
        headers.extend(etag.as_deref().map(|etag| ("if-match", etag)));
        self.client.change(method, &path, &[], &headers, entity.as_bytes())
    }

    fn delete(&mut self, table: &str, name: &str, condition: &Condition) -> Answer {
        let etag = if let Condition::Is(etag) = condition { etag } else { "*" };
        self.client.change("DELETE", &path(table, name), &[], &[ACCEPT, ("if-match", etag)], &[])
    }

    fn get(&mut self, table: &str, name: &str) -> Result<Option<Found>, String> {
        let path = path(table, name);
        let response =
            self.client.request("GET", &path, &[], &[ACCEPT], &[]).map_err(|e| format!("get {path}: {e}"))?;
        match response.status {
            200 => Ok(Some(entity(&response.text()))),
            404 => Ok(None),
            status => Err(format!("get {path}: {status} {}", response.code())),
        }
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        let json = self.client.read("/Tables", &[], &[ACCEPT])?.text();
        let starts = json.match_indices("\"TableName\"").map(|(at, _)| &json[at..]);
        let name = |json| property(json, "TableName").ok_or_else(|| "list tables: a name that breaks off".to_string());
        starts.map(|json| Ok(Listed { name: name(json)?, etag: String::new(), bytes: None })).collect()
    }

    fn list(&mut self, table: &str) -> Result<Vec<Listed>, String> {
        let response = self.client.read(&format!("/{table}()"), &[], &[ACCEPT])?;
        if response.header("x-ms-continuation-nextpartitionkey").is_some() {
            return Err(format!("list {table}: more than one page"));
        }
        let json = response.text();
        let mut listed = Vec::new();
        for (at, _) in json.match_indices("\"odata.etag\"") {
            let json = &json[at..];
            let key = |name| property(json, name).ok_or_else(|| format!("list {table}: an entity without {name}"));
            let found = entity(json);
            let name = match key("PartitionKey")?.as_str() {
                "" => key("RowKey")?,
                partition => format!("{partition}/{}", key("RowKey")?),
            };
            listed.push(Listed { name, etag: found.etag, bytes: Some(found.body.len() as u64) });
        }
        Ok(listed)
    }

    fn put_all(&mut self, table: &str, members: &[Member]) -> Option<Result<Vec<String>, Answer>> {
        let mut body = "--batch\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n".to_string();
        for member in members {
            let (method, path, etag, entity) = put_request(table, member);
            let condition = etag.map_or(String::new(), |etag| format!("If-Match: {etag}\r\n"));
            body += &format!(
                "--changes\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 {method} {} HTTP/1.1\r\n{}: {}\r\n{}: {}\r\n{condition}\r\n{entity}\r\n",
                self.client.url(&path),
                JSON.0,
                JSON.1,
                ACCEPT.0,
                ACCEPT.1
            );
        }
        body += "--changes--\r\n--batch--\r\n";
        let headers = [("content-type", "multipart/mixed; boundary=batch"), ACCEPT];
        Some(self.client.attempt("POST", "/$batch", &[], &headers, body.as_bytes()).and_then(|response| {
            let text = response.text();
            let etags: Vec<String> = text
                .lines()
                .filter_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("etag")))
                .map(|(_, etag)| etag.trim().to_string())
                .collect();
            let status = text.lines().find_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse::<u16>().ok());
            match status {
                Some(status @ 400..) => Err(Answer::no(status, "in a transaction".into())),
                Some(_) if etags.len() == members.len() => Ok(etags),
                _ => Err(Answer::Broken(format!("not the answer to a transaction: {text}"))),
            }
        }))
    }
}
