//! Shares that SMB clients use: whoever connects takes the share, whoever uses it keeps it, and what was promised to persist is found again
//! by the next owner.

use std::sync::Arc;
use std::time::Duration;

use ::smb::Server;
use ::smb::memory::{BUDGET_MIB_DEFAULT, Budget};
use contract::names::{AccountName, ShareName};
use contract::rights as right;
use http::account::Account;
use partition::file::handle::kept;
use partition::file::share;
use partition::file::tenure::{Claim, Keeper, Taken};
use partition::record::FileId;
use partition::record::handle::{KeptCaching, KeptHandle};

use crate::gateway::{Cluster, Gateway, file, put_range};

struct Nobody;

impl ::smb::Accounts for Nobody {
    fn find(&self, _: &str) -> Option<(AccountName, Vec<String>)> {
        None
    }
}

fn serve_smb(gateway: &Gateway) -> Arc<Server> {
    let shell = gateway.world.app.shell.clone();
    let server = Server::new(shell.clone(), Box::new(Nobody), false, Budget::new(BUDGET_MIB_DEFAULT));
    let keeper: Arc<dyn Keeper> = server.clone();
    shell.tenures().expect("joined").set_keeper(Arc::downgrade(&keeper));
    server
}

async fn found(gateway: &Gateway) -> (AccountName, ShareName, share::Found) {
    let (account, name) = (Account::development().name, ShareName::parse("share").expect("right"));
    let found = share::find(&gateway.world.app.shell, &account, &name, None).await.expect("the share");
    (account, name, found)
}

/// As a client that connects to the share; where the owner is if it is refused.
async fn connect(gateway: &Gateway) -> Result<Claim, String> {
    let (account, name, found) = found(gateway).await;
    let tenures = gateway.world.app.shell.tenures().expect("joined");
    match tenures.take(&account, &name, &found).await.expect("no fault") {
        Taken::Ours(claim) => Ok(claim),
        Taken::Theirs { address } => Err(address),
    }
}

/// Writes a handle on `f` down that lets nobody else write, as if its gateway had been given it.
async fn keep_handle(gateway: &Gateway, id: u64) {
    let (account, _, found) = found(gateway).await;
    let head = gateway.done(file("HEAD share/f")).await;
    let file = head.header("x-ms-file-id").and_then(|id| id.parse().ok()).expect("an id");
    let handle = KeptHandle {
        share: "share".into(),
        incarnation: found.head.incarnation,
        path: "f".into(),
        file: FileId(file),
        mask: right::READ_DATA | right::WRITE_DATA,
        shares: 1,
        deletes_on_close: false,
        mode: 0,
        is_through: false,
        client: [1; 16],
        create: [2; 16],
        kept_milliseconds: 60_000,
        caching: KeptCaching::Nothing,
        locks: Vec::new(),
    };
    kept::keep(&gateway.world.app.shell, &account, id, &handle).await.expect("kept");
}

async fn kept_ids(gateway: &Gateway) -> Vec<u64> {
    let kept = kept::all(&gateway.world.app.shell, &Account::development().name).await.expect("read");
    kept.into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn a_client_takes_a_share_that_nobody_uses_and_keeps_it() {
    let (_cluster, one, two) = Cluster::two().await;
    let _servers = [serve_smb(&one), serve_smb(&two)];
    one.done(put_range("f", 0, "1234")).await;
    // The first owns it, and has no use for it but REST.
    let claim = connect(&two).await.expect("let go");
    one.done(put_range("f", 4, "5678")).await;
    assert_eq!(connect(&one).await.err(), Some(two.peer.to_string()));
    // A second client of the same gateway.
    let another = connect(&two).await.expect("its own");
    drop(claim);
    assert!(connect(&one).await.is_err());
    drop(another);
    let _claim = connect(&one).await.expect("let go");
    assert_eq!(two.done(file("GET share/f")).await.text(), "12345678");
}

#[tokio::test]
async fn the_next_owner_brings_persistent_handles_back() {
    let (cluster, one, two) = Cluster::two().await;
    keep_handle(&one, 7).await;
    let _server = serve_smb(&two);
    two.done(put_range("f", 0, "1234")).await;
    drop(one);
    cluster.clock.advance_seconds(21);
    // What was heard of the first is believed for a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let answer = two.send(&put_range("f", 0, "1234")).await;
    assert_eq!((answer.status, answer.code()), (409, "SharingViolation"));
    assert_eq!(two.done(file("GET share/f?comp=listhandles")).await.text().matches("<HandleId>").count(), 1);
    // It waits for its client here, and is as easily found by another: the share is let go, and the record stays.
    let three = cluster.gateway().await;
    let _another = serve_smb(&three);
    let _claim = connect(&three).await.expect("let go");
    assert_eq!(kept_ids(&three).await, [7]);
    let answer = two.send(&put_range("f", 0, "1234")).await;
    assert_eq!((answer.status, answer.code()), (409, "SharingViolation"));
    assert_eq!(two.world.app.shell.open_files.list(&two.group().await, everything(), None, 9).handles.len(), 0);
}

fn everything() -> partition::file::opens::Scope {
    partition::file::opens::Scope { file: FileId::ROOT, is_recursive: true }
}

/// A gateway that cannot reach the cluster any more closes what is open, and others go on.
#[tokio::test]
async fn what_is_lost_is_closed() {
    let (_cluster, one, _two) = Cluster::two().await;
    keep_handle(&one, 7).await;
    let group = one.group().await;
    let tenures = one.world.app.shell.tenures().expect("joined");
    tenures.lost(&group);
    let _server = serve_smb(&one);
    let _claim = connect(&one).await.expect("its own");
    let open = || one.world.app.shell.open_files.list(&group, everything(), None, 9).handles.len();
    assert_eq!(open(), 1);
    tenures.lost(&group);
    assert_eq!((open(), kept_ids(&one).await), (0, vec![7]));
}
