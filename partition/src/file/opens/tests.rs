use std::sync::atomic::AtomicUsize;

use bytes::Bytes;

use super::*;

const DIRECTORY: FileId = FileId(1);
const FILE: FileId = FileId(2);
const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const WHOLE: ByteRange = ByteRange { offset: 0, length: 100 };

fn share() -> GroupId {
    GroupId(Bytes::from_static(b"share"))
}

/// Letters of what is granted: `r`, `w`, `d`.
fn access(letters: &str) -> Access {
    Access { read: letters.contains('r'), write: letters.contains('w'), delete: letters.contains('d') }
}

fn share_mode(letters: &str) -> ShareMode {
    ShareMode { read: letters.contains('r'), write: letters.contains('w'), delete: letters.contains('d') }
}

/// `rw/r`: to read and write, letting others read.
fn claim(words: &str) -> Claim {
    let (wanted, shared) = words.split_once('/').expect("access, then share mode");
    Claim { access: access(wanted), share: share_mode(shared) }
}

pub(super) fn opening(file: FileId, above: &[FileId], words: &str) -> Opening {
    Opening {
        session: 7,
        client_address: "192.0.2.1:50000".into(),
        client_name: "desk".into(),
        path: format!("{}", file.0),
        file,
        above: above.to_vec(),
        claim: claim(words),
        mask: mask(words),
        caching: CachingWanted::Nothing,
        is_new: false,
        overwrites: false,
        deletes_on_close: false,
        is_directory: false,
        is_leased: false,
        opened: NOW,
        reconnected: None,
        kept_as: None,
        listener: Arc::new(Nobody),
    }
}

/// Read and write data, delete, and attributes in any case.
fn mask(words: &str) -> u32 {
    let access = claim(words).access;
    0x80 | u32::from(access.read) | u32::from(access.write) << 1 | u32::from(access.delete) << 16
}

struct Nobody;

impl Listener for Nobody {
    fn broken(&self, notice: BreakNotice) {
        panic!("nothing was granted: {notice:?}");
    }
}

/// A share with directory 1 in its root and file 2 in that.
#[derive(Default)]
struct Table(OpenFiles);

impl Table {
    fn try_open(&self, words: &str) -> Result<HandleId, Conflict> {
        self.open_at(FILE, &[FileId::ROOT, DIRECTORY], words)
    }

    fn open(&self, words: &str) -> HandleId {
        self.try_open(words).expect("nothing stands in its way")
    }

    fn open_at(&self, file: FileId, above: &[FileId], words: &str) -> Result<HandleId, Conflict> {
        self.0.open(&share(), opening(file, above, words), NOW).map(|opened| opened.handle.id)
    }

    fn open_directory(&self, words: &str) -> HandleId {
        self.open_at(DIRECTORY, &[FileId::ROOT], words).expect("nothing stands in its way")
    }

    fn close(&self, handle: HandleId) -> Option<Removal> {
        self.0.close(&share(), handle).expect("it is open").removal
    }

    fn lock(&self, handle: HandleId, offset: u64, length: u64, kind: LockKind) -> Result<(), Conflict> {
        self.0.lock(&share(), handle, &[(ByteRange { offset, length }, kind)])
    }

    fn rest(&self, file: FileId, access: RestAccess) -> Result<ShortOpen, Blocked> {
        self.0.short_open(&share(), file, access, NOW)
    }

    /// `ok`, or the code of the refusal.
    fn told(&self, file: FileId, access: RestAccess) -> &'static str {
        match self.rest(file, access) {
            Ok(_) => "ok",
            Err(Blocked::Refused(refusal)) => {
                assert_eq!(refusal.status, 409);
                refusal.code.name()
            }
            Err(Blocked::Breaking(_)) => "waits",
        }
    }

    fn ids(&self, scope: Scope) -> Vec<u64> {
        self.0.list(&share(), scope, None, 100).handles.iter().map(|handle| handle.id.0).collect()
    }

    /// Nothing is kept of what is not open.
    fn is_empty(&self) -> bool {
        self.0.0.shards.iter().all(|shard| lock(shard).is_empty())
    }
}

fn alone(file: FileId) -> Scope {
    Scope { file, is_recursive: false }
}

fn recursive(file: FileId) -> Scope {
    Scope { file, is_recursive: true }
}

const EVERY_ACCESS: [RestAccess; 11] = [
    RestAccess::Nothing,
    RestAccess::Look,
    RestAccess::Lease,
    RestAccess::Read(WHOLE),
    RestAccess::WriteProperties,
    RestAccess::Write,
    RestAccess::Replace,
    RestAccess::Rename,
    RestAccess::Delete,
    RestAccess::RenameDirectory,
    RestAccess::DeleteDirectory,
];

/// Share mode of a handle by REST operation: `x` is a sharing violation.
#[test]
fn share_modes_and_rest() {
    let operations = [
        ("create", RestAccess::Replace),
        ("get", RestAccess::Read(WHOLE)),
        ("set", RestAccess::WriteProperties),
        ("put", RestAccess::Write),
        ("rename", RestAccess::Rename),
        ("delete", RestAccess::Delete),
        ("look", RestAccess::Look),
    ];
    #[rustfmt::skip]
    let table = [
        //       create  get   set   put   rename delete look
        ("",    ["x",    "x",  "x",  "x",  "x",   "x",   "ok"]),
        ("r",   ["x",    "ok", "x",  "x",  "x",   "x",   "ok"]),
        ("w",   ["x",    "x",  "ok", "ok", "x",   "x",   "ok"]),
        ("d",   ["x",    "x",  "x",  "x",  "ok",  "x",   "ok"]),
        ("rw",  ["x",    "ok", "ok", "ok", "x",   "x",   "ok"]),
        ("rd",  ["x",    "ok", "x",  "x",  "ok",  "x",   "ok"]),
        ("wd",  ["ok",   "x",  "ok", "ok", "ok",  "x",   "ok"]),
        ("rwd", ["ok",   "ok", "ok", "ok", "ok",  "x",   "ok"]),
    ];
    for (shared, expected) in table {
        for held in ["r", "w", "d", "rwd"] {
            let table = Table::default();
            let handle = table.open(&format!("{held}/{shared}"));
            for ((name, operation), expected) in operations.into_iter().zip(expected) {
                let expected = if expected == "x" { "SharingViolation" } else { expected };
                assert_eq!(table.told(FILE, operation), expected, "{name} beside {held}/{shared}");
            }
            table.close(handle);
            assert!(EVERY_ACCESS.iter().all(|access| table.told(FILE, *access) == "ok"));
            assert!(table.is_empty());
        }
    }
}

#[test]
fn opens_of_attributes_stand_in_the_way_of_deletion_alone() {
    let table = Table::default();
    table.open("/");
    for (access, expected) in [
        (RestAccess::Read(WHOLE), "ok"),
        (RestAccess::Replace, "ok"),
        (RestAccess::Rename, "ok"),
        (RestAccess::Delete, "SharingViolation"),
    ] {
        assert_eq!(table.told(FILE, access), expected, "{access:?}");
    }
}

/// Who may write or delete keeps leases off, who only reads does not.
#[test]
fn writers_and_rest_leases() {
    for (words, expected) in
        [("r/", "ok"), ("/", "ok"), ("r/rwd", "ok"), ("w/rwd", "SharingViolation"), ("d/rwd", "SharingViolation")]
    {
        let table = Table::default();
        table.open(words);
        assert_eq!(table.told(FILE, RestAccess::Lease), expected, "{words}");
    }
}

/// Two handles on one file. The rule is the same whoever comes first.
#[test]
fn handles_among_themselves() {
    for (first, second, expected) in [
        ("r/rwd", "r/rwd", "ok"),
        ("r/r", "r/r", "ok"),
        ("r/r", "w/rwd", "sharing"),
        ("r/rw", "w/rwd", "ok"),
        ("r/rwd", "w/w", "sharing"),
        ("r/rwd", "r/", "sharing"),
        ("w/rwd", "r/r", "sharing"),
        ("d/rwd", "r/rw", "sharing"),
        ("d/rwd", "r/rwd", "ok"),
        ("rwd/", "rwd/", "sharing"),
        ("rwd/", "/", "ok"),
        ("/", "/", "ok"),
    ] {
        for (first, second) in [(first, second), (second, first)] {
            let table = Table::default();
            table.open(first);
            let outcome = match table.try_open(second) {
                Ok(_) => "ok",
                Err(Conflict::Sharing) => "sharing",
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(outcome, expected, "{second} after {first}");
            assert_eq!(conflicts(claim(first), claim(second)), expected == "sharing");
        }
    }
}

#[test]
fn other_files_and_other_shares_are_not_concerned() {
    let table = Table::default();
    table.open("rwd/");
    assert_eq!(table.told(FileId(3), RestAccess::Replace), "ok");
    let other = GroupId(Bytes::from_static(b"other"));
    assert!(table.0.short_open(&other, FILE, RestAccess::Delete, NOW).is_ok());
    assert!(table.0.open(&other, opening(FILE, &[FileId::ROOT, DIRECTORY], "rwd/"), NOW).is_ok());
}

/// Whoever looks at the tree and at the table learns whether both were of one moment.
#[test]
fn what_is_pending_changes_by_number() {
    let table = Table::default();
    let number = || table.0.pending_changes(&share());
    let (first, second) = (table.open("rd/rwd"), table.open("r/rwd"));
    let before = number();
    table.0.set_delete_pending(&share(), first, true).expect("it is open");
    let pending = number();
    assert_ne!(pending, before);
    assert!(table.close(second).is_none());
    let removal = table.close(first).expect("the last one");
    assert_eq!(number(), pending, "it is pending still");
    drop(removal);
    assert_ne!(number(), pending);
}

#[test]
fn delete_pending_until_the_file_is_gone() {
    let table = Table::default();
    let (first, second) = (table.open("rd/rwd"), table.open("r/rwd"));
    let pend = |is_pending| table.0.set_delete_pending(&share(), first, is_pending).expect("it is open");
    pend(true);
    let assert_pending = || {
        assert!(table.0.is_delete_pending(&share(), FILE));
        assert!(EVERY_ACCESS.iter().all(|access| table.told(FILE, *access) == "SMBDeletePending"));
        assert!(matches!(table.try_open("/rwd"), Err(Conflict::DeletePending)));
    };
    assert_pending();

    // Taken back, nothing happened.
    pend(false);
    assert!(!table.0.is_delete_pending(&share(), FILE));
    assert_eq!(table.told(FILE, RestAccess::Write), "ok");

    // It goes with the last handle, whoever asked for it. Until it is gone it is pending.
    pend(true);
    assert!(table.close(first).is_none());
    assert_pending();
    let removal = table.close(second).expect("the last one");
    assert_pending();
    drop(removal);
    assert!(!table.0.is_delete_pending(&share(), FILE));
    assert!(table.is_empty());
    assert!(matches!(table.0.set_delete_pending(&share(), first, true), Err(Conflict::NotOpen)));
}

#[test]
fn nothing_new_below_a_directory_that_goes() {
    let table = Table::default();
    let directory = table.open_directory("d/rwd");
    table.0.set_delete_pending(&share(), directory, true).expect("it is open");
    assert!(matches!(table.try_open("r/rwd"), Err(Conflict::DeletePending)));
    assert_eq!(table.told(DIRECTORY, RestAccess::Nothing), "SMBDeletePending");
    let beside = table.open_at(FileId(9), &[FileId::ROOT], "rd/rwd").expect("free");
    let into = |parent| table.0.begin_rename(&share(), beside, parent, None, NOW).map(drop);
    assert!(matches!(into(DIRECTORY), Err(Conflict::DeletePending)));
    assert!(into(FileId(7)).is_ok());
}

/// What a lock bars, by who asks.
#[test]
fn locks_and_uses() {
    use LockKind::{Exclusive, Shared};
    let (owner, other) = (HandleId(1), HandleId(2));
    #[rustfmt::skip]
    let table = [
        // held      by owner: read   write  lock s lock x  by another: read  write  lock s lock x
        (Shared,    [false, true,  false, true], [false, true, false, true]),
        (Exclusive, [false, false, false, true], [true,  true, true,  true]),
    ];
    let uses = [RangeUse::Read, RangeUse::Write, RangeUse::Lock(Shared), RangeUse::Lock(Exclusive)];
    for (kind, by_owner, by_other) in table {
        let lock = RangeLock { range: WHOLE, kind, owner };
        for (who, expected) in [(Some(owner), by_owner), (Some(other), by_other), (None, by_other)] {
            assert_eq!(uses.map(|usage| lock.blocks(who, usage, WHOLE)), expected, "{kind:?} and {who:?}");
        }
    }
}

#[test]
fn ranges_that_overlap() {
    for ((offset, length), (other_offset, other_length), expected) in [
        ((0, 10), (0, 10), true),
        ((0, 10), (9, 1), true),
        ((0, 10), (10, 1), false),
        ((10, 1), (0, 10), false),
        ((5, 1), (0, 10), true),
        // Without bytes: only inside of another range, and at the start nowhere.
        ((0, 0), (0, 10), false),
        ((5, 0), (0, 10), true),
        ((5, 0), (5, 10), false),
        ((15, 0), (5, 10), false),
        ((5, 0), (5, 0), false),
        ((0, 0), (0, 0), false),
        // To the last offset there is.
        ((u64::MAX, 1), (1, u64::MAX), true),
        ((0, u64::MAX), (u64::MAX, 1), false),
        ((u64::MAX, 1), (u64::MAX, 1), true),
    ] {
        let (one, other) = (ByteRange { offset, length }, ByteRange { offset: other_offset, length: other_length });
        assert!(one.is_valid() && other.is_valid());
        assert_eq!(one.overlaps(other), expected, "{one:?} {other:?}");
        assert_eq!(other.overlaps(one), expected, "{other:?} {one:?}");
    }
    assert!(!ByteRange { offset: 2, length: u64::MAX }.is_valid());
    assert!(ByteRange { offset: u64::MAX, length: 0 }.is_valid());
}

/// Any lock keeps REST from writing content; an exclusive one from reading what it covers.
#[test]
fn locks_and_rest() {
    let within = RestAccess::Read(ByteRange { offset: 15, length: 10 });
    let beside = RestAccess::Read(ByteRange { offset: 20, length: 10 });
    for (kind, access, expected) in [
        (LockKind::Shared, RestAccess::Write, "FileLockConflict"),
        (LockKind::Shared, RestAccess::Replace, "FileLockConflict"),
        (LockKind::Shared, RestAccess::WriteProperties, "ok"),
        (LockKind::Shared, RestAccess::Nothing, "ok"),
        (LockKind::Shared, within, "ok"),
        (LockKind::Exclusive, RestAccess::Write, "FileLockConflict"),
        (LockKind::Exclusive, RestAccess::WriteProperties, "ok"),
        (LockKind::Exclusive, within, "FileLockConflict"),
        (LockKind::Exclusive, beside, "ok"),
        (LockKind::Exclusive, RestAccess::Rename, "ok"),
        (LockKind::Exclusive, RestAccess::Delete, "SharingViolation"),
    ] {
        let table = Table::default();
        let handle = table.open("rw/rwd");
        table.lock(handle, 10, 10, kind).expect("nothing stands in its way");
        assert_eq!(table.told(FILE, access), expected, "{access:?} and a lock that is {kind:?}");
        // Locks go with their handle.
        table.close(handle);
        assert_eq!(table.told(FILE, access), "ok");
        assert!(table.is_empty());
    }
}

#[test]
fn locks_are_taken_and_given_back() {
    let table = Table::default();
    let (first, second) = (table.open("rw/rwd"), table.open("rw/rwd"));
    let range = |offset, length| ByteRange { offset, length };
    let check = |handle, usage, range| table.0.use_range(&share(), handle, usage, range).map(drop);

    table.lock(first, 0, 10, LockKind::Exclusive).expect("free");
    assert!(matches!(table.lock(second, 5, 10, LockKind::Shared), Err(Conflict::Locked(_))));
    assert!(matches!(check(second, RangeUse::Read, range(9, 1)), Err(Conflict::Locked(_))));
    assert!(check(second, RangeUse::Write, range(10, 1)).is_ok());
    assert!(check(first, RangeUse::Write, range(0, 10)).is_ok());
    assert!(matches!(table.lock(second, 2, u64::MAX, LockKind::Shared), Err(Conflict::InvalidLockRange)));

    // All or none.
    let wanted = [(range(20, 10), LockKind::Exclusive), (range(0, 1), LockKind::Shared)];
    assert!(matches!(table.0.lock(&share(), second, &wanted), Err(Conflict::Locked(_))));
    table.lock(first, 20, 10, LockKind::Exclusive).expect("not kept by the other");
    // Nor does one request get past itself.
    let wanted = [(range(40, 10), LockKind::Exclusive), (range(45, 10), LockKind::Exclusive)];
    assert!(matches!(table.0.lock(&share(), second, &wanted), Err(Conflict::Locked(_))));

    // Given back just as taken, by who took it.
    let unlock = |handle, ranges: &[ByteRange]| table.0.unlock(&share(), handle, ranges);
    assert!(matches!(unlock(first, &[range(0, 9)]), Err(Conflict::RangeNotLocked)));
    assert!(matches!(unlock(second, &[range(0, 10)]), Err(Conflict::RangeNotLocked)));
    unlock(first, &[range(0, 10), range(20, 10)]).expect("held");
    assert!(matches!(unlock(first, &[range(0, 10)]), Err(Conflict::RangeNotLocked)));
    table.lock(second, 0, 100, LockKind::Exclusive).expect("free again");

    table.close(first);
    assert!(matches!(table.lock(first, 0, 1, LockKind::Shared), Err(Conflict::NotOpen)));
    assert!(matches!(check(first, RangeUse::Read, range(0, 1)), Err(Conflict::NotOpen)));
    assert!(matches!(unlock(first, &[]), Err(Conflict::NotOpen)));
}

#[test]
fn so_many_locks_and_no_more() {
    let table = Table::default();
    let handle = table.open("r/rwd");
    let wanted: Vec<_> =
        (0..LOCKS_MAX as u64).map(|at| (ByteRange { offset: at, length: 1 }, LockKind::Shared)).collect();
    table.0.lock(&share(), handle, &wanted).expect("as many as there may be");
    assert!(matches!(table.lock(handle, 0, 1, LockKind::Shared), Err(Conflict::TooManyLocks)));
}

/// Handles on a directory, below it, and beside it.
#[test]
fn directories_with_handles() {
    #[rustfmt::skip]
    let table = [
        // handle on   delete                         rename
        (DIRECTORY,    "CannotDeleteFileOrDirectory", "SharingViolation"),
        (FILE,         "ok",                          "SharingViolation"),
        (FileId(9),    "ok",                          "ok"),
    ];
    for (file, deleted, renamed) in table {
        for words in ["r/rwd", "/rwd"] {
            let table = Table::default();
            let above: &[FileId] = match file {
                FILE => &[FileId::ROOT, DIRECTORY],
                _ => &[FileId::ROOT],
            };
            let handle = table.open_at(file, above, words).expect("nothing else is open");
            assert_eq!(table.told(DIRECTORY, RestAccess::DeleteDirectory), deleted, "{file:?}");
            assert_eq!(table.told(DIRECTORY, RestAccess::RenameDirectory), renamed, "{file:?}");
            table.close(handle);
            assert_eq!(table.told(DIRECTORY, RestAccess::DeleteDirectory), "ok");
            assert_eq!(table.told(DIRECTORY, RestAccess::RenameDirectory), "ok");
            assert!(table.is_empty());
        }
    }
}

/// What an open has to wait out: a REST operation it would deny, or one that takes the name away.
#[test]
fn opens_wait_for_rest() {
    for (access, words, waits) in [
        (RestAccess::Nothing, "rwd/", false),
        (RestAccess::Look, "rwd/", false),
        (RestAccess::Lease, "r/", false),
        (RestAccess::Lease, "w/rwd", true),
        (RestAccess::Lease, "d/rwd", true),
        (RestAccess::Read(WHOLE), "r/rwd", false),
        (RestAccess::Read(WHOLE), "rwd/r", false),
        (RestAccess::Read(WHOLE), "r/wd", true),
        (RestAccess::Read(WHOLE), "/", false),
        (RestAccess::WriteProperties, "r/r", true),
        (RestAccess::Write, "r/r", true),
        (RestAccess::Write, "r/w", false),
        (RestAccess::Replace, "r/rw", true),
        (RestAccess::Replace, "r/rwd", false),
        (RestAccess::Rename, "/rwd", true),
        (RestAccess::Delete, "/rwd", true),
    ] {
        let table = Table::default();
        let short = table.rest(FILE, access).expect("nothing is open");
        let outcome = table.try_open(words);
        assert_eq!(matches!(outcome, Err(Conflict::WithShortOpen(_))), waits, "{words} beside {access:?}: {outcome:?}");
        assert_eq!(outcome.is_ok(), !waits);
        drop(short);
        if waits {
            table.open(words);
        }
        assert_eq!(table.ids(alone(FILE)), [1]);
    }
}

#[test]
fn opens_below_wait_for_the_directory() {
    for (access, waits) in [
        (RestAccess::RenameDirectory, true),
        (RestAccess::DeleteDirectory, true),
        (RestAccess::WriteProperties, false),
        (RestAccess::Nothing, false),
    ] {
        let table = Table::default();
        let short = table.rest(DIRECTORY, access).expect("nothing is open");
        assert_eq!(matches!(table.try_open("/rwd"), Err(Conflict::WithShortOpen(_))), waits, "{access:?}");
        drop(short);
        table.open("/rwd");
    }
}

#[test]
fn locks_wait_for_rest() {
    for (access, kind, waits) in [
        (RestAccess::Nothing, LockKind::Exclusive, false),
        (RestAccess::WriteProperties, LockKind::Exclusive, false),
        (RestAccess::Write, LockKind::Shared, true),
        (RestAccess::Replace, LockKind::Shared, true),
        (RestAccess::Read(WHOLE), LockKind::Shared, false),
        (RestAccess::Read(WHOLE), LockKind::Exclusive, true),
        (RestAccess::Read(ByteRange { offset: 0, length: 10 }), LockKind::Exclusive, false),
    ] {
        let table = Table::default();
        let handle = table.open("rw/rwd");
        let short = table.rest(FILE, access).expect("it is shared");
        let outcome = table.lock(handle, 10, 10, kind);
        assert_eq!(
            matches!(outcome, Err(Conflict::WithShortOpen(_))),
            waits,
            "{kind:?} beside {access:?}: {outcome:?}"
        );
        drop(short);
        if waits {
            table.lock(handle, 10, 10, kind).expect("the operation is over");
        }
    }
}

/// Whatever was waited for: the end is told, even to who listens late, and to all.
#[tokio::test]
async fn waits_end() {
    let table = Table::default();
    let wait_of = |outcome: Result<HandleId, Conflict>| match outcome {
        Err(Conflict::WithShortOpen(wait)) => wait,
        other => panic!("{other:?}"),
    };
    let (one, two) = (table.rest(FILE, RestAccess::Write), table.rest(FILE, RestAccess::Write));
    let waits = [wait_of(table.try_open("r/r")), wait_of(table.try_open("r/r"))];
    let given_up = wait_of(table.try_open("r/r"));
    drop(given_up);
    drop(one);
    for wait in waits {
        wait.over().await;
    }
    // The other operation is still there: again.
    let wait = wait_of(table.try_open("r/r"));
    let task = tokio::spawn(wait.over());
    tokio::task::yield_now().await;
    assert!(!task.is_finished());
    drop(two);
    task.await.expect("it only waits");

    // Locks, given back or closed with their handle.
    let (first, second) = (table.open("rw/rwd"), table.open("rw/rwd"));
    for give_back in [true, false] {
        table.lock(first, 0, 10, LockKind::Exclusive).expect("free");
        let Err(Conflict::Locked(wait)) = table.lock(second, 0, 10, LockKind::Exclusive) else { panic!("locked") };
        if give_back {
            table.0.unlock(&share(), first, &[ByteRange { offset: 0, length: 10 }]).expect("held");
        } else {
            table.close(first);
        }
        wait.over().await;
    }
    table.close(second);
    assert!(table.is_empty());
}

#[test]
fn so_many_handles_and_no_more() {
    let table = Table::default();
    let handles: Vec<_> = (0..FILE_HANDLES_MAX).map(|_| table.open("r/rwd")).collect();
    assert!(matches!(table.try_open("r/rwd"), Err(Conflict::TooManyHandles)));
    table.close(handles[0]);
    table.open("r/rwd");
}

#[test]
fn handles_are_listed_in_pages() {
    let table = Table::default();
    // 1 on the root, 2 on the directory, 3 and 4 on the file in it, 5 on a file beside the directory.
    table.open_at(FileId::ROOT, &[], "r/rwd").expect("free");
    table.open_directory("r/rwd");
    table.open("r/rwd");
    table.open("w/rwd");
    table.open_at(FileId(9), &[FileId::ROOT], "r/rwd").expect("free");
    for (scope, expected) in [
        (alone(FileId::ROOT), &[1][..]),
        (recursive(FileId::ROOT), &[1, 2, 3, 4, 5]),
        (alone(DIRECTORY), &[2]),
        (recursive(DIRECTORY), &[2, 3, 4]),
        (alone(FILE), &[3, 4]),
        (recursive(FILE), &[3, 4]),
        (alone(FileId(77)), &[]),
    ] {
        assert_eq!(table.ids(scope), expected, "{scope:?}");
        // Two at a time, and the end is the end even if the last page is full.
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = table.0.list(&share(), scope, after, 2);
            assert!(page.handles.len() == 2 || page.next.is_none());
            paged.extend(page.handles.iter().map(|handle| handle.id.0));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(paged, expected, "{scope:?}");
    }
    let page = table.0.list(&share(), alone(FILE), Some(HandleId(3)), 2);
    let opened = &page.handles[0].opening;
    assert_eq!((opened.claim.access, opened.parent(), opened.session), (access("w"), DIRECTORY, 7));
    let elsewhere = table.0.list(&GroupId(Bytes::from_static(b"other")), alone(FILE), None, 2);
    assert!(elsewhere.handles.is_empty() && elsewhere.next.is_none());
}

#[test]
fn handles_are_closed_by_force() {
    let table = Table::default();
    let (first, second, third) = (table.open_directory("r/rwd"), table.open("rd/rwd"), table.open("r/rwd"));
    let beside = table.open_at(FileId(9), &[FileId::ROOT], "r/rwd").expect("free");
    let force = |scope, handle| table.0.force_close(&share(), scope, handle).map(|closed| closed.handle.id);

    // Only what is in the scope.
    assert_eq!(force(alone(DIRECTORY), second), None);
    assert_eq!(force(recursive(DIRECTORY), beside), None);
    assert_eq!(force(recursive(DIRECTORY), HandleId(77)), None);
    assert_eq!(force(recursive(DIRECTORY), third), Some(third));
    assert_eq!(force(recursive(DIRECTORY), third), None);
    assert!(table.0.close(&share(), third).is_none());

    // All of them, one at a time; what was to go with its last handle goes.
    table.0.set_delete_pending(&share(), second, true).expect("it is open");
    let close_one = |after| {
        let (mut closed, next) = table.0.force_close_all(&share(), recursive(DIRECTORY), after, 1);
        (closed.pop().map(|closed| (closed.handle.id, closed.removal.is_some())), next)
    };
    assert_eq!(close_one(None), (Some((first, false)), Some(first)));
    assert_eq!(close_one(Some(first)), (Some((second, true)), None));
    assert_eq!(close_one(None), (None, None));
    assert_eq!(table.ids(recursive(FileId::ROOT)), [beside.0]);
    table.close(beside);
    assert!(table.is_empty());
}

/// Whoever closed it waits for what is at work by way of it: nothing of it is done afterwards.
#[test]
fn what_is_at_work_outlives_its_handle() {
    let table = Table::default();
    let (closed, other) = (table.open("w/rwd"), table.open("w/rwd"));
    let nothing = ByteRange { offset: 0, length: 0 };
    let writes = table.0.use_range(&share(), closed, RangeUse::Write, WHOLE).expect("nothing is locked");
    let _others = table.0.use_range(&share(), other, RangeUse::Write, WHOLE).expect("nothing is locked");
    let sets = table.0.use_range(&share(), closed, RangeUse::Read, nothing).expect("nothing is locked");
    let handle = table.0.force_close(&share(), alone(FILE), closed).expect("it is open").handle;
    let again = table.0.use_range(&share(), closed, RangeUse::Write, WHOLE);
    assert!(matches!(again, Err(Conflict::NotOpen)));
    assert!(table.0.still_at_work(&share(), &handle).is_some());
    drop(writes);
    assert!(table.0.still_at_work(&share(), &handle).is_some());
    drop(sets);
    assert!(table.0.still_at_work(&share(), &handle).is_none());
}

/// A file that is renamed under its handles is found at its new place and not at the old one.
#[test]
fn handles_follow_a_rename() {
    let table = Table::default();
    let handle = table.open("r/rwd");
    table.lock(handle, 0, 1, LockKind::Shared).expect("free");
    let short = table.rest(FILE, RestAccess::Rename).expect("deletion is shared");
    short.moved("5/new", &[FileId::ROOT, FileId(5)]);
    drop(short);
    assert_eq!(table.ids(recursive(DIRECTORY)), []);
    assert_eq!(table.ids(recursive(FileId(5))), [handle.0]);
    assert_eq!(table.ids(recursive(FileId::ROOT)), [handle.0]);
    let page = table.0.list(&share(), alone(FILE), None, 2);
    assert_eq!((page.handles[0].opening.path.as_str(), page.handles[0].opening.parent()), ("5/new", FileId(5)));
    assert_eq!(table.told(DIRECTORY, RestAccess::RenameDirectory), "ok");
    assert_eq!(table.told(FileId(5), RestAccess::RenameDirectory), "SharingViolation");
    assert_eq!(table.told(FILE, RestAccess::Write), "FileLockConflict");
    table.close(handle);
    assert!(table.is_empty());
}

/// Threads that read over SMB letting nobody write, and threads that write over REST: never both at a time.
#[test]
fn nobody_gets_past_the_other() {
    let table = Table::default();
    let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for at in 0..4 {
            let (table, readers, writers) = (&table, &readers, &writers);
            threads.spawn(move || {
                let mut granted = 0;
                while granted < 200 {
                    if at % 2 == 0 {
                        let Ok(handle) = table.try_open("r/r") else { continue };
                        readers.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(writers.load(Ordering::SeqCst), 0);
                        readers.fetch_sub(1, Ordering::SeqCst);
                        table.close(handle);
                    } else {
                        let Ok(short) = table.rest(FILE, RestAccess::Write) else { continue };
                        writers.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(readers.load(Ordering::SeqCst), 0);
                        writers.fetch_sub(1, Ordering::SeqCst);
                        drop(short);
                    }
                    granted += 1;
                }
            });
        }
    });
    assert!(table.is_empty());
}
