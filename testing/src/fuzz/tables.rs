//! What strangers send to the Table service: filters, entities, batches.

use env::Timestamp;
use http::table::json::{Writer, read_entity};
use http::table::media::Level;
use http::table::multipart::{self, Batch};
use partition::record::StoredEntity;
use partition::table::filter::Filter;
use partition::table::plan::plan;
use partition::table::value::ValueRef;

/// What matches a filter lies among the keys that its plan reads.
pub fn odata_filter(bytes: &[u8]) {
    let Ok(filter) = std::str::from_utf8(bytes).map_err(drop).and_then(|text| Filter::parse(text).map_err(drop)) else {
        return;
    };
    let keys = plan(&filter);
    for partition_key in ["", "a", "b", "c"] {
        for row_key in ["", "a", "b", "c"] {
            for other in [None, Some(ValueRef::Int32(1)), Some(ValueRef::Boolean(true)), Some(ValueRef::String("a"))] {
                let matches = filter.matches(|name| match name {
                    "PartitionKey" => Some(ValueRef::String(partition_key)),
                    "RowKey" => Some(ValueRef::String(row_key)),
                    _ => other,
                });
                assert!(!matches || keys.contains(partition_key, row_key), "{partition_key} {row_key} is not planned");
            }
        }
    }
}

/// An entity that was taken is written, and read back as the same.
pub fn odata_entity(bytes: &[u8]) {
    let Ok(sent) = read_entity(bytes) else { return };
    let stored = StoredEntity::new(Timestamp::UNIX_EPOCH, sent.properties.iter());
    let again = StoredEntity::decode(stored.encode()).expect("what was written");
    for level in [Level::Minimal, Level::Full] {
        let writer = Writer { level, endpoint: "http://h/dev/", account: "dev", select: None };
        let written = writer.entity("people", "a", "b", &again);
        let read = read_entity(written.as_bytes()).expect("our own");
        let read = StoredEntity::new(Timestamp::UNIX_EPOCH, read.properties.iter());
        assert_eq!(read.encode(), stored.encode(), "{written}");
    }
}

/// A batch is parsed or refused; no body makes more parts than are refused as too many.
pub fn table_batch(bytes: &[u8]) {
    if let Ok(Batch::Changes(parts)) = multipart::parse("multipart/mixed; boundary=b", bytes) {
        assert!((1..=101).contains(&parts.len()));
    }
}
