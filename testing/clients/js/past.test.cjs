// Page blobs and snapshots through @azure/storage-blob.
"use strict";

const assert = require("node:assert/strict");
const { test, before, after } = require("node:test");
const { collect, freshName, refused, service } = require("./common.cjs");

const PAGE = 512;

let container;
before(async () => {
  container = service.getContainerClient(freshName());
  await container.create();
});
after(() => container.deleteIfExists());

// One page for each letter.
const pages = (letters) => Buffer.concat([...letters].map((letter) => Buffer.alloc(PAGE, letter)));

async function shown(blob) {
  const content = await blob.downloadToBuffer();
  return [...Array(content.length / PAGE).keys()].map((n) => (content[n * PAGE] ? String.fromCharCode(content[n * PAGE]) : ".")).join("");
}

// This client counts the bytes behind the first.
const inPages = (ranges) => ranges.map(({ offset, count }) => [offset / PAGE, (count + 1) / PAGE]);

test("page blobs: written, cleared, listed, compared", async () => {
  const blob = container.getPageBlobClient("disk");
  await blob.create(8 * PAGE, { blobSequenceNumber: 2 });
  await blob.uploadPages(pages("aaaa"), 2 * PAGE, 4 * PAGE);
  await blob.uploadPages(pages("b"), 3 * PAGE, PAGE);
  assert.equal(await shown(blob), "..abaa..");
  assert.deepEqual(inPages((await blob.getPageRanges()).pageRange), [[2, 4]]);
  const { snapshot } = await blob.createSnapshot();
  await blob.clearPages(4 * PAGE, PAGE);
  await blob.uploadPages(pages("c"), 0, PAGE);
  assert.equal(await shown(blob), "c.ab.a..");
  const difference = await blob.getPageRangesDiff(0, 8 * PAGE, snapshot);
  assert.deepEqual(inPages(difference.pageRange), [[0, 1]]);
  assert.deepEqual(inPages(difference.clearRange), [[4, 1]]);
  const listed = await collect(blob.listPageRanges(0, 8 * PAGE));
  assert.deepEqual(listed.map(({ start, end }) => [start / PAGE, (end + 1) / PAGE]), [[0, 1], [2, 4], [5, 6]]);
  assert.equal(await shown(blob.withSnapshot(snapshot)), "..abaa..");

  assert.equal((await blob.updateSequenceNumber("increment")).blobSequenceNumber, 3);
  await refused(blob.uploadPages(pages("x"), 0, PAGE, { conditions: { ifSequenceNumberLessThan: 3 } }), 412, "SequenceNumberConditionNotMet");
  await blob.resize(2 * PAGE);
  assert.equal(await shown(blob), "c.");
  await refused(blob.uploadPages(pages("x"), 2 * PAGE, PAGE), 416, "InvalidPageRange");
});

test("snapshots stay what they were", async () => {
  const blob = container.getBlockBlobClient("b");
  await blob.upload("first", 5);
  const { snapshot } = await blob.createSnapshot();
  await blob.upload("second", 6);
  const then = blob.withSnapshot(snapshot);
  assert.equal((await then.downloadToBuffer()).toString(), "first");
  const listed = await collect(container.listBlobsFlat({ includeSnapshots: true, prefix: "b" }));
  assert.deepEqual(listed.map((one) => one.snapshot), [snapshot, undefined]);
  await refused(blob.delete(), 409, "SnapshotsPresent");
  await then.delete();
  await refused(then.getProperties(), 404, "BlobNotFound");
  await blob.createSnapshot();
  await blob.delete({ deleteSnapshots: "include" });
  assert.equal(await blob.exists(), false);
});
