//! What stands in a store that may be damaged: every reader of stored bytes reads them or says that it cannot, and what it reads is
//! written as something that reads the same.

use bytes::Bytes;
use engine::Fault;
use partition::record::{
    account, blob, blocks, container, event, handle, kept, node, note, past, queue, service, share, table, tags,
};

/// Reads, and writes again what was read.
type Again = fn(&[u8]) -> Result<Bytes, Fault>;

/// Every shape a record may have.
const SHAPES: [Again; 26] = [
    |bytes| Ok(account::StoredAccount::decode(bytes)?.encode()),
    |bytes| Ok(blob::BlobHead::decode(bytes)?.encode()),
    |bytes| Ok(blocks::BlockList::decode(&Bytes::copy_from_slice(bytes))?.encode()),
    |bytes| Ok(blocks::Staging::decode(bytes)?.encode()),
    |bytes| Ok(container::ContainerHead::decode(bytes)?.encode()),
    |bytes| Ok(event::PendingEvent::decode(bytes)?.encode()),
    |bytes| Ok(event::encode_note(event::decode_note(bytes)?)),
    |bytes| Ok(handle::KeptHandle::decode(bytes)?.encode()),
    |bytes| Ok(kept::KeptHead::<container::ContainerHead>::decode(bytes)?.encode()),
    |bytes| Ok(kept::KeptHead::<share::ShareHead>::decode(bytes)?.encode()),
    |bytes| Ok(node::Entry::decode(bytes)?.encode()),
    |bytes| Ok(node::Node::decode(bytes)?.encode()),
    |bytes| Ok(note::PendingCopy::decode(bytes)?.encode()),
    |bytes| Ok(note::Copying::decode(bytes)?.encode()),
    |bytes| Ok(past::PastBlob::decode(bytes)?.encode()),
    |bytes| Ok(past::Mark::decode(bytes)?.encode()),
    |bytes| Ok(queue::QueueHead::decode(bytes)?.encode()),
    |bytes| Ok(queue::Place::read(bytes)?.key()),
    |bytes| Ok(queue::Message::decode(bytes)?.encode()),
    |bytes| Ok(queue::QueueState::decode(bytes)?.encode()),
    |bytes| Ok(service::ServiceProperties::decode(bytes)?.encode()),
    |bytes| Ok(share::ShareHead::decode(bytes)?.encode()),
    |bytes| Ok(share::ShareSnapshot::decode(bytes)?.encode()),
    |bytes| Ok(share::ShareState::decode(bytes)?.encode()),
    |bytes| Ok(table::TableHead::decode(bytes)?.encode()),
    |bytes| Ok(tags::encode(&tags::decode(bytes)?)),
];

/// A record, as if it were of each shape.
pub fn stored_record(bytes: &[u8]) {
    for again in SHAPES {
        if let Ok(written) = again(bytes) {
            // Fields may have come in another order or twice; written once, they stand.
            assert_eq!(again(&written).ok(), Some(written), "{bytes:02x?}");
        }
    }
    if let Ok(entity) = table::StoredEntity::decode(Bytes::copy_from_slice(bytes)) {
        assert_eq!(entity.encode(), bytes, "an entity is kept as it is stored");
        entity.properties().for_each(drop);
    }
}

/// What the engines put around records, in values and in keys.
pub fn engine_record(bytes: &[u8]) {
    embedded::fuzz::stored(bytes);
    rados::fuzz::stored(bytes);
}
