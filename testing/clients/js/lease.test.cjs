// Leases through @azure/storage-blob: their life (B6), what a leased blob refuses (B7, B8), what a leased container refuses (B9).
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test } = require("node:test");
const { freshContainer, freshName, notOnAzurite, refused, service, text } = require("./common.cjs");

const OTHER = crypto.randomUUID();
const stateOf = async (thing) => {
  const { leaseState, leaseStatus, leaseDuration } = await thing.getProperties();
  return [leaseState, leaseStatus, leaseDuration];
};
const under = (leaseId) => ({ conditions: { leaseId } });

for (const kind of ["blob", "container"]) {
  test(`the life of a lease on a ${kind}`, async (t) => {
    const container = await freshContainer(t);
    const blob = container.getBlockBlobClient("b");
    await blob.upload("content", 7);
    const thing = kind === "blob" ? blob : container;
    const before = await thing.getProperties();

    const lease = thing.getBlobLeaseClient();
    await lease.acquireLease(-1);
    assert.deepEqual(await stateOf(thing), ["leased", "locked", "infinite"]);
    await refused(thing.getBlobLeaseClient().acquireLease(15), 409, "LeaseAlreadyPresent");
    await lease.acquireLease(60); // by its id again, with another duration
    assert.deepEqual(await stateOf(thing), ["leased", "locked", "fixed"]);
    await lease.renewLease();
    const old = lease.leaseId;
    await lease.changeLease(OTHER);
    assert.equal(lease.leaseId, OTHER);
    await refused(thing.getBlobLeaseClient(old).renewLease(), 409, "LeaseIdMismatchWithLeaseOperation");
    await refused(thing.getBlobLeaseClient(old).releaseLease(), 409, "LeaseIdMismatchWithLeaseOperation");

    const { leaseTime } = await lease.breakLease(60);
    assert.ok(leaseTime > 0 && leaseTime <= 60, `${leaseTime}`);
    assert.deepEqual((await stateOf(thing)).slice(0, 2), ["breaking", "locked"]);
    await refused(lease.acquireLease(15), 409, "LeaseIsBreakingAndCannotBeAcquired");
    await refused(lease.changeLease(crypto.randomUUID()), 409, "LeaseIsBreakingAndCannotBeChanged");
    assert.equal((await thing.getBlobLeaseClient().breakLease(0)).leaseTime, 0);
    assert.deepEqual(await stateOf(thing), ["broken", "unlocked", undefined]);
    await refused(thing.getBlobLeaseClient(OTHER).renewLease(), 409, "LeaseIsBrokenAndCannotBeRenewed");

    const next = thing.getBlobLeaseClient();
    await next.acquireLease(15);
    await next.releaseLease();
    assert.deepEqual(await stateOf(thing), ["available", "unlocked", undefined]);
    await refused(next.breakLease(0), 409, "LeaseNotPresentWithLeaseOperation");
    await refused(next.acquireLease(14), 400, "InvalidHeaderValue");
    const after = await thing.getProperties();
    assert.deepEqual([after.etag, after.lastModified], [before.etag, before.lastModified]);
  });
}

notOnAzurite("a leased blob", async (t) => {
  const container = await freshContainer(t);
  const blob = container.getBlockBlobClient("b");
  const { etag } = await blob.upload("content", 7);
  const lease = blob.getBlobLeaseClient();
  await refused(lease.acquireLease(15, { conditions: { ifMatch: '"0x1"' } }), 412, "ConditionNotMet");
  await lease.acquireLease(-1, { conditions: { ifMatch: etag } });

  const id = Buffer.from("0001").toString("base64");
  const writes = {
    put: (how) => blob.upload("changed", 7, how),
    metadata: (how) => blob.setMetadata({ a: "1" }, how),
    properties: (how) => blob.setHTTPHeaders({ blobContentType: "a/b" }, how),
    block: (how) => blob.stageBlock(id, "x", 1, how),
    "block list": (how) => blob.commitBlockList([id], how),
    delete: (how) => blob.delete(how),
  };
  const reads = {
    get: (how) => blob.downloadToBuffer(0, undefined, how),
    head: (how) => blob.getProperties(how),
    "block list": (how) => blob.getBlockList("all", how),
  };
  for (const write of Object.values(writes)) {
    await refused(write(), 412, "LeaseIdMissing");
    await refused(write(under(OTHER)), 412, "LeaseIdMismatchWithBlobOperation");
  }
  assert.equal((await blob.getProperties()).etag, etag);
  for (const read of Object.values(reads)) {
    await read();
    await read(under(lease.leaseId));
    await refused(read(under(OTHER)), 412, "LeaseIdMismatchWithBlobOperation");
  }
  const [listed] = (await container.listBlobsFlat().byPage().next()).value.segment.blobItems;
  assert.deepEqual([listed.properties.leaseState, listed.properties.leaseDuration], ["leased", "infinite"]);
  // The block first: it makes the list that is committed.
  for (const [name, write] of Object.entries(writes)) if (name !== "delete") await write(under(lease.leaseId));
  assert.equal(await text(blob), "x");
  const { leaseId } = lease;
  await lease.breakLease(0);
  for (const act of [writes.put, reads.head]) await refused(act(under(leaseId)), 412, "LeaseLost");
  await writes.delete();
  await refused(writes.put(under(leaseId)), 412, "LeaseNotPresentWithBlobOperation");
});

test("a leased container", async (t) => {
  const container = await freshContainer(t);
  const lease = container.getBlobLeaseClient();
  await lease.acquireLease(-1);
  await container.getBlockBlobClient("b").upload("its blobs are free", 18);
  await container.deleteBlob("b");
  // Get Properties is left out: this client drops the id that it is given for it.
  const set = (how) => container.setAccessPolicy(undefined, undefined, how);
  for (const act of [(how) => container.setMetadata({ a: "1" }, how), (how) => container.getAccessPolicy(how), set]) {
    await act();
    await act(under(lease.leaseId));
    await refused(act(under(OTHER)), 412, "LeaseIdMismatchWithContainerOperation");
  }
  await refused(container.delete(), 412, "LeaseIdMissing");
  await refused(container.delete(under(OTHER)), 412, "LeaseIdMismatchWithContainerOperation");
  await container.delete(under(lease.leaseId));
});

test("one holder at a time", async (t) => {
  const container = await freshContainer(t);
  const [lock, counter] = ["lock", "counter"].map((name) => container.getBlockBlobClient(name));
  await lock.upload("", 0);
  await counter.upload("0", 1);
  let refusals = 0;
  const turn = async () => {
    const lease = lock.getBlobLeaseClient();
    for (;;) {
      try {
        await lease.acquireLease(60);
        break;
      } catch (error) {
        assert.equal(error.code, "LeaseAlreadyPresent");
        refusals += 1;
      }
    }
    // Without any condition: only a lock that holds makes this add up.
    const value = `${Number(await text(counter)) + 1}`;
    await counter.upload(value, value.length);
    await lease.releaseLease();
  };
  await Promise.all(Array.from({ length: 12 }, turn));
  assert.equal(await text(counter), "12");
  assert.ok(refusals > 0, "nobody had to wait: nothing was tried");
});

test("leases where nothing is", async (t) => {
  const container = await freshContainer(t);
  await refused(container.getBlobClient("absent").getBlobLeaseClient().acquireLease(15), 404, "BlobNotFound");
  await refused(service.getContainerClient(freshName()).getBlobLeaseClient().acquireLease(15), 404, "ContainerNotFound");
});
