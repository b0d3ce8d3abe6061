//! Entities and tables as OData JSON, read and written at each level of metadata.
//!
//! 1. A number is taken from its digits and never through a type that could round it.
//! 2. A value whose annotation it does not fit is refused; nothing is guessed.
//! 3. What is written reads back as the same values, given the annotations of the level it is written at.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{ErrorCode, Refusal};
use env::{Id, Timestamp};
use partition::record::StoredEntity;
use partition::table::value::{
    EdmDateTime, EdmType, EntityKey, Properties, Value, ValueRef, parse_date_time, parse_double, parse_guid,
};
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::address::entity_link;
use super::media::Level;

/// An entity as a client sent it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SentEntity {
    pub partition_key: Option<EntityKey>,
    pub row_key: Option<EntityKey>,
    /// Without nulls, which store nothing.
    pub properties: Properties,
}

fn invalid(what: impl Into<String>) -> Refusal {
    Refusal::from(ErrorCode::InvalidInput).saying(what)
}

/// The members of a JSON object, values as they were written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn members(body: &[u8]) -> Result<Vec<(String, Box<RawValue>)>, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| invalid("The body is not UTF-8."))?;
    let text = text.trim_start_matches('\u{feff}');
    let members: Members =
        serde_json::from_str(text).map_err(|error| invalid(format!("The body is not a JSON object: {error}.")))?;
    Ok(members.0)
}

pub fn read_entity(body: &[u8]) -> Result<SentEntity, Refusal> {
    const TYPE: &str = "@odata.type";
    let mut annotations: Vec<(String, String)> = Vec::new();
    let mut values = Vec::new();
    for (name, raw) in members(body)? {
        if let Some(of) = name.strip_suffix(TYPE) {
            annotations.push((of.to_string(), text(&raw).ok_or_else(|| invalid(format!("{name} is not a string.")))?));
        } else if !name.starts_with("odata.") && !name.contains('@') {
            values.push((name, raw));
        }
    }
    annotations.sort();
    let annotation = |name: &str| {
        let at = annotations.binary_search_by(|(of, _)| of.as_str().cmp(name)).ok()?;
        Some(annotations[at].1.as_str())
    };
    let mut entity = SentEntity::default();
    let mut properties = Vec::new();
    for (name, raw) in values {
        let key = match name.as_str() {
            "PartitionKey" => &mut entity.partition_key,
            "RowKey" => &mut entity.row_key,
            // The service's own; what a client says of it is not looked at.
            "Timestamp" => continue,
            _ => {
                if let Some(value) = read_value(&name, annotation(&name), raw.get())? {
                    properties.push((name, value));
                }
                continue;
            }
        };
        if annotation(&name).is_some_and(|of| of != EdmType::String.name()) {
            return Err(invalid(format!("{name} is a string.")));
        }
        if raw.get() == "null" {
            continue;
        }
        let value = text(&raw).ok_or_else(|| invalid(format!("{name} is not a string.")))?;
        if key.replace(EntityKey::parse(&value)?).is_some() {
            return Err(ErrorCode::DuplicatePropertiesSpecified.into());
        }
    }
    entity.properties = Properties::parse(properties)?;
    Ok(entity)
}

/// `{"TableName":"…"}`
pub fn read_table_name(body: &[u8]) -> Result<String, Refusal> {
    let name = members(body)?.into_iter().find(|(name, _)| name == "TableName");
    let (_, raw) = name.ok_or(ErrorCode::PropertiesNeedValue)?;
    text(&raw).ok_or_else(|| invalid("TableName is not a string."))
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// `None` for null.
fn read_value(name: &str, annotation: Option<&str>, raw: &str) -> Result<Option<Value>, Refusal> {
    let wrong = |of: EdmType| invalid(format!("The value of property '{name}' is no {}.", of.name()));
    if raw == "null" {
        return Ok(None);
    }
    let of = match annotation {
        None => None,
        Some(annotation) => Some(EdmType::parse(annotation).ok_or_else(|| {
            Refusal::from(ErrorCode::InvalidValueType)
                .saying(format!("'{annotation}' of property '{name}' is no type."))
        })?),
    };
    let quoted: Option<String> =
        if raw.starts_with('"') { Some(serde_json::from_str(raw).map_err(|_| wrong(EdmType::String))?) } else { None };
    if raw.starts_with(['{', '[']) {
        return Err(invalid(format!("The value of property '{name}' is neither a string, a number nor a truth.")));
    }
    let of = of.unwrap_or(match raw.as_bytes()[0] {
        b'"' => EdmType::String,
        b't' | b'f' => EdmType::Boolean,
        _ if raw.contains(['.', 'e', 'E']) => EdmType::Double,
        _ => EdmType::Int32,
    });
    // A number or a truth may be quoted where its type is stated.
    let written = quoted.as_deref().unwrap_or(raw);
    let value = match of {
        EdmType::String => quoted.map(Value::String),
        EdmType::Binary => quoted.and_then(|text| STANDARD.decode(text).ok()).map(Value::Binary),
        EdmType::Guid => quoted.as_deref().and_then(parse_guid).map(Value::Guid),
        EdmType::DateTime => quoted.as_deref().and_then(parse_date_time).map(Value::DateTime),
        EdmType::Boolean => match written {
            "true" => Some(Value::Boolean(true)),
            "false" => Some(Value::Boolean(false)),
            _ => None,
        },
        EdmType::Int32 => written.parse().ok().map(Value::Int32),
        EdmType::Int64 => written.parse().ok().map(Value::Int64),
        EdmType::Double => parse_double(written).map(Value::Double),
    };
    value.map(Some).ok_or_else(|| wrong(of))
}

/// `$select`: the names as they were asked for, and the list as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Select {
    pub written: String,
    /// `None` for all.
    pub names: Option<Vec<String>>,
}

/// Writes answers of one table at one level.
pub struct Writer<'a> {
    pub level: Level,
    /// Ends in a slash.
    pub endpoint: &'a str,
    pub account: &'a str,
    pub select: Option<&'a Select>,
}

impl Writer<'_> {
    /// The list of tables.
    pub fn tables(&self, names: &[String]) -> String {
        let mut out = self.open("Tables");
        out.push_str("\"value\":[");
        for (at, name) in names.iter().enumerate() {
            out.push_str(if at > 0 { ",{" } else { "{" });
            self.table_members(&mut out, name);
            out.push('}');
        }
        out.push_str("]}");
        out
    }

    /// One table.
    pub fn table(&self, name: &str) -> String {
        let mut out = self.open("Tables/@Element");
        self.table_members(&mut out, name);
        out.push('}');
        out
    }

    fn table_members(&self, out: &mut String, name: &str) {
        if self.level == Level::Full {
            let _ = write!(
                out,
                "\"odata.type\":\"{}.Tables\",\"odata.id\":\"{}Tables('{name}')\",\"odata.editLink\":\"Tables('{name}')\",",
                self.account, self.endpoint
            );
        }
        let _ = write!(out, "\"TableName\":\"{name}\"");
    }

    /// A page of entities: partition key, row key, and the rest.
    pub fn entities<'e>(
        &self,
        table: &str,
        entities: impl Iterator<Item = (&'e str, &'e str, &'e StoredEntity)>,
    ) -> String {
        let mut out = self.open(table);
        out.push_str("\"value\":[");
        for (at, (partition_key, row_key, entity)) in entities.enumerate() {
            out.push_str(if at > 0 { ",{" } else { "{" });
            self.entity_members(&mut out, table, partition_key, row_key, entity);
            out.push('}');
        }
        out.push_str("]}");
        out
    }

    /// One entity.
    pub fn entity(&self, table: &str, partition_key: &str, row_key: &str, entity: &StoredEntity) -> String {
        let mut out = self.open(&format!("{table}/@Element"));
        self.entity_members(&mut out, table, partition_key, row_key, entity);
        out.push('}');
        out
    }

    /// The brace, and `odata.metadata` where it belongs.
    fn open(&self, of: &str) -> String {
        let mut out = String::with_capacity(1024);
        out.push('{');
        if self.level != Level::No {
            let select = self.select.map(|select| format!("&$select={}", select.written)).unwrap_or_default();
            out.push_str("\"odata.metadata\":");
            put_text(&mut out, &format!("{}$metadata#{of}{select}", self.endpoint));
            out.push(',');
        }
        out
    }

    fn entity_members(&self, out: &mut String, table: &str, partition_key: &str, row_key: &str, entity: &StoredEntity) {
        if self.level == Level::Full {
            let link = entity_link(table, partition_key, row_key);
            let _ =
                write!(out, "\"odata.type\":\"{}.{table}\",\"odata.id\":\"{}{link}\",", self.account, self.endpoint);
            out.push_str("\"odata.etag\":");
            put_text(out, &etag(entity.timestamp()));
            let _ = write!(out, ",\"odata.editLink\":\"{link}\",");
        } else if self.level == Level::Minimal {
            out.push_str("\"odata.etag\":");
            put_text(out, &etag(entity.timestamp()));
            out.push(',');
        }
        let own = |name: &str| match name {
            "PartitionKey" => Some(ValueRef::String(partition_key)),
            "RowKey" => Some(ValueRef::String(row_key)),
            "Timestamp" => Some(ValueRef::DateTime(entity.timestamp())),
            _ => None,
        };
        match self.select.and_then(|select| select.names.as_ref()) {
            Some(names) => {
                for name in names {
                    self.member(out, name, own(name).or_else(|| entity.property(name)));
                }
            }
            None => {
                for name in ["PartitionKey", "RowKey", "Timestamp"] {
                    self.member(out, name, own(name));
                }
                for (name, value) in entity.properties() {
                    self.member(out, name, Some(value));
                }
            }
        }
        if out.ends_with(',') {
            out.pop();
        }
    }

    /// A property with its annotation, and the comma after it.
    fn member(&self, out: &mut String, name: &str, value: Option<ValueRef<'_>>) {
        let annotation = match value {
            Some(ValueRef::Double(double)) if double.is_finite() => None,
            // Quirk: at the minimal level the service leaves the type of its own property unsaid.
            Some(ValueRef::DateTime(_)) if name == "Timestamp" && self.level != Level::Full => None,
            Some(value) => match value.edm_type() {
                EdmType::String | EdmType::Boolean | EdmType::Int32 => None,
                of => Some(of),
            },
            None => None,
        };
        if let Some(of) = annotation.filter(|_| self.level != Level::No) {
            put_text(out, &format!("{name}@odata.type"));
            let _ = write!(out, ":\"{}\",", of.name());
        }
        put_text(out, name);
        out.push(':');
        match value {
            None => out.push_str("null"),
            Some(value) => put_value(out, value),
        }
        out.push(',');
    }
}

fn put_value(out: &mut String, value: ValueRef<'_>) {
    let _ = match value {
        ValueRef::String(text) => {
            put_text(out, text);
            Ok(())
        }
        ValueRef::Binary(bytes) => write!(out, "\"{}\"", STANDARD.encode(bytes)),
        ValueRef::Boolean(value) => write!(out, "{value}"),
        ValueRef::Int32(value) => write!(out, "{value}"),
        ValueRef::Int64(value) => write!(out, "\"{value}\""),
        ValueRef::Double(value) if value.is_nan() => write!(out, "\"NaN\""),
        ValueRef::Double(f64::INFINITY) => write!(out, "\"Infinity\""),
        ValueRef::Double(f64::NEG_INFINITY) => write!(out, "\"-Infinity\""),
        // The fewest digits that read back as the same number, and always a point or an exponent.
        ValueRef::Double(value) => write!(out, "{value:?}"),
        ValueRef::DateTime(moment) => write!(out, "\"{}\"", EdmDateTime(moment)),
        ValueRef::Guid(guid) => write!(out, "\"{}\"", Id(guid)),
    };
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `W/"datetime'2017-11-10T02%3A43%3A35.8460923Z'"`
pub fn etag(timestamp: Timestamp) -> String {
    let mut text = String::with_capacity(52);
    text.push_str("W/\"datetime'");
    for (at, part) in EdmDateTime(timestamp).to_string().split(':').enumerate() {
        text.push_str(if at > 0 { "%3A" } else { "" });
        text.push_str(part);
    }
    text.push_str("'\"");
    text
}

/// The moment in an ETag of this service; `None` if it is another's.
pub fn parse_etag(text: &str) -> Option<Timestamp> {
    let inner = text.strip_prefix("W/").unwrap_or(text).strip_prefix('"')?.strip_suffix('"')?;
    let moment = inner.strip_prefix("datetime'")?.strip_suffix('\'')?;
    let moment = moment.replace("%3A", ":").replace("%3a", ":");
    let parsed = parse_date_time(&moment)?;
    (EdmDateTime(parsed).to_string() == moment).then_some(parsed)
}

/// The body of a refusal.
pub fn error(refusal: &Refusal, id: Id, now: Timestamp) -> String {
    let mut out =
        format!("{{\"odata.error\":{{\"code\":\"{}\",\"message\":{{\"lang\":\"en-US\",\"value\":", refusal.code.name());
    put_text(&mut out, &format!("{}\nRequestId:{id}\nTime:{}", refusal.message(), now.iso8601()));
    out.push_str("}}}");
    out
}

#[cfg(test)]
mod tests;
