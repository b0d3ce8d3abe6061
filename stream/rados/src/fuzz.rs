//! Every reader of what a cluster gives back, over bytes that may be anything: what is read is what would have been written.

use bytes::Bytes;
use engine::Family;

use crate::key;
use crate::owners::Owner;
use crate::value::{self, Drop, Group};

/// Panics where a reader takes what no writer writes.
pub fn stored(bytes: &[u8]) {
    let stored = Bytes::copy_from_slice(bytes);
    let values = [
        value::read_record(stored.clone()).map(|record| value::record(record.revision, &record.value, &record.slices)),
        value::read_revision(stored.clone()).map(value::revision),
        value::read_number(bytes).map(value::number),
        value::read_name(stored.clone()).map(|(at, partition)| value::name(at, &partition)),
        Drop::decode(bytes).map(Drop::encode),
        Group::decode(bytes).map(Group::encode),
        Owner::decode(stored.clone()).map(|owner| owner.encode()),
        key::split_emptied(bytes).map(|partition| key::emptied(&partition)),
        key::split_group(bytes).map(|group| key::group(&group)),
        key::split_naming(bytes).map(|(partition, extent)| match bytes.first() {
            Some(b'd') => key::drop(&partition, extent),
            _ => key::naming(&partition, extent),
        }),
    ];
    for written in values.into_iter().flatten() {
        assert_eq!(written, stored);
    }
    for family in [Family(0), Family(1), Family(2), Family(b'x')] {
        if let Some((partition, record)) = key::split_record(family, bytes) {
            assert_eq!(key::record(family, &partition, &record), stored);
        }
    }
}
