//! A blob that is nothing but staged blocks can be leased, and its lease is the blob's when it comes into being.

use testing::{Answer, Request, World};

const A: &str = "01234567-89ab-cdef-0123-456789abcdef";
const B: &str = "11234567-89ab-cdef-0123-456789abcdef";

async fn world() -> World {
    let world = World::new().await;
    assert_eq!(world.send(&Request::new("PUT box?restype=container")).await.status, 201);
    assert_eq!(world.send(&block()).await.status, 201);
    world
}

fn block() -> Request {
    Request::new("PUT box/b?comp=block&blockid=YQ==").body("block")
}

fn lease(action: &str) -> Request {
    Request::new("PUT box/b?comp=lease").header("x-ms-lease-action", action)
}

fn acquire(id: &str) -> Request {
    lease("acquire").header("x-ms-lease-duration", "-1").header("x-ms-proposed-lease-id", id)
}

fn put() -> Request {
    Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("content")
}

fn commit() -> Request {
    Request::new("PUT box/b?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>")
}

fn with(request: Request, id: &str) -> Request {
    if id.is_empty() { request } else { request.header("x-ms-lease-id", id) }
}

#[track_caller]
fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text());
}

/// A copy takes away what is staged, as a put does, and asks for the lease as a put does.
#[tokio::test]
async fn copies_ask_for_the_lease() {
    let world = world().await;
    let source = Request::new("PUT box/source").header("x-ms-blob-type", "BlockBlob").body("content");
    is(&world.send(&source).await, 201, "");
    is(&world.send(&acquire(A)).await, 201, "");
    let copy =
        || Request::new("PUT box/b").header("x-ms-copy-source", "http://127.0.0.1:10000/devstoreaccount1/box/source");
    is(&world.send(&copy()).await, 412, "LeaseIdMissing");
    is(&world.send(&with(copy(), B)).await, 412, "LeaseIdMismatchWithBlobOperation");
    is(&world.send(&with(copy(), A)).await, 202, "");
    let copied = world.send(&Request::new("HEAD box/b")).await;
    assert_eq!((copied.header("x-ms-lease-state"), copied.header("content-length")), (Some("leased"), Some("7")));
}

#[tokio::test]
async fn the_five_operations() {
    let world = world().await;
    let acquired = world.send(&acquire(A)).await;
    is(&acquired, 201, "");
    assert_eq!((acquired.header("x-ms-lease-id"), acquired.header("etag")), (Some(A), None));
    is(&world.send(&acquire(B)).await, 409, "LeaseAlreadyPresent");
    is(&world.send(&with(lease("renew"), A)).await, 200, "");
    is(&world.send(&with(lease("change"), A).header("x-ms-proposed-lease-id", B)).await, 200, "");
    is(&world.send(&with(lease("release"), A)).await, 409, "LeaseIdMismatchWithLeaseOperation");
    is(&world.send(&lease("break").header("x-ms-lease-break-period", "0")).await, 202, "");
    is(&world.send(&with(lease("release"), B)).await, 200, "");
    is(&world.send(&acquire(A).header("If-Match", "*")).await, 404, "BlobNotFound");
    is(&world.send(&Request::new("HEAD box/b")).await, 404, "BlobNotFound");
    let elsewhere = Request::new("PUT box/none?comp=lease").header("x-ms-lease-action", "acquire");
    is(&world.send(&elsewhere.header("x-ms-lease-duration", "-1")).await, 404, "BlobNotFound");
    world.clock.advance_seconds(7 * 24 * 3600);
    is(&world.send(&acquire(A)).await, 404, "BlobNotFound");
}

#[tokio::test]
async fn every_write_asks_for_it() {
    let list = || Request::new("GET box/b?comp=blocklist&blocklisttype=all");
    for (request, status) in
        [(block(), 201), (put(), 201), (commit(), 201), (Request::new("DELETE box/b"), 202), (list(), 200)]
    {
        let is_read = request.method == "GET";
        let world = world().await;
        is(&world.send(&with(request.clone(), A)).await, 412, "LeaseNotPresentWithBlobOperation");
        is(&world.send(&acquire(A)).await, 201, "");
        is(&world.send(&with(request.clone(), B)).await, 412, "LeaseIdMismatchWithBlobOperation");
        match is_read {
            true => is(&world.send(&request).await, 200, ""),
            false => is(&world.send(&request).await, 412, "LeaseIdMissing"),
        }
        is(&world.send(&with(request, A)).await, status, "");
    }
}

#[tokio::test]
async fn it_stays_when_the_blob_comes_and_goes_with_it() {
    for make in [put(), commit()] {
        let world = world().await;
        is(&world.send(&acquire(A)).await, 201, "");
        is(&world.send(&with(make, A)).await, 201, "");
        let made = world.send(&Request::new("HEAD box/b")).await;
        assert_eq!(made.header("x-ms-lease-state"), Some("leased"));
        is(&world.send(&put()).await, 412, "LeaseIdMissing");
        is(&world.send(&with(Request::new("DELETE box/b"), A)).await, 202, "");
        is(&world.send(&block()).await, 201, "");
        is(&world.send(&put()).await, 201, "");
    }
    // One that has run out is forgotten.
    let world = world().await;
    let short = lease("acquire").header("x-ms-lease-duration", "15").header("x-ms-proposed-lease-id", A);
    is(&world.send(&short).await, 201, "");
    world.clock.advance_seconds(15);
    is(&world.send(&with(commit(), A)).await, 412, "LeaseLost");
    is(&world.send(&commit()).await, 201, "");
    assert_eq!(world.send(&Request::new("HEAD box/b")).await.header("x-ms-lease-state"), Some("available"));
}
