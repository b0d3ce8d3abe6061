//! A small world of all services that is found sound; then one thing at a time is changed, and told in words.

use std::collections::BTreeMap;
use std::ops::Bound;

use contract::Service;
use contract::attributes::FileAttributes;
use contract::names::{AccountName, Metadata};
use engine::{Extent, ExtentSlice, Revision, Row, ScanStart};
use env::{Id, Timestamp};

use super::*;
use crate::blob::state::PastId;
use crate::etag::ETag;
use crate::events::event_key;
use crate::file::security::PermissionKey;
use crate::file::tree::node_key;
use crate::key::{container, directory, queue, share, table};
use crate::queue::message::{expiry_key, id_key};
use crate::record::blob::tests::plain;
use crate::record::blocks::{Block, BlockList, Staging};
use crate::record::event::tests::pending;
use crate::record::past::{Mark, PastBlob};
use crate::record::share::SeenBy;
use crate::record::{
    BlobHead, BlobKind, ContainerHead, Entry, FileId, Message, Node, NodeKind, Place, QueueHead, QueueState, ShareHead,
    ShareSnapshot, ShareState, StoredEntity, TableHead, tags,
};

/// Group, family, partition, key.
type Where = (Bytes, u8, Bytes, Bytes);

#[derive(Clone, Default)]
struct World(BTreeMap<Where, Record>);

fn record(value: Bytes) -> Record {
    Record { revision: Revision(1), value, slices: Vec::new() }
}

impl World {
    fn put(&mut self, group: &GroupId, family: Family, partition: &str, key: &[u8], value: impl Into<Bytes>) {
        self.put_record(group, family, partition, key, record(value.into()));
    }

    fn put_record(&mut self, group: &GroupId, family: Family, partition: &str, key: &[u8], record: Record) {
        let (partition, key) = (Bytes::copy_from_slice(partition.as_bytes()), Bytes::copy_from_slice(key));
        self.0.insert((group.0.clone(), family.0, partition, key), record);
    }

    fn remove(&mut self, group: &GroupId, family: Family, partition: &str, key: &[u8]) {
        let place =
            (group.0.clone(), family.0, Bytes::copy_from_slice(partition.as_bytes()), Bytes::copy_from_slice(key));
        self.0.remove(&place).expect("it was there");
    }
}

impl Records for World {
    /// One row at a time: whoever asks must come again.
    fn scan(&self, range: &GroupRange, _: usize) -> Result<Page, Fault> {
        let at = |partition: &Bytes, key: Bytes| (range.group.0.clone(), range.family.0, partition.clone(), key);
        let start = match &range.start {
            ScanStart::AtPartition(partition) => Bound::Included(at(partition, Bytes::new())),
            ScanStart::After { partition, key } => Bound::Excluded(at(partition, key.clone())),
        };
        let mut found = self.0.range((start, Bound::Unbounded));
        let mut next =
            || found.next().filter(|((group, family, ..), _)| (group, *family) == (&range.group.0, range.family.0));
        let row = next().map(|((_, _, partition, key), record)| Row {
            partition: partition.clone(),
            key: key.clone(),
            record: record.clone(),
        });
        Ok(Page { rows: row.into_iter().collect(), more: next().is_some() })
    }

    fn get(&self, partition: &PartitionId, family: Family, key: &[u8]) -> Result<Option<Record>, Fault> {
        let place = (partition.group.0.clone(), family.0, partition.key.clone(), Bytes::copy_from_slice(key));
        Ok(self.0.get(&place).cloned())
    }

    fn next_group(&self, after: Option<&GroupId>) -> Result<Option<GroupId>, Fault> {
        Ok(self
            .0
            .keys()
            .map(|(group, ..)| group)
            .find(|group| after.is_none_or(|after| **group > after.0))
            .cloned()
            .map(GroupId))
    }
}

struct Heard(Vec<String>);

impl Listener for Heard {
    fn finding(&mut self, words: String) {
        self.0.push(words);
    }
    fn progress(&mut self, _: &Counted) {}
}

fn account() -> AccountName {
    AccountName::parse("abc").expect("a name")
}

fn names(service: Service) -> GroupId {
    key::directory_group(service, &account())
}

fn contents(service: Service) -> GroupId {
    key::contents_group(service, &account(), Id(7))
}

fn run_key(prefix: &[u8], last: u64) -> Vec<u8> {
    [prefix, &last.to_be_bytes()].concat()
}

fn moment(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks)
}

const PAST: PastId = PastId { ticks: 30, is_version: false };

fn blobs(world: &mut World) {
    let (heads, group) = (names(Service::Blob), contents(Service::Blob));
    let head = ContainerHead {
        incarnation: Id(7),
        etag: ETag(1),
        last_modified: moment(1),
        metadata: Metadata::default(),
        public_access: Default::default(),
        policies: Vec::new(),
        lease: None,
    };
    world.put(&heads, directory::HEAD, "box", b"", head.encode());
    // One record; tags; a snapshot.
    let single =
        BlobHead { content_bytes: 5, tags: vec![("a".into(), "b".into())], expires: Some(moment(99)), ..plain() };
    world.put(&group, container::HEAD, "single", b"", single.encode());
    world.put(&group, container::BODY, "single", b"", "12345");
    world.put(&group, container::TAGGED, "single", b"", tags::encode(&single.tags));
    world.put(&group, container::EXPIRING, "single", b"", 99u64.to_be_bytes().to_vec());
    world.put(&group, container::HAS_PAST, "single", b"", Mark { last_id: 30, due: None }.encode());
    let past = PastBlob { head: BlobHead { content_bytes: 2, ..plain() }, was_base: false, deleted: None };
    world.put(&group, container::PAST, "single", &PAST.key(), past.encode());
    world.put(&group, container::PAST_BODY, "single", &PAST.key(), "12");
    // Blocks, in two runs of which one is in an extent; and more that is staged.
    let blocks = BlobHead { content_bytes: 30, in_runs: true, ..plain() };
    world.put(&group, container::HEAD, "blocks", b"", blocks.encode());
    let extent = ExtentSlice::whole(Extent { id: 1, bytes: 20 });
    world.put_record(
        &group,
        container::BODY,
        "blocks",
        &run_key(b"", 19),
        Record { slices: vec![extent], ..record(Bytes::new()) },
    );
    world.put(&group, container::BODY, "blocks", &run_key(b"", 29), "1234567890");
    let block = |bytes| Block { id: Bytes::from_static(b"id"), bytes };
    world.put(&group, container::BLOCKS, "blocks", b"", BlockList(vec![block(20), block(10)]).encode());
    let staging = Staging { last_staged: moment(1), blocks: 1, id_bytes: 2, lease: None };
    world.put(&group, container::STAGING, "blocks", b"", staging.encode());
    world.put(&group, container::STAGED, "blocks", b"id", "staged");
    // Pages, with holes.
    let kind = BlobKind::Page { sequence: 0, made: 1 };
    let pages = BlobHead { content_bytes: 4096, in_runs: true, kind, ..plain() };
    world.put(&group, container::HEAD, "pages", b"", pages.encode());
    world.put(&group, container::BODY, "pages", &run_key(b"", 1535), vec![0; 512]);
}

fn messages(world: &mut World) {
    let (heads, group) = (names(Service::Queue), contents(Service::Queue));
    let head = QueueHead { incarnation: Id(7), metadata: Metadata::default(), policies: Vec::new() };
    world.put(&heads, directory::HEAD, "line", b"", head.encode());
    for (number, expiry) in [(1, moment(50)), (2, Timestamp::MAX)] {
        let place = Place { next_visible: moment(10), number };
        let id = Id(number.into());
        let message = Message { id, inserted: moment(1), expiry, dequeue_count: 0, receipt: Id(3), at_once: true };
        world.put(&group, queue::VISIBLE, "", &place.key(), message.encode());
        world.put(&group, queue::POINTER, "", &id_key(id), place.key());
        world.put(&group, queue::TEXT, "", &id_key(id), "text");
        if expiry != Timestamp::MAX {
            world.put(&group, queue::EXPIRY, "", &expiry_key(expiry, id), "");
        }
    }
    world.put(&group, queue::STATE, "", b"", queue_state(2, 10, 50));
}

fn queue_state(count: u64, floor: u64, expiry_floor: u64) -> Bytes {
    let floor = Place { next_visible: moment(floor), number: 0 };
    QueueState { count, floor, removed: None, expiry_floor: moment(expiry_floor), at_once_last: moment(10) }.encode()
}

fn entities(world: &mut World) {
    let (heads, group) = (names(Service::Table), contents(Service::Table));
    let head = TableHead { incarnation: Id(7), name: "People".into(), policies: Vec::new() };
    world.put(&heads, directory::HEAD, "people", b"", head.encode());
    world.put(&group, table::ENTITY, "pk", b"rk", StoredEntity::new(moment(1), std::iter::empty()).encode());
}

fn versioned(since: u64, value: &[u8]) -> Vec<u8> {
    [&since.to_be_bytes(), value].concat()
}

fn node(id: u64, kind: NodeKind) -> Node {
    Node {
        id: FileId(id),
        kind,
        etag: ETag(1),
        last_modified: moment(1),
        attributes: FileAttributes::ARCHIVE,
        created: moment(1),
        written: moment(1),
        changed: moment(1),
        accessed: None,
        permission: None,
        properties: Default::default(),
        metadata: Metadata::default(),
        lease: None,
        copy: None,
        posix: None,
    }
}

fn share_head(snapshots: u32) -> ShareHead {
    ShareHead {
        incarnation: Id(7),
        etag: ETag(1),
        last_modified: moment(1),
        created: moment(1),
        metadata: Metadata::default(),
        quota_gib: 1,
        tier: Default::default(),
        tier_changed: None,
        protocol: Default::default(),
        root_squash: Default::default(),
        snapshot_directory: false,
        policies: Vec::new(),
        lease: None,
        snapshots,
    }
}

fn share_state(used_bytes: u64, generation: u64) -> Bytes {
    let snapshots = vec![SeenBy { generation: 1, taken: moment(5) }];
    ShareState { generation, snapshots, used_bytes, last_snapshot: Some(moment(5)) }.encode()
}

fn entry_key(parent: u64, name: &str) -> Vec<u8> {
    [&parent.to_be_bytes(), name.as_bytes()].concat()
}

fn entry(name: &str, id: u64, is_directory: bool) -> Vec<u8> {
    versioned(1, &Entry { name: name.to_owned(), id: FileId(id), is_directory }.encode())
}

const BODY: u64 = 40;

fn files(world: &mut World) {
    let (heads, group) = (names(Service::File), contents(Service::File));
    world.put(&heads, directory::HEAD, "work", b"", share_head(1).encode());
    let taken = [&Id(7).0.to_be_bytes()[..], &5u64.to_be_bytes()].concat();
    let snapshot = ShareSnapshot { head: share_head(0), generation: 1 };
    world.put(&heads, directory::SNAPSHOT, "work", &taken, snapshot.encode());
    world.put(&group, share::STATE, "", b"", share_state(100, 2));
    world.put(&group, share::ENTRY, "", &entry_key(0, "DIR"), entry("dir", 11, true));
    world.put(&group, share::ENTRY, "", &entry_key(11, "FILE"), entry("File", 12, false));
    world.put(&group, share::NODE, "", &node_key(FileId(11)), versioned(1, &node(11, NodeKind::Directory).encode()));
    let file = node(12, NodeKind::File { bytes: 100, body: BODY });
    world.put(&group, share::NODE, "", &node_key(FileId(12)), versioned(2, &file.encode()));
    world.put(&group, share::RUN, "", &run_key(&BODY.to_be_bytes(), 9), versioned(1, &versioned(1, b"0123456789")));
    let was = [&node_key(FileId(12))[..], &[0], &1u64.to_be_bytes()].concat();
    world.put(&group, share::PAST_NODE, "", &was, versioned(1, &file.encode()));
}

fn sound() -> World {
    let mut world = World::default();
    blobs(&mut world);
    messages(&mut world);
    entities(&mut world);
    files(&mut world);
    world.put(&key::system_group(), key::system::CEILING, "ticks", b"", 9u64.to_be_bytes().to_vec());
    world
}

fn look(world: &World) -> (Vec<String>, Counted) {
    let mut heard = Heard(Vec::new());
    let counted = run(world, &mut heard).expect("it can be read");
    (heard.0, counted)
}

#[test]
fn a_sound_world_is_found_sound() {
    let (words, counted) = look(&sound());
    assert_eq!(words, Vec::<String>::new());
    let expected =
        Counted { containers: 1, blobs: 3, queues: 1, messages: 2, tables: 1, entities: 1, shares: 1, files: 2 };
    assert_eq!(counted, expected);
}

/// Changes one thing and expects these words of one place, and no others.
fn check(place: &str, expected: &str, act: impl FnOnce(&mut World)) {
    let mut world = sound();
    act(&mut world);
    let (words, _) = look(&world);
    assert_eq!(words.len(), 1, "{expected}: {words:#?}");
    assert!(words[0].starts_with(place) && words[0].contains(expected), "{} instead of {place}: {expected}", words[0]);
}

#[test]
fn blobs_and_what_belongs_to_them() {
    let group = contents(Service::Blob);
    let group = &group;
    let single = "account abc, container box, blob 'single'";
    let blocks = "account abc, container box, blob 'blocks'";
    let pages = "account abc, container box, blob 'pages'";
    let plant = |place: &str, expected: &str, family, blob: &str, key: &[u8], value: &[u8]| {
        check(place, expected, |world| world.put(group, family, blob, key, value.to_vec()));
    };
    let take = |place: &str, expected: &str, family, blob: &str, key: &[u8]| {
        check(place, expected, |world| world.remove(group, family, blob, key));
    };
    plant(single, "a record of its body has 4 bytes", container::BODY, "single", b"", b"1234");
    take(single, "its body ends at 0, and it has 5 bytes", container::BODY, "single", b"");
    plant(single, "5 bytes in one record", container::BODY, "single", &run_key(b"", 9), b"12345");
    let other = "account abc, container box, blob 'other'";
    plant(other, "a blob: a record of 3 bytes cannot be read", container::HEAD, "other", b"", b"bad");
    plant(other, "bytes of a blob that is not there", container::BODY, "other", b"", b"1");
    plant(
        other,
        "it has 0 tags, and searches find 1",
        container::TAGGED,
        "other",
        b"",
        &tags::encode(&[("a".into(), "b".into())]),
    );
    take(single, "it has 1 tags, and searches find 0", container::TAGGED, "single", b"");
    take(single, "when it expires is noted wrongly", container::EXPIRING, "single", b"");
    plant(single, "when it expires is noted wrongly", container::EXPIRING, "single", b"", &98u64.to_be_bytes());
    take(single, "no mark says so", container::HAS_PAST, "single", b"");
    let early = Mark { last_id: 29, due: None }.encode();
    plant(single, "the last that was given is 29", container::HAS_PAST, "single", b"", &early);
    take(single, "in its past state 30, its body ends at 0", container::PAST_BODY, "single", &PAST.key());
    take(single, "bytes of a past state that is not there", container::PAST, "single", &PAST.key());
    plant(single, "blocks of a past state", container::PAST_BLOCKS, "single", &[9; 9], &BlockList::default().encode());
    take(blocks, "its body has a hole from 0 to 20", container::BODY, "blocks", &run_key(b"", 19));
    take(blocks, "its body ends at 20, and it has 30 bytes", container::BODY, "blocks", &run_key(b"", 29));
    plant(blocks, "lie over each other at 18", container::BODY, "blocks", &run_key(b"", 29), b"123456789012");
    plant(
        blocks,
        "its 0 blocks have 0 bytes, and it has 30",
        container::BLOCKS,
        "blocks",
        b"",
        &BlockList::default().encode(),
    );
    take(blocks, "1 blocks are staged, and no note says so", container::STAGING, "blocks", b"");
    plant(blocks, "2 blocks are staged, and the note says 1", container::STAGED, "blocks", b"ie", b"more");
    check(blocks, "ids of other lengths", |world| {
        world.remove(group, container::STAGED, "blocks", b"id");
        world.put(group, container::STAGED, "blocks", b"longer", "staged");
    });
    plant(pages, "no whole pages", container::BODY, "pages", &run_key(b"", 2000), b"12");
    plant(
        "account abc, container box, blob ''",
        "no name of a blob",
        container::STAGING,
        "",
        b"",
        &Staging { last_staged: moment(1), blocks: 0, id_bytes: 0, lease: None }.encode(),
    );
    plant(pages, "goes on to 4607, and it has 4096", container::BODY, "pages", &run_key(b"", 4607), &[0; 512]);
}

#[test]
fn queues_count_their_messages() {
    let group = contents(Service::Queue);
    let group = &group;
    let place = "account abc, queue line";
    let first = Place { next_visible: moment(10), number: 1 };
    check(place, "it says 3 messages, and has 2", |world| {
        world.put(group, queue::STATE, "", b"", queue_state(3, 10, 50))
    });
    check(place, "a message stands before", |world| world.put(group, queue::STATE, "", b"", queue_state(2, 11, 50)));
    check(place, "a message expires before", |world| world.put(group, queue::STATE, "", b"", queue_state(2, 10, 51)));
    check(place, "a message that is visible at once stands later", |world| {
        let state = QueueState { count: 2, floor: Place::FIRST, ..QueueState::default() };
        world.put(group, queue::STATE, "", b"", state.encode());
    });
    check(place, "not where its place is noted", |world| {
        world.put(group, queue::POINTER, "", &id_key(Id(1)), Place::FIRST.key());
    });
    check(place, "there are 3 texts of messages, and should be 2", |world| {
        world.put(group, queue::TEXT, "", &id_key(Id(9)), "text");
    });
    check(place, "there are 2 expiries of messages, and should be 1", |world| {
        world.put(group, queue::EXPIRY, "", &expiry_key(moment(60), Id(9)), "");
    });
    check(place, "a message: a record of 1 bytes", |world| {
        world.put(group, queue::VISIBLE, "", &first.key(), "?");
        world.remove(group, queue::EXPIRY, "", &expiry_key(moment(50), Id(1)));
    });
    // One thing that is missing is told where it is missed, and where it is counted.
    let mut world = sound();
    world.remove(group, queue::TEXT, "", &id_key(Id(1)));
    let words = look(&world).0.join("\n");
    assert!(words.contains("has no text") && words.contains("1 texts of messages, and should be 2"), "{words}");
}

#[test]
fn entities_can_be_read() {
    let group = contents(Service::Table);
    check("account abc, table people, PartitionKey 'pk'", "RowKey 'rk'", |world| {
        world.put(&group, table::ENTITY, "pk", b"rk", "?");
    });
    check("account abc, table people, PartitionKey 'pk'", "are no text", |world| {
        world.put(&group, table::ENTITY, "pk", b"\xff", StoredEntity::new(moment(1), std::iter::empty()).encode());
    });
}

#[test]
fn shares_and_their_trees() {
    let (heads, group) = (names(Service::File), contents(Service::File));
    let (heads, group) = (&heads, &group);
    let place = "account abc, share work";
    check(place, "it says 99 bytes are used, and its files have 100", |world| {
        world.put(group, share::STATE, "", b"", share_state(99, 2));
    });
    check(place, "its generations are out of order", |world| {
        // What is past is then of no generation that is over, either.
        let was = [&node_key(FileId(12))[..], &[0], &1u64.to_be_bytes()].concat();
        world.remove(group, share::PAST_NODE, "", &was);
        let file = node(12, NodeKind::File { bytes: 100, body: BODY });
        world.put(group, share::NODE, "", &node_key(FileId(12)), versioned(1, &file.encode()));
        world.put(group, share::STATE, "", b"", share_state(100, 1));
    });
    check(place, "the name 'File' is stored under another", |world| {
        world.put(group, share::ENTRY, "", &entry_key(11, "FILE2"), entry("File", 12, false));
        world.remove(group, share::ENTRY, "", &entry_key(11, "FILE"));
    });
    check(place, "is in a directory that is not there", |world| {
        world.put(group, share::ENTRY, "", &entry_key(12, "FILE"), entry("File", 12, false));
        world.remove(group, share::ENTRY, "", &entry_key(11, "FILE"));
    });
    check(place, "and names the other", |world| {
        world.put(group, share::ENTRY, "", &entry_key(11, "FILE"), entry("File", 12, true));
    });
    check(place, "there are 1 names, and files and directories have 2", |world| {
        world.remove(group, share::ENTRY, "", &entry_key(11, "FILE"));
    });
    check(place, "there are 2 runs of bytes, and contents have 1", |world| {
        world.put(group, share::RUN, "", &run_key(&99u64.to_be_bytes(), 9), versioned(1, &versioned(1, b"x")));
    });
    check(place, "file 12: runs of its bytes lie over each other at 9", |world| {
        world.put(group, share::RUN, "", &run_key(&BODY.to_be_bytes(), 10), versioned(1, &versioned(1, b"xx")));
    });
    check(place, "file 12: its bytes go on to 100, and it has 100", |world| {
        world.put(group, share::RUN, "", &run_key(&BODY.to_be_bytes(), 100), versioned(1, &versioned(1, b"x")));
    });
    check(place, "written in generation 3, and the newest is 2", |world| {
        let file = node(12, NodeKind::File { bytes: 100, body: BODY });
        world.put(group, share::NODE, "", &node_key(FileId(12)), versioned(3, &file.encode()));
    });
    check(place, "something past was true from generation 1 to 2", |world| {
        let was = [&node_key(FileId(11))[..], &[0], &2u64.to_be_bytes()].concat();
        world.put(group, share::PAST_NODE, "", &was, versioned(1, &node(11, NodeKind::Directory).encode()));
    });
    check(place, "the share does not know its permission", |world| {
        let directory = Node { permission: Some(PermissionKey(1, 2)), ..node(11, NodeKind::Directory) };
        world.put(group, share::NODE, "", &node_key(FileId(11)), versioned(1, &directory.encode()));
    });
    check(place, "a permission is not what its key says", |world| {
        world.put(group, share::PERMISSION, "", &[1; 16], "?")
    });
    check(place, "a copy to a file cannot be read", |world| world.put(group, share::COPYING, "", &[1; 16], "?"));
    check(place, "a content that no file has", |world| world.put(group, share::ORPHAN, "", &[1; 8], "?"));
    check(place, "it says 2 snapshots, and has 1", |world| {
        world.put(heads, directory::HEAD, "work", b"", share_head(2).encode());
    });
    check(place, "sees generation 0, and the tree does not keep it", |world| {
        let taken = [&Id(7).0.to_be_bytes()[..], &5u64.to_be_bytes()].concat();
        let snapshot = ShareSnapshot { head: share_head(0), generation: 0 };
        world.put(heads, directory::SNAPSHOT, "work", &taken, snapshot.encode());
    });
}

#[test]
fn names_and_what_they_stand_for() {
    let plant = |place: &str, expected: &str, group: &GroupId, family, partition: &str, key: &[u8], value: &[u8]| {
        check(place, expected, |world| world.put(group, family, partition, key, value.to_vec()));
    };
    let blobs = names(Service::Blob);
    plant("account abc, container b", "a container: a record", &blobs, directory::HEAD, "b2b", b"", b"?");
    plant("account abc, container b2b", "a tombstone", &blobs, directory::TOMBSTONE, "b2b", b"short", b"");
    plant("account abc, container b2b", "the key of a snapshot", &blobs, directory::SNAPSHOT, "b2b", &[0; 24], b"");
    check("account abc, table people", "its name is Others", |world| {
        let head = TableHead { incarnation: Id(7), name: "Others".into(), policies: Vec::new() };
        world.put(&names(Service::Table), directory::HEAD, "people", b"", head.encode());
    });
    check("account abc, queue No", "this is no name", |world| {
        let head = QueueHead { incarnation: Id(8), metadata: Metadata::default(), policies: Vec::new() };
        world.put(&names(Service::Queue), directory::HEAD, "No", b"", head.encode());
    });
    check("account abc, table of incarnation", "no name stands for it", |world| {
        world.remove(&names(Service::Table), directory::HEAD, "people", b"");
    });
    // A tombstone stands for what is deleted and not fenced yet.
    let mut world = sound();
    world.remove(&names(Service::Table), directory::HEAD, "people", b"");
    world.put(&names(Service::Table), directory::TOMBSTONE, "people", &Id(7).0.to_be_bytes(), "");
    assert_eq!(look(&world).0, Vec::<String>::new());
    let account = key::account_group(&account());
    plant("account abc, b", "the properties of a service", &account, key::account::PROPERTIES, "b", b"", b"?");
    plant("account abc, handles", "a handle", &account, key::HANDLE, "handles", &[0; 8], b"?");
    plant("account abc, copies", "a note on a copy", &account, key::account::PENDING_COPIES, "copies", &[0; 16], b"?");
    let events = (key::account::EVENTS, key::account::EVENTFUL);
    plant("account abc, events", "an event", &account, events.0, "events", b"", b"?");
    let stray = pending().encode();
    plant("account abc, events", "the key of an event", &account, events.0, "events", b"other", &stray);
    plant("account abc, events", "a note on events of no container", &account, events.1, "events", b"q", &[0; 8]);
    plant("account abc, other", "that an account keeps", &account, key::account::PROPERTIES, "other", b"", b"?");
    let system = key::system_group();
    plant(
        "what all accounts have in common, ticks",
        "have in common",
        &system,
        key::system::CEILING,
        "ticks",
        b"",
        b"?",
    );
    plant(
        "what all accounts have in common, accounts",
        "an account",
        &system,
        key::system::ACCOUNT,
        "accounts",
        b"abc",
        b"?",
    );
    for id in [&b"?"[..], b"sx", b"aABC", b"dbABC", b"dx", b"babc\0short"] {
        check("", "nobody knows", |world| world.put(&GroupId(Bytes::from_static(id)), Family(1), "p", b"", "?"));
    }
    assert!(family(&system, Family(200)).is_some_and(|words| words.contains("family 200")));
    assert_eq!(family(&system, key::system::CEILING), None);
}

/// Events are those of the blob beside which they lie, which may be gone; and a note leads to them.
#[test]
fn events_of_blobs() {
    let (group, event) = (contents(Service::Blob), pending());
    let blob = event.event.blob.clone();
    let noted = |world: &mut World| {
        let of_account = key::account_group(&account());
        world.put(&of_account, key::account::EVENTFUL, "events", &group.0, vec![0; 8]);
    };
    let put = |world: &mut World, blob: &str, key: &[u8]| {
        world.put(&group, container::EVENT, blob, key, event.encode());
    };
    let mut world = sound();
    noted(&mut world);
    put(&mut world, &blob, &event_key(&event));
    assert_eq!(look(&world).0, Vec::<String>::new());
    check("account abc, container", "it has events to deliver, and no note says so", |world| {
        put(world, &blob, &event_key(&event));
    });
    for (blob, key) in [("another", event_key(&event)), (blob.as_str(), Bytes::from_static(b"other"))] {
        check("account abc, container", "an event lies beside it that is not its own", |world| {
            noted(world);
            put(world, blob, &key);
        });
    }
    check("account abc, container", "an event: a record", |world| {
        noted(world);
        world.put(&group, container::EVENT, &blob, b"k", "?");
    });
}
