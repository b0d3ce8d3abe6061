//! REST through a gateway that does not own the share is what it is through the one that does.

use std::sync::Arc;

use contract::Service;
use env::Clock;
use http::ServiceConnection;
use http::wire::{self, Limits};
use partition::file::opens::{
    Access, BreakNotice, ByteRange, CachingWanted, Claim, HandleId, Listener, LockKind, Opening, ShareMode,
};
use partition::record::FileId;
use testing::{AccountSas, Answer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::gateway::{Cluster, Gateway, file, put_range};

struct Nobody;

impl Listener for Nobody {
    fn broken(&self, notice: BreakNotice) {
        panic!("nothing was granted: {notice:?}");
    }
}

/// An SMB client's handle on `f`, in the table of a gateway.
async fn open(gateway: &Gateway, share: ShareMode) -> HandleId {
    let head = gateway.send(&file("HEAD share/f")).await;
    let id = head.header("x-ms-file-id").and_then(|id| id.parse().ok()).expect("an id");
    let now = gateway.world.clock.now();
    let opening = Opening {
        session: 7,
        client_address: "127.0.0.1:5000".into(),
        client_name: "client".into(),
        path: "f".into(),
        file: FileId(id),
        above: vec![FileId::ROOT],
        claim: Claim { access: Access { read: true, write: true, delete: false }, share },
        mask: 1,
        caching: CachingWanted::Nothing,
        is_new: false,
        overwrites: false,
        deletes_on_close: false,
        is_directory: false,
        is_leased: false,
        opened: now,
        reconnected: None,
        kept_as: None,
        listener: Arc::new(Nobody),
    };
    let table = &gateway.world.app.shell.open_files;
    table.open(&gateway.group().await, opening, now).expect("nobody has it").handle.id
}

fn outcome(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.code())
}

/// E1, whichever gateway.
#[tokio::test]
async fn what_is_written_through_one_gateway_is_read_through_the_other() {
    let (_cluster, one, two) = Cluster::two().await;
    one.done(put_range("f", 0, "1234")).await;
    two.done(put_range("f", 4, "5678")).await;
    for gateway in [&one, &two] {
        let answer = gateway.done(file("GET share/f")).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "12345678"));
        let part = gateway.done(file("GET share/f").header("x-ms-range", "bytes=2-5")).await;
        assert_eq!((part.status, part.text().as_str()), (206, "3456"));
        assert_eq!(part.header("content-range"), Some("bytes 2-5/8"));
    }
    // A share that the second made is its own.
    two.done(file("PUT other?restype=share")).await;
    two.done(file("PUT other/g").header("x-ms-type", "file").header("x-ms-content-length", "2")).await;
    let head = one.done(file("HEAD other/g")).await;
    assert_eq!((head.header("content-length"), head.body.len()), (Some("2"), 0));
    one.done(file("DELETE other?restype=share")).await;
    assert_eq!(outcome(&two.send(&file("HEAD other/g")).await).0, 404);
}

/// The head of an answer goes through untouched: names in their case, one of each header.
#[tokio::test]
async fn answers_come_back_as_they_were_made() {
    let (_cluster, one, two) = Cluster::two().await;
    let marked =
        file("PUT share/f?comp=metadata").header("x-ms-meta-Hello", "World").header("x-ms-client-request-id", "7");
    let answer = two.done(marked).await;
    assert_eq!(answer.header("x-ms-client-request-id"), Some("7"));
    let [here, there] =
        [one.done(file("GET share/f?comp=metadata")).await, two.done(file("GET share/f?comp=metadata")).await];
    for answer in [&here, &there] {
        assert!(answer.headers.contains(&("x-ms-meta-Hello".into(), "World".into())), "{:?}", answer.headers);
    }
    let names = |answer: &Answer| {
        let mut names: Vec<_> = answer.headers.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&here), names(&there));
    assert!(there.raw.starts_with(b"HTTP/1.1 200 OK\r\n"), "{:?}", there.raw);
    // The reason of a refusal is its message.
    let [here, there] = [one.send(&file("GET share/none")).await, two.send(&file("GET share/none")).await];
    let line = |answer: &Answer| String::from_utf8_lossy(&answer.raw).lines().next().map(str::to_owned);
    assert_eq!(line(&here), line(&there));
    assert_eq!(outcome(&there), (404, "ResourceNotFound"));
}

/// F3 and F6, whichever gateway.
#[tokio::test]
async fn what_an_smb_client_holds_holds_at_every_gateway() {
    let (_cluster, one, two) = Cluster::two().await;
    let everybody = ShareMode { read: true, write: true, delete: true };
    let handle = open(&one, ShareMode { write: false, ..everybody }).await;
    for gateway in [&one, &two] {
        assert_eq!(outcome(&gateway.send(&put_range("f", 0, "1234")).await), (409, "SharingViolation"));
        assert_eq!(gateway.send(&file("GET share/f")).await.status, 200);
        assert!(gateway.done(file("GET share/f?comp=listhandles")).await.text().contains("<SessionId>7</SessionId>"));
    }
    let (table, group) = (&one.world.app.shell.open_files, one.group().await);
    table.close(&group, handle);
    let handle = open(&one, everybody).await;
    table.lock(&group, handle, &[(ByteRange { offset: 0, length: 4 }, LockKind::Exclusive)]).expect("free");
    assert_eq!(outcome(&two.send(&put_range("f", 0, "1234")).await), (409, "FileLockConflict"));
    // Closed by force through the other gateway.
    two.done(file("PUT share/f?comp=forceclosehandles").header("x-ms-handle-id", "*")).await;
    two.done(put_range("f", 0, "1234")).await;
}

/// E3, whichever gateway.
#[tokio::test]
async fn leases_hold_at_every_gateway() {
    let (_cluster, one, two) = Cluster::two().await;
    let id = "00000000-0000-0000-0000-000000000001";
    let acquire =
        file("PUT share/f?comp=lease").header("x-ms-lease-action", "acquire").header("x-ms-lease-duration", "-1");
    let answer = two.done(acquire.header("x-ms-proposed-lease-id", id)).await;
    assert_eq!(answer.header("x-ms-lease-id"), Some(id));
    for gateway in [&one, &two] {
        assert_eq!(outcome(&gateway.send(&put_range("f", 0, "1234")).await), (412, "LeaseIdMissing"));
        gateway.done(put_range("f", 0, "1234").header("x-ms-lease-id", id)).await;
    }
}

#[tokio::test]
async fn large_files_pass_through() {
    const MIB: usize = 1024 * 1024;
    let (_cluster, _one, two) = Cluster::two().await;
    let bytes = 64 * MIB;
    let big = file("PUT share/big").header("x-ms-type", "file").header("x-ms-content-length", bytes.to_string());
    two.done(big).await;
    let content: Vec<u8> = (0..bytes).map(|at| (at / 7 + at / MIB) as u8).collect();
    for (at, part) in content.chunks(4 * MIB).enumerate() {
        two.done(put_range("big", at * 4 * MIB, part)).await;
    }
    let answer = two.done(file("GET share/big")).await;
    assert!(answer.body == content, "{} bytes", answer.body.len());
    let too_much = put_range("big", 0, vec![0; 4 * MIB + 1]);
    assert_eq!(outcome(&two.send(&too_much).await), (413, "RequestBodyTooLarge"));
}

#[tokio::test]
async fn bodies_in_chunks_pass_through() {
    let (_cluster, one, two) = Cluster::two().await;
    let put = file("PUT share/f?comp=range").header("x-ms-write", "update").header("x-ms-range", "bytes=0-7");
    two.done(put.header("Transfer-Encoding", "chunked").body("3\r\n123\r\n5\r\n45678\r\n0\r\n\r\n")).await;
    assert_eq!(one.done(file("GET share/f")).await.text(), "12345678");
}

/// Says so much of a request that is sent by hand, and tells what is answered until nothing more comes.
async fn converse(gateway: &Gateway, head: &[u8], body: &[u8]) -> (String, String) {
    let (mut client, mut server) = tokio::io::duplex(64 * 1024);
    let address = std::net::IpAddr::from([127, 0, 0, 1]);
    let connection = ServiceConnection::new(Service::File, gateway.world.app.clone(), address, false);
    let serving = tokio::spawn(async move {
        let (_drain, draining) = watch::channel(false);
        let _ = wire::serve(&mut server, &connection, &Limits::default(), draining).await;
    });
    client.write_all(head).await.expect("a pipe");
    let mut first = vec![0; 12];
    client.read_exact(&mut first).await.expect("a status");
    let _ = client.write_all(body).await; // nobody may want it
    let _ = client.shutdown().await;
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest).await;
    serving.await.expect("no panic");
    (String::from_utf8_lossy(&first).into(), String::from_utf8_lossy(&rest).into())
}

#[tokio::test]
async fn a_refusal_comes_before_the_body_and_consent_asks_for_it() {
    let (_cluster, _one, two) = Cluster::two().await;
    let now = two.world.clock.now();
    let request = |path: &str| {
        let bytes = put_range(path, 0, "12345678").header("Expect", "100-continue").bytes(now);
        bytes[..bytes.len() - 8].to_vec()
    };
    let (first, rest) = converse(&two, &request("none"), b"").await;
    assert!(first.ends_with(" 404"), "{first}{rest}");
    assert!(rest.contains("ResourceNotFound"), "{rest}");
    let (first, rest) = converse(&two, &request("f"), b"12345678").await;
    assert!(first.ends_with(" 100"), "{first}{rest}");
    assert!(rest.contains("HTTP/1.1 201"), "{rest}");
    assert_eq!(two.done(file("GET share/f")).await.text(), "12345678");
}

/// The address of a client is the one it has at the gateway that it is connected to; `spr` likewise.
#[tokio::test]
async fn a_sas_for_one_address_counts_at_every_gateway() {
    let (cluster, one, two) = Cluster::two().await;
    let of = |ip: &str, protocol: &str| {
        let sas = AccountSas { ip: ip.into(), protocol: protocol.into(), ..AccountSas::all(cluster.clock.now()) };
        file("GET share/f").with_sas(sas.parameters())
    };
    for gateway in [&one, &two] {
        assert_eq!(gateway.send_from("10.1.2.3", &of("10.1.2.3", "")).await.status, 200);
        assert_eq!(gateway.send_from("10.1.2.4", &of("10.1.2.3", "")).await.status, 403);
        assert_eq!(gateway.send_from("10.1.2.3", &of("127.0.0.1", "")).await.status, 403);
        assert_eq!(gateway.world.send_secure(&of("", "https")).await.status, 200);
        assert_eq!(gateway.send(&of("", "https")).await.status, 403);
    }
}

async fn ask(address: std::net::SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    stream.write_all(bytes).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("answered");
    Answer::parse(answer)
}

#[tokio::test]
async fn the_port_of_peers_answers_gateways_alone() {
    let (cluster, one, two) = Cluster::two().await;
    let get = file("GET share/f");
    let now = cluster.clock.now();
    for request in [get.clone(), get.clone().header("x-lazuli-forwarded", "127.0.0.1 http AAAA")] {
        assert_eq!(outcome(&ask(one.peer, &request.bytes(now)).await), (403, "AuthenticationFailed"));
        // Elsewhere the header means nothing.
        assert_eq!(two.send(&request).await.status, 200);
    }
    let let_go = b"POST /.lazuli/let-go?group=Zg HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(one.peer, let_go).await.status, 403);
    // A gateway of another cluster has another secret.
    let stranger = Cluster::new().gateway().await;
    assert_eq!(ask(stranger.peer, &get.bytes(now)).await.status, 403);
}

#[tokio::test]
async fn another_gateway_takes_over_when_the_owner_is_gone() {
    let (cluster, one, two) = Cluster::two().await;
    one.done(put_range("f", 0, "12345678")).await;
    assert_eq!(two.done(file("GET share/f")).await.text(), "12345678");
    drop(one);
    // Nobody knows yet whether it will come back.
    assert_eq!(outcome(&two.send(&file("GET share/f")).await), (503, "ServerBusy"));
    cluster.clock.advance_seconds(21);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(two.done(file("GET share/f")).await.text(), "12345678");
    two.done(put_range("f", 0, "8765")).await;
    let three = cluster.gateway().await;
    assert_eq!(three.done(file("GET share/f")).await.text(), "87655678");
}

/// A gateway that let a share go names the new owner to whoever still asks it, and is not asked to pass anything on itself.
#[tokio::test]
async fn a_gateway_that_hears_of_a_newer_owner_asks_there() {
    let (cluster, one, two) = Cluster::two().await;
    let three = cluster.gateway().await;
    // The third believes for a second what it has read.
    three.done(file("GET share/f")).await;
    let group = one.group().await;
    assert!(one.world.app.shell.tenures().expect("joined").let_go(&group).await.expect("let go"));
    two.done(put_range("f", 0, "1234")).await;
    three.done(put_range("f", 4, "5678")).await;
    assert_eq!(one.done(file("GET share/f")).await.text(), "12345678");
}

/// An owner that breaks off: 503 while nothing was sent back, a cut connection otherwise.
#[tokio::test]
async fn an_owner_that_breaks_off_is_not_taken_for_a_whole_answer() {
    for (said, expected) in [
        (&b""[..], 503),
        (b"HTTP/1.1 200 OK\r\nContent-Le", 503),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n", 503),
        (b"nonsense\r\n\r\n", 503),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n1234", 200),
    ] {
        let cluster = Cluster::new();
        let owner = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let one = cluster.gateway_at(owner.local_addr().expect("bound")).await;
        one.done(file("PUT share?restype=share")).await;
        one.done(file("PUT share/f").header("x-ms-type", "file").header("x-ms-content-length", "8")).await;
        let two = cluster.gateway().await;
        let breaking = tokio::spawn(async move {
            let (mut stream, _) = owner.accept().await.expect("a connection");
            let mut asked = vec![0; 4096];
            let _ = stream.read(&mut asked).await.expect("a request");
            stream.write_all(said).await.expect("sent");
        });
        let answer = two.send(&file("GET share/f")).await;
        assert_eq!(answer.status, expected, "{:?}", String::from_utf8_lossy(said));
        assert!(answer.body.len() < 8 || expected == 503, "{answer:?}");
        breaking.await.expect("no panic");
    }
}
