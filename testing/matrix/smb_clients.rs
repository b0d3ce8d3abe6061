//! What SMB clients have open and keep of files, and REST requests that meet it. The clients are handles in the table
//! that both protocols consult.

use std::sync::{Arc, Mutex};

use contract::Service;
use contract::names::AccountName;
use engine::GroupId;
use partition::file::opens::{
    Access, BreakNotice, ByteRange, CachingWanted, Claim, HandleId, LeaseKey, Listener, LockKind, Opening, Rights,
    ShareMode,
};
use partition::file::share;
use partition::record::FileId;
use testing::{Answer, Request, World};

fn file(line: &str) -> Request {
    Request::new(line).of(Service::File)
}

pub async fn group(world: &World) -> GroupId {
    let account = http::account::Account::development().name;
    let name = contract::names::ShareName::parse("share").expect("right");
    share::find(&world.app.shell, &account, &name, None).await.expect("the share").group().clone()
}

/// Opens a file as an SMB client would.
pub async fn open(
    world: &World,
    path: &str,
    claim: Claim,
    caching: CachingWanted,
    listener: Arc<dyn Listener>,
) -> HandleId {
    let head = world.send(&file(&format!("HEAD share/{path}"))).await;
    let id = head.header("x-ms-file-id").and_then(|id| id.parse().ok()).expect("an id");
    let now = world.app.shell.clock.now();
    let opening = Opening {
        session: 7,
        client_address: "127.0.0.1:5000".into(),
        client_name: "client".into(),
        path: path.into(),
        file: FileId(id),
        above: vec![FileId::ROOT],
        claim,
        mask: 1,
        caching,
        is_new: false,
        overwrites: false,
        deletes_on_close: false,
        is_directory: false,
        is_leased: false,
        opened: now,
        reconnected: None,
        kept_as: None,
        listener,
    };
    world.app.shell.open_files.open(&group(world).await, opening, now).expect("nobody has it").handle.id
}

/// A client that keeps nothing.
pub struct Nobody;

impl Listener for Nobody {
    fn broken(&self, notice: BreakNotice) {
        panic!("nothing was granted: {notice:?}");
    }
}

/// What it has heard.
#[derive(Clone, Default)]
struct Client(Arc<Mutex<Vec<BreakNotice>>>);

impl Listener for Client {
    fn broken(&self, notice: BreakNotice) {
        self.0.lock().expect("nobody panics").push(notice);
    }
}

fn lease_key() -> LeaseKey {
    LeaseKey::new(&AccountName::parse("clients").expect("a name"), [1; 16], [2; 16])
}
const READS_AND_WRITES: Access = Access { read: true, write: true, delete: false };

impl Client {
    /// Keeps what it can of the file `f`.
    async fn open(&self, world: &World, rights: Rights, share: ShareMode) -> HandleId {
        let caching = CachingWanted::Lease { key: lease_key(), rights, epoch: None };
        let handle = open(world, "f", Claim { access: READS_AND_WRITES, share }, caching, Arc::new(self.clone())).await;
        let granted = world.app.shell.open_files.caching(&group(world).await, handle);
        assert_eq!(granted.map(|granted| granted.rights), Some(rights));
        handle
    }

    fn heard(&self) -> Vec<(Rights, Rights)> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics")).iter().map(|told| (told.from, told.to)).collect()
    }

    /// Sends a request that the client has to hear of, and does what it does then.
    async fn meets(&self, world: &World, request: &Request, expected: (Rights, Rights), then: impl Fn()) -> Answer {
        let hearing = async {
            loop {
                if let [told] = self.heard()[..] {
                    assert_eq!(told, expected);
                    then();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = world.send(request) => answer,
            () = hearing => unreachable!("it goes on"),
        }
    }
}

async fn world() -> World {
    let world = World::new().await;
    world.app.set_listening(vec![(Service::File, ([127, 0, 0, 1], 10003).into())]);
    assert_eq!(world.send(&file("PUT share?restype=share")).await.status, 201);
    make(&world).await;
    world
}

async fn make(world: &World) {
    let made = file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "8");
    assert_eq!(world.send(&made).await.status, 201);
}

fn refusal_of(answer: &Answer) -> &str {
    if answer.status < 300 { "" } else { answer.code() }
}

fn requests() -> Vec<(&'static str, Request)> {
    let put = file("PUT share/f?comp=range").header("x-ms-write", "update").header("x-ms-range", "bytes=0-1");
    let from_url = file("PUT share/g").header("x-ms-copy-source", "http://127.0.0.1:10003/devstoreaccount1/share/f");
    let create = file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "8");
    vec![
        ("list", file("GET share?restype=directory&comp=list")),
        ("handles", file("GET share/f?comp=listhandles")),
        ("get", file("GET share/f")),
        ("ranges", file("GET share/f?comp=rangelist")),
        ("properties", file("HEAD share/f")),
        ("metadata", file("GET share/f?comp=metadata")),
        ("copy from", from_url),
        ("put", put.body(b"ab")),
        ("set properties", file("PUT share/f?comp=properties").header("x-ms-content-length", "9")),
        ("set metadata", file("PUT share/f?comp=metadata").header("x-ms-meta-a", "b")),
        ("create", create),
        (
            "rename",
            file("PUT share/h?comp=rename")
                .header("x-ms-file-rename-source", "http://127.0.0.1:10003/devstoreaccount1/share/f"),
        ),
        ("delete", file("DELETE share/f")),
        (
            "lease",
            file("PUT share/f?comp=lease").header("x-ms-lease-action", "acquire").header("x-ms-lease-duration", "-1"),
        ),
    ]
}

/// Each request beside each state: `>RH` if the client is asked for the rest and awaited, `RH` if it is told and not
/// awaited. `x` is 409 in the end, because the client keeps its handle open.
#[tokio::test]
async fn what_clients_keep_is_broken_first() {
    #[rustfmt::skip]
    let table = [
        //                   RWH     RH      RW      R
        ("list",           ["",     "",     "",     ""]),
        ("handles",        ["",     "",     "",     ""]),
        ("get",            [">RH",  "",     ">R",   ""]),
        ("ranges",         [">RH",  "",     ">R",   ""]),
        ("properties",     [">RH",  "",     ">R",   ""]),
        ("metadata",       [">RH",  "",     ">R",   ""]),
        ("copy from",      [">RH",  "",     ">R",   ""]),
        ("put",            [">-",   "-",    ">-",   "-"]),
        ("set properties", [">-",   "-",    ">-",   "-"]),
        ("set metadata",   [">-",   "-",    ">-",   "-"]),
        ("create",         [">-",   ">-",   ">-",   "-"]),
        ("rename",         [">RW",  ">R",   "",     ""]),
        ("delete",         [">RW x", ">R x", "x",   "x"]),
        ("lease",          [">RW x", ">R x", "x",   "x"]),
    ];
    let rights = |letters: &str| Rights {
        read: letters.contains('R'),
        write: letters.contains('W'),
        handle: letters.contains('H'),
    };
    for ((name, request), (named, row)) in requests().into_iter().zip(table) {
        assert_eq!(name, named);
        for (held, expected) in ["RWH", "RH", "RW", "R"].into_iter().zip(row) {
            let (world, client) = (world().await, Client::default());
            client.open(&world, rights(held), ShareMode::ALL).await;
            let (expected, is_refused) =
                expected.split_once('x').map_or((expected, false), |(left, _)| (left.trim(), true));
            let answer = match expected.strip_prefix('>') {
                None => world.send(&request).await,
                Some(left) => {
                    let acknowledge = || {
                        let kept = world.app.shell.open_files.acknowledge_lease(&lease_key(), rights(left));
                        assert_eq!(kept, Ok(rights(left)), "{name} beside {held}");
                    };
                    client.meets(&world, &request, (rights(held), rights(left)), acknowledge).await
                }
            };
            let refusal = if is_refused { "SharingViolation" } else { "" };
            assert_eq!(refusal_of(&answer), refusal, "{name} beside {held}");
            let heard = client.heard();
            match expected {
                "" => assert_eq!(heard, [], "{name} beside {held}"),
                awaited if awaited.starts_with('>') => assert_eq!(heard, [], "{name} beside {held}"),
                left => assert_eq!(heard, [(rights(held), rights(left))], "{name} beside {held}"),
            }
        }
    }
}

fn share_mode(letters: &str) -> ShareMode {
    ShareMode { read: letters.contains('r'), write: letters.contains('w'), delete: letters.contains('d') }
}

/// What a handle lets others do, by request: `x` is a sharing violation.
#[tokio::test]
async fn share_modes() {
    let operations =
        ["create", "get", "ranges", "set properties", "set metadata", "put", "delete", "properties", "list"];
    #[rustfmt::skip]
    let table = [
        //       create get  ranges set  meta put  delete look list
        ("",    ["x",   "x", "x",   "x", "x", "x", "x",   "",  ""]),
        ("r",   ["x",   "",  "",    "x", "x", "x", "x",   "",  ""]),
        ("w",   ["x",   "x", "x",   "",  "",  "",  "x",   "",  ""]),
        ("d",   ["x",   "x", "x",   "x", "x", "x", "x",   "",  ""]),
        ("rw",  ["x",   "",  "",    "",  "",  "",  "x",   "",  ""]),
        ("rd",  ["x",   "",  "",    "x", "x", "x", "x",   "",  ""]),
        ("wd",  ["",    "x", "x",   "",  "",  "",  "x",   "",  ""]),
        ("rwd", ["",    "",  "",    "",  "",  "",  "x",   "",  ""]),
    ];
    for (shared, row) in table {
        for (name, expected) in operations.into_iter().zip(row) {
            let world = world().await;
            let claim = Claim { access: READS_AND_WRITES, share: share_mode(shared) };
            open(&world, "f", claim, CachingWanted::Nothing, Arc::new(Nobody)).await;
            let (_, request) = requests().into_iter().find(|(of, _)| *of == name).expect("one of them");
            let refusal = if expected == "x" { "SharingViolation" } else { "" };
            assert_eq!(refusal_of(&world.send(&request).await), refusal, "{name} beside {shared:?}");
        }
    }
}

/// A lock on the bytes from 4 to 7, by request.
#[tokio::test]
async fn locks() {
    let (locked, open_elsewhere) = ("FileLockConflict", "SharingViolation");
    let part = |range: &str| file("GET share/f").header("x-ms-range", range);
    let mut all = requests();
    all.extend([("get before", part("bytes=0-3")), ("get into", part("bytes=0-4"))]);
    let to = file("PUT share/f").header("x-ms-copy-source", "http://127.0.0.1:10003/devstoreaccount1/share/other");
    all.push(("copy to", to));
    for (name, by_shared, by_exclusive) in [
        ("put", locked, locked),
        ("set properties", locked, locked),
        ("create", locked, locked),
        ("copy to", locked, locked),
        ("get", "", locked),
        ("get before", "", ""),
        ("get into", "", locked),
        ("ranges", "", locked),
        ("copy from", "", locked),
        ("set metadata", "", ""),
        ("properties", "", ""),
        ("metadata", "", ""),
        ("list", "", ""),
        ("rename", "", ""),
        ("delete", open_elsewhere, open_elsewhere),
    ] {
        for (kind, expected) in [(LockKind::Shared, by_shared), (LockKind::Exclusive, by_exclusive)] {
            let world = world().await;
            let other = file("PUT share/other").header("x-ms-type", "file").header("x-ms-content-length", "8");
            assert_eq!(world.send(&other).await.status, 201);
            let claim = Claim { access: READS_AND_WRITES, share: ShareMode::ALL };
            let handle = open(&world, "f", claim, CachingWanted::Nothing, Arc::new(Nobody)).await;
            let range = ByteRange { offset: 4, length: 4 };
            world.app.shell.open_files.lock(&group(&world).await, handle, &[(range, kind)]).expect("free");
            let request = &all.iter().find(|(of, _)| *of == name).expect("one of them").1;
            let answer = world.send(request).await;
            let refusal = refusal_of(&answer);
            // Of a source, the refusal is told in a header of its own.
            let refusal = answer.header("x-ms-copy-source-error-code").unwrap_or(refusal);
            assert_eq!(refusal, expected, "{name} beside a lock that is {kind:?}");
        }
    }
}

/// A handle that its client only keeps is closed when it is asked for, and nothing stands in the way.
#[tokio::test]
async fn handles_that_are_only_kept_are_no_violation() {
    for (name, request) in requests() {
        if ["list", "handles", "properties", "metadata", "lease"].contains(&name) {
            continue;
        }
        let (world, client) = (world().await, Client::default());
        let handle = client.open(&world, Rights::RWH, ShareMode::NONE).await;
        let group = group(&world).await;
        let close = || drop(world.app.shell.open_files.close(&group, handle).expect("it is open"));
        let answer = client.meets(&world, &request, (Rights::RWH, Rights::RW), close).await;
        assert!(answer.status < 300, "{name}: {}", answer.text());
    }
}

/// Nobody waits for ever: as long as the request says, and not longer than half a minute.
#[tokio::test(start_paused = true)]
async fn clients_that_do_not_answer() {
    for (line, seconds) in [("GET share/f?timeout=3", 3), ("GET share/f?timeout=90", 30), ("HEAD share/f", 30)] {
        let (world, client) = (world().await, Client::default());
        client.open(&world, Rights::RW, ShareMode::ALL).await;
        let begun = tokio::time::Instant::now();
        let answer = world.send(&file(line)).await;
        assert_eq!((answer.status, answer.header("x-ms-error-code")), (500, Some("ClientCacheFlushDelay")), "{line}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{line}");
        // What it keeps is forgotten some time after.
        world.clock.advance_seconds(35);
        assert_eq!(world.send(&file("GET share/f")).await.status, 200, "{line}");
    }
}

/// The body of a request is read once, however often it is judged.
#[tokio::test]
async fn a_body_survives_waiting() {
    let (world, client) = (world().await, Client::default());
    client.open(&world, Rights::RWH, ShareMode::ALL).await;
    let put = file("PUT share/f?comp=range").header("x-ms-write", "update").header("x-ms-range", "bytes=0-7");
    let put = put.body(b"written!");
    let acknowledge = || {
        world.app.shell.open_files.acknowledge_lease(&lease_key(), Rights::NONE).expect("it was asked");
    };
    let answer = client.meets(&world, &put, (Rights::RWH, Rights::NONE), acknowledge).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(world.send(&file("GET share/f")).await.body, b"written!");
}
