//! A counter in a blob, changed under an ETag, under a lease, and by whoever comes last.

use azure_core::{
    Bytes, Result,
    http::{Etag, NoFormat, RequestContent, Url},
};
use azure_storage_blob::{
    BlobClient, BlobServiceClient, StorageError,
    models::{BlobClientAcquireLeaseResultHeaders, BlockBlobClientUploadOptions},
};
use lazuli_clients::{account_sas, fresh_name, provide_tls};

fn number(value: u32) -> RequestContent<Bytes, NoFormat> {
    RequestContent::from(value.to_string().into_bytes())
}

async fn read(blob: &BlobClient) -> Result<(u32, Option<Etag>)> {
    let answer = blob.download(None).await?;
    let etag = answer.properties.etag.clone();
    let body = answer.body.collect().await?;
    Ok((String::from_utf8_lossy(&body).parse().expect("a number"), etag))
}

/// The status and the code with which this is refused.
fn refused<T>(outcome: Result<T>) -> Result<String> {
    let error: StorageError = outcome.err().expect("was accepted and should not have been").try_into()?;
    let code = error.error_code.as_ref().map(AsRef::as_ref).unwrap_or_default();
    Ok(format!("{} {code}", u16::from(error.status_code)))
}

async fn optimistic(counter: &BlobClient) -> Result<()> {
    let under = |etag| Some(BlockBlobClientUploadOptions { if_match: etag, ..Default::default() });
    counter.upload(number(1), None).await?;
    let (seen, etag) = read(counter).await?;
    println!("optimistic: we read {seen}");
    counter.upload(number(2), None).await?;
    println!("optimistic: somebody else writes 2");
    let outcome = refused(counter.upload(number(seen + 1), under(etag)).await)?;
    println!("optimistic: our write under the ETag of 1 is refused with {outcome}");
    let (seen, etag) = read(counter).await?;
    counter.upload(number(seen + 1), under(etag)).await?;
    println!("optimistic: we read again, and write 3 under the ETag of 2");
    Ok(())
}

async fn pessimistic(counter: &BlobClient) -> Result<()> {
    let lease = counter.acquire_lease(15, None).await?.lease_id()?.expect("an id");
    println!("pessimistic: we hold the lease");
    let outcome = refused(counter.acquire_lease(15, None).await)?;
    println!("pessimistic: a second acquire is refused with {outcome}");
    let outcome = refused(counter.upload(number(9), None).await)?;
    println!("pessimistic: a write without the lease's id is refused with {outcome}");
    let with_id = BlockBlobClientUploadOptions { lease_id: Some(lease.clone()), ..Default::default() };
    counter.upload(number(read(counter).await?.0 + 1), Some(with_id)).await?;
    counter.release_lease(lease, None).await?;
    println!("pessimistic: we write 4 with it, and release it");
    Ok(())
}

async fn last_writer_wins(counter: &BlobClient) -> Result<()> {
    counter.upload(number(5), None).await?;
    counter.upload(number(6), None).await?;
    println!("last writer wins: 5 and then 6 are written; the blob is {}", read(counter).await?.0);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    provide_tls();
    let url = std::env::var("AZURE_STORAGE_BLOB_URL")
        .unwrap_or_else(|_| format!("http://127.0.0.1:10000/devstoreaccount1?{}", account_sas("rwdlac")));
    let service = BlobServiceClient::new(Url::parse(&url)?, None, None)?;
    let container = service.blob_container_client(&fresh_name("counters"));
    container.create(None).await?;
    let counter = container.blob_client("counter");
    optimistic(&counter).await?;
    pessimistic(&counter).await?;
    last_writer_wins(&counter).await?;
    container.delete(None).await?;
    Ok(())
}
