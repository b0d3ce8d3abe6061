// A counter in a blob, changed under an ETag, under a lease, and by whoever comes last.
"use strict";

const { randomBytes } = require("node:crypto");
const { BlobServiceClient } = require("@azure/storage-blob");

const CONNECTION = process.env.AZURE_STORAGE_CONNECTION_STRING || "UseDevelopmentStorage=true";

// The status and the code with which this is refused.
const refused = (promise) => promise.then(
  () => { throw new Error("was accepted and should not have been"); },
  (error) => `${error.statusCode} ${error.code}`);
const read = async (blob) => Number(await blob.downloadToBuffer());
const write = (blob, number, conditions) => blob.upload(`${number}`, `${number}`.length, { conditions });

async function optimistic(counter) {
  const { etag } = await write(counter, 1);
  console.log(`optimistic: we read ${await read(counter)}`);
  await write(counter, 2);
  console.log("optimistic: somebody else writes 2");
  console.log(`optimistic: our write under the ETag of 1 is refused with ${await refused(write(counter, 2, { ifMatch: etag }))}`);
  const again = await counter.getProperties();
  const value = await counter.downloadToBuffer(0, undefined, { conditions: { ifMatch: again.etag } });
  await write(counter, Number(value) + 1, { ifMatch: again.etag });
  console.log("optimistic: we read again, and write 3 under the ETag of 2");
}

async function pessimistic(counter) {
  const lease = counter.getBlobLeaseClient();
  await lease.acquireLease(15);
  console.log("pessimistic: we hold the lease");
  console.log(`pessimistic: a second acquire is refused with ${await refused(counter.getBlobLeaseClient().acquireLease(15))}`);
  console.log(`pessimistic: a write without the lease's id is refused with ${await refused(write(counter, 9))}`);
  await write(counter, await read(counter) + 1, { leaseId: lease.leaseId });
  await lease.releaseLease();
  console.log("pessimistic: we write 4 with it, and release it");
}

async function lastWriterWins(counter) {
  await write(counter, 5);
  await write(counter, 6);
  console.log(`last writer wins: 5 and then 6 are written; the blob is ${await read(counter)}`);
}

async function main() {
  const container = BlobServiceClient.fromConnectionString(CONNECTION).getContainerClient(`counters-${randomBytes(4).toString("hex")}`);
  await container.create();
  try {
    for (const way of [optimistic, pessimistic, lastWriterWins]) await way(container.getBlockBlobClient("counter"));
  } finally {
    await container.delete();
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
