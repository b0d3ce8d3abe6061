//! What a seed file declares, checked.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::Refusal;
use contract::names::{BlobName, ContainerName, FilePath, Metadata, QueueName, ShareName, TableName};
use serde::Deserialize;

/// A body is held in memory while it is sent.
const BODY_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// So many messages can be looked at without taking them.
pub const MESSAGES_MAX: usize = 32;

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Declared {
    #[serde(default)]
    container: Vec<DeclaredContainer>,
    #[serde(default)]
    queue: Vec<Queue>,
    #[serde(default)]
    table: Vec<DeclaredTable>,
    #[serde(default)]
    share: Vec<DeclaredShare>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeclaredContainer {
    name: String,
    public: Option<Public>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    blob: Vec<DeclaredBlob>,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Public {
    Blob,
    Container,
}

impl Public {
    pub fn word(self) -> &'static str {
        match self {
            Public::Blob => "blob",
            Public::Container => "container",
        }
    }
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeclaredBlob {
    name: String,
    text: Option<String>,
    base64: Option<String>,
    file: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Queue {
    pub name: String,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub messages: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeclaredTable {
    name: String,
    #[serde(default)]
    entity: Vec<toml::Table>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeclaredShare {
    name: String,
    quota: Option<u32>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    directories: Vec<String>,
    #[serde(default)]
    file: Vec<DeclaredFile>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct DeclaredFile {
    path: String,
    text: Option<String>,
    base64: Option<String>,
    file: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// All there is to be.
#[derive(Debug)]
pub struct Plan {
    pub containers: Vec<Container>,
    pub queues: Vec<Queue>,
    pub tables: Vec<Table>,
    pub shares: Vec<Share>,
}

#[derive(Debug)]
pub struct Container {
    pub name: String,
    pub public: Option<Public>,
    pub metadata: BTreeMap<String, String>,
    pub blobs: Vec<Object>,
}

/// A blob or a file.
#[derive(Debug)]
pub struct Object {
    pub name: String,
    pub body: Bytes,
    pub content_type: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct Table {
    pub name: String,
    pub entities: Vec<Entity>,
}

#[derive(Debug)]
pub struct Entity {
    pub partition_key: String,
    pub row_key: String,
    /// With the types that JSON cannot say.
    pub json: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug)]
pub struct Share {
    pub name: String,
    pub quota: Option<u32>,
    pub metadata: BTreeMap<String, String>,
    /// Parents before children.
    pub directories: Vec<String>,
    pub files: Vec<Object>,
}

impl Plan {
    pub fn read(path: &Path) -> Result<Plan, String> {
        let (declared, _) = crate::config::read_toml::<Declared>(path)?;
        let beside = path.parent().unwrap_or(Path::new("."));
        Plan::of(declared, beside).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn of(declared: Declared, beside: &Path) -> Result<Plan, String> {
        let mut plan = Plan { containers: Vec::new(), queues: Vec::new(), tables: Vec::new(), shares: Vec::new() };
        let mut once = Once(HashSet::new());
        for container in declared.container {
            let what = format!("container {}", container.name);
            named(&what, ContainerName::parse(&container.name))?;
            once.check(&what)?;
            check_metadata(&what, &container.metadata)?;
            let mut blobs = Vec::new();
            for blob in container.blob {
                let what = format!("blob {}/{}", container.name, blob.name);
                named(&what, BlobName::parse(&blob.name))?;
                once.check(&what)?;
                check_metadata(&what, &blob.metadata)?;
                check_tags(&what, &blob.tags)?;
                let body = body(&what, beside, blob.text, blob.base64, blob.file)?;
                let DeclaredBlob { name, content_type, metadata, tags, .. } = blob;
                blobs.push(Object { name, body, content_type, metadata, tags });
            }
            let DeclaredContainer { name, public, metadata, .. } = container;
            plan.containers.push(Container { name, public, metadata, blobs });
        }
        for queue in declared.queue {
            let what = format!("queue {}", queue.name);
            named(&what, QueueName::parse(&queue.name))?;
            once.check(&what)?;
            check_metadata(&what, &queue.metadata)?;
            if queue.messages.len() > MESSAGES_MAX {
                return Err(format!(
                    "{what}: at most {MESSAGES_MAX} messages, so that they can be compared with those that are there"
                ));
            }
            plan.queues.push(queue);
        }
        for table in declared.table {
            let what = format!("table {}", table.name);
            named(&what, TableName::parse(&table.name))?;
            once.check(&what.to_lowercase())?;
            let mut entities = Vec::new();
            for (at, properties) in table.entity.iter().enumerate() {
                let entity = entity(properties).map_err(|error| format!("{what}, entity {}: {error}", at + 1))?;
                once.check(&format!("{what} ({:?}, {:?})", entity.partition_key, entity.row_key))?;
                entities.push(entity);
            }
            plan.tables.push(Table { name: table.name, entities });
        }
        for share in declared.share {
            plan.shares.push(share_of(share, beside, &mut once)?);
        }
        Ok(plan)
    }
}

fn share_of(share: DeclaredShare, beside: &Path, once: &mut Once) -> Result<Share, String> {
    let what = format!("share {}", share.name);
    named(&what, ShareName::parse(&share.name))?;
    once.check(&what)?;
    check_metadata(&what, &share.metadata)?;
    let mut directories: Vec<String> = Vec::new();
    let mut add = |path: &str| {
        // Every directory on the way is to be there as well.
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            if at > 0 && !directories.iter().any(|other| other == &path[..at]) {
                directories.push(path[..at].to_owned());
            }
        }
    };
    for directory in &share.directories {
        let path = directory.trim_matches('/');
        named(&format!("directory {}/{path}", share.name), FilePath::parse(path, false))?;
        add(path);
    }
    let mut files = Vec::new();
    for file in share.file {
        let what = format!("file {}/{}", share.name, file.path);
        named(&what, FilePath::parse(&file.path, false))?;
        once.check(&what)?;
        check_metadata(&what, &file.metadata)?;
        if let Some((parent, _)) = file.path.rsplit_once('/') {
            add(parent);
        }
        let body = body(&what, beside, file.text, file.base64, file.file)?;
        let DeclaredFile { path, content_type, metadata, .. } = file;
        files.push(Object { name: path, body, content_type, metadata, tags: BTreeMap::new() });
    }
    let DeclaredShare { name, quota, metadata, .. } = share;
    Ok(Share { name, quota, metadata, directories, files })
}

/// What was declared.
struct Once(HashSet<String>);

impl Once {
    fn check(&mut self, what: &str) -> Result<(), String> {
        if self.0.insert(what.to_owned()) { Ok(()) } else { Err(format!("{what} is declared twice")) }
    }
}

fn named<T>(what: &str, parsed: Result<T, Refusal>) -> Result<(), String> {
    parsed.map(drop).map_err(|refusal| format!("{what}: {}", refusal.code.message()))
}

fn check_metadata(what: &str, metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let pairs = metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    named(&format!("{what}, metadata"), Metadata::parse(pairs))?;
    match metadata.values().find(|value| !value.bytes().all(|byte| (b' '..=b'~').contains(&byte))) {
        Some(value) => Err(format!("{what}, metadata: {value:?} cannot be sent as a header: it has ASCII only")),
        None => Ok(()),
    }
}

fn check_tags(what: &str, tags: &BTreeMap<String, String>) -> Result<(), String> {
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || " +-./:=_".contains(c));
    for (name, value) in tags {
        if tags.len() > 10
            || name.is_empty()
            || name.len() > 128
            || value.len() > 256
            || !is_plain(name)
            || !is_plain(value)
        {
            return Err(format!(
                "{what}, tag {name:?}: a blob has at most 10 tags, of letters, digits and ` +-./:=_`, names of 1 to 128 and values of at most 256"
            ));
        }
    }
    Ok(())
}

fn body(
    what: &str,
    beside: &Path,
    text: Option<String>,
    base64: Option<String>,
    file: Option<String>,
) -> Result<Bytes, String> {
    match (text, base64, file) {
        (Some(text), None, None) => Ok(Bytes::from(text)),
        (None, Some(text), None) => {
            STANDARD.decode(text).map(Bytes::from).map_err(|_| format!("{what}: base64 is not Base64"))
        }
        (None, None, Some(path)) => {
            let path = beside.join(path);
            let told = |error: std::io::Error| format!("{what}: cannot read {}: {error}", path.display());
            let bytes = std::fs::metadata(&path).map_err(told)?.len();
            if bytes > BODY_BYTES_MAX {
                return Err(format!(
                    "{what}: {} has {bytes} bytes, and a seed has at most {BODY_BYTES_MAX}",
                    path.display()
                ));
            }
            std::fs::read(&path).map(Bytes::from).map_err(told)
        }
        (None, None, None) => Ok(Bytes::new()),
        _ => Err(format!("{what}: its content is one of text, base64 and file")),
    }
}

fn entity(properties: &toml::Table) -> Result<Entity, String> {
    use serde_json::{Map, Value, json};
    let key = |name: &str| match properties.get(name) {
        Some(toml::Value::String(text)) => Ok(text.clone()),
        _ => Err(format!("{name} is missing, or no text")),
    };
    let (partition_key, row_key) = (key("PartitionKey")?, key("RowKey")?);
    let mut json = Map::new();
    for (name, value) in properties {
        let (value, kind) = match value {
            toml::Value::String(text) => (json!(text), None),
            toml::Value::Boolean(is_so) => (json!(is_so), None),
            toml::Value::Integer(number) if i32::try_from(*number).is_ok() => (json!(number), None),
            toml::Value::Integer(number) => (json!(number.to_string()), Some("Edm.Int64")),
            toml::Value::Float(number) if number.is_finite() => (json!(number), Some("Edm.Double")),
            toml::Value::Datetime(moment) => (json!(moment.to_string()), Some("Edm.DateTime")),
            _ => return Err(format!("{name}: a property is a text, a number, true or false, or a time")),
        };
        if let Some(kind) = kind {
            json.insert(format!("{name}@odata.type"), Value::String(kind.to_owned()));
        }
        json.insert(name.clone(), value);
    }
    Ok(Entity { partition_key, row_key, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let declared = toml::from_str(text).map_err(|error| error.to_string())?;
        Plan::of(declared, Path::new("/nowhere"))
    }

    #[test]
    fn what_is_declared() {
        let plan = plan(
            r#"
            [[container]]
            name = "pictures"
            public = "blob"
            [[container.blob]]
            name = "a.txt"
            text = "hello"
            tags = { kind = "text" }
            [[queue]]
            name = "jobs"
            messages = ["one"]
            [[table]]
            name = "People"
            [[table.entity]]
            PartitionKey = "a"
            RowKey = "1"
            age = 7
            big = 5000000000
            [[share]]
            name = "files"
            directories = ["x/y"]
            [[share.file]]
            path = "a/b/c.txt"
            base64 = "aGk="
            "#,
        )
        .expect("right");
        assert_eq!(plan.containers[0].blobs[0].body, "hello");
        let json = &plan.tables[0].entities[0].json;
        assert_eq!(json["age"], 7);
        assert_eq!((&json["big"], &json["big@odata.type"]), (&"5000000000".into(), &"Edm.Int64".into()));
        assert_eq!(plan.shares[0].directories, ["x", "x/y", "a", "a/b"]);
        assert_eq!(plan.shares[0].files[0].body, "hi");
    }

    #[test]
    fn refused_before_anything_is_written() {
        for (text, words) in [
            ("[[container]]\nname = \"A\"", "container A"),
            ("[[container]]\nname = \"abc\"\n[[container]]\nname = \"abc\"", "declared twice"),
            ("[[container]]\nname = \"abc\"\nblob = [{ name = \"x\", text = \"\", base64 = \"\" }]", "one of text"),
            ("[[container]]\nname = \"abc\"\nblob = [{ name = \"x\", base64 = \"*\" }]", "not Base64"),
            ("[[container]]\nname = \"abc\"\nblob = [{ name = \"x\", file = \"none\" }]", "cannot read"),
            ("[[container]]\nname = \"abc\"\nblob = [{ name = \"\" }]", "blob abc/"),
            ("[[container]]\nname = \"abc\"\nblob = [{ name = \"x\", tags = { a = \"ü\" } }]", "tag"),
            ("[[container]]\nname = \"abc\"\nmetadata = { \"1\" = \"x\" }", "metadata"),
            ("[[queue]]\nname = \"a\"", "queue a"),
            ("[[table]]\nname = \"1\"", "table 1"),
            ("[[table]]\nname = \"abc\"\nentity = [{ RowKey = \"1\" }]", "PartitionKey"),
            (
                "[[table]]\nname = \"abc\"\nentity = [{ PartitionKey = \"1\", RowKey = \"1\", a = [1] }]",
                "a property is",
            ),
            ("[[share]]\nname = \"S\"", "share S"),
            ("[[share]]\nname = \"abc\"\nfile = [{ path = \"a|b\" }]", "file abc/a|b"),
            ("[[shares]]\nname = \"abc\"", "unknown field"),
        ] {
            let error = plan(text).err().unwrap_or_else(|| panic!("{text} was taken"));
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
