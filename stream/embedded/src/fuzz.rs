//! Every reader of stored bytes, over bytes that may be anything: what is read is what would have been written.

use bytes::Bytes;
use engine::{Family, GroupId, PartitionId};

use crate::key;

/// Panics where a reader takes what no writer writes.
pub fn stored(bytes: &[u8]) {
    let stored = Bytes::copy_from_slice(bytes);
    if let Some(record) = key::decode_record(stored.clone()) {
        assert_eq!(key::encode_record(record.revision, &record.slices, &record.value), stored);
    }
    if let Some((address, rest)) = key::decode_ref_key(bytes) {
        assert_eq!(key::ref_key(address, rest), bytes);
    }
    if let Some((extent_bytes, ranges)) = key::decode_ref(bytes) {
        let ranges = ranges.into_iter().map(|(offset, bytes)| (u64::from(offset), u64::from(bytes)));
        assert_eq!(key::encode_ref(u64::from(extent_bytes), ranges), bytes);
    }
    if let Some((partition, record)) = key::split_partition(&stored) {
        let (group, family) = (GroupId(Bytes::new()), Family(0));
        let written = key::record_key(&PartitionId { group: group.clone(), key: partition }, family, &record);
        assert_eq!(written.strip_prefix(key::family_prefix(&group, family).as_slice()), Some(bytes));
    }
}
