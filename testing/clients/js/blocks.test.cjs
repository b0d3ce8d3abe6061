// Blobs of blocks and append blobs through @azure/storage-blob.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test } = require("node:test");
const { Readable } = require("node:stream");
const { collect, freshContainer, notOnAzurite, refused, text } = require("./common.cjs");

const MIB = 1024 * 1024;
const id = (n) => Buffer.from(`${n}`.padStart(5, "0")).toString("base64");
const named = (blocks) => (blocks ?? []).map((block) => [block.name, block.size]);

notOnAzurite("blocks: staged at once, committed in the order of the list", async (t) => {
  const blob = (await freshContainer(t)).getBlockBlobClient("b");
  const parts = Array.from({ length: 60 }, (_, n) => crypto.randomBytes(1000 + 37 * n));
  await Promise.all(parts.map((part, n) => blob.stageBlock(id(n), part, part.length)));
  assert.equal(await blob.exists(), false);
  const staged = await blob.getBlockList("all");
  assert.deepEqual(named(staged.uncommittedBlocks), parts.map((part, n) => [id(n), part.length]));
  assert.deepEqual(named(staged.committedBlocks), []);

  const order = [...parts.keys()].reverse();
  const { etag } = await blob.commitBlockList(order.map(id), { metadata: { a: "1" }, blobHTTPHeaders: { blobContentType: "text/plain" } });
  assert.deepEqual(await blob.downloadToBuffer(), Buffer.concat(order.map((n) => parts[n])));
  const seen = await blob.getProperties();
  assert.deepEqual([seen.etag, seen.contentType, seen.metadata, seen.contentMD5], [etag, "text/plain", { a: "1" }, undefined]);
  const list = await blob.getBlockList("all");
  assert.equal(list.etag, etag);
  assert.deepEqual(named(list.committedBlocks), order.map((n) => [id(n), parts[n].length]));
  assert.deepEqual(named(list.uncommittedBlocks), []);

  await blob.stageBlock(id(99), "more", 4);
  assert.equal((await blob.getProperties()).etag, etag, "staging changes nothing that can be seen");
  await refused(blob.commitBlockList([id(0), id(98)]), 400, "InvalidBlockList");
  await refused(blob.commitBlockList([id(99)], { conditions: { ifMatch: '"0x1"' } }), 412, "ConditionNotMet");
  await refused(blob.commitBlockList([id(99)], { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
  await blob.commitBlockList([id(99)], { conditions: { ifMatch: etag } });
  assert.equal(await text(blob), "more");
});

notOnAzurite("blocks: what is refused", async (t) => {
  const container = await freshContainer(t);
  const blob = container.getBlockBlobClient("b");
  await blob.stageBlock(id(1), "x", 1);
  await refused(blob.stageBlock("bm90IHRoZSBzYW1lIGxlbmd0aA==", "x", 1), 400, "InvalidBlobOrBlock");
  await refused(blob.stageBlock("not base64!", "x", 1), 400, "InvalidQueryParameterValue");
  await refused(blob.stageBlock(id(2), "", 0), 400, "InvalidHeaderValue");
  await refused(blob.commitBlockList(["not base64!"]), 400, "InvalidBlockId");
  await refused(blob.download(), 404, "BlobNotFound");
  const wrong = new Uint8Array(crypto.createHash("md5").update("other").digest());
  await refused(blob.stageBlock(id(2), "x", 1, { transactionalContentMD5: wrong }), 400, "Md5Mismatch");
  assert.equal((await blob.getBlockList("uncommitted")).uncommittedBlocks.length, 1);
  await container.getAppendBlobClient("log").create();
  await refused(container.getBlockBlobClient("log").stageBlock(id(1), "x", 1), 409, "InvalidBlobType");
});

test("blocks: one whole winner among commits that compete", async (t) => {
  const blob = (await freshContainer(t)).getBlockBlobClient("b");
  const writers = Array.from({ length: 8 }, (_, n) => [id(n * 2), id(n * 2 + 1)]);
  await Promise.all(writers.flatMap((ids, n) => ids.map((one) => blob.stageBlock(one, `${n}`.repeat(1000), 1000))));
  const outcomes = await Promise.allSettled(writers.map((ids) => blob.commitBlockList(ids, { conditions: { ifNoneMatch: "*" } })));
  const winners = outcomes.flatMap((o, n) => (o.status === "fulfilled" ? [n] : []));
  assert.equal(winners.length, 1);
  for (const o of outcomes) if (o.status === "rejected") assert.ok(["BlobAlreadyExists", "InvalidBlockList"].includes(o.reason.code), o.reason.code);
  assert.equal(await text(blob), `${winners[0]}`.repeat(2000));
});

test("blocks: what the client cuts by itself", async (t) => {
  const blob = (await freshContainer(t)).getBlockBlobClient("b");
  const body = crypto.randomBytes(5 * MIB + 3);
  await blob.uploadData(body, { blockSize: MIB, maxSingleShotSize: MIB, concurrency: 4 });
  assert.deepEqual(await blob.downloadToBuffer(0, undefined, { blockSize: MIB, concurrency: 4 }), body);
  assert.equal((await blob.getBlockList("committed")).committedBlocks.length, 6);
  await blob.uploadStream(Readable.from([body.subarray(0, 100_000), body.subarray(100_000)]), 64 * 1024, 4);
  assert.deepEqual(await blob.downloadToBuffer(), body);
});

test("append blobs: one after the other", async (t) => {
  const container = await freshContainer(t);
  const log = container.getAppendBlobClient("log");
  await log.create({ metadata: { a: "1" } });
  await refused(log.create({ conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
  assert.equal((await log.createIfNotExists()).succeeded, false);
  const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => log.appendBlock(`${n}`.padStart(3, "0"), 3)));
  const content = await text(log);
  assert.equal(content.length, 90);
  answers.forEach((answer, n) => assert.equal(content.substr(Number(answer.blobAppendOffset), 3), `${n}`.padStart(3, "0")));
  assert.equal(new Set(answers.map((answer) => answer.etag)).size, 30);
  assert.equal((await log.getProperties()).blobCommittedBlockCount, 30);

  await log.appendBlock("x", 1, { conditions: { appendPosition: 90, maxSize: 91 } });
  await refused(log.appendBlock("x", 1, { conditions: { appendPosition: 90 } }), 412, "AppendPositionConditionNotMet");
  await refused(log.appendBlock("x", 1, { conditions: { maxSize: 91 } }), 412, "MaxBlobSizeConditionNotMet");
  await refused(log.appendBlock("x", 1, { conditions: { ifMatch: answers[0].etag } }), 412, "ConditionNotMet");
  await refused(log.appendBlock("", 0), 400, "InvalidHeaderValue");
  await refused(container.getAppendBlobClient("absent").appendBlock("x", 1), 404, "BlobNotFound");
  await container.getBlockBlobClient("plain").upload("x", 1);
  await refused(container.getAppendBlobClient("plain").appendBlock("x", 1), 409, "InvalidBlobType");
  assert.equal((await log.getProperties()).contentLength, 91);
});

notOnAzurite("append blobs: the seal", async (t) => {
  const container = await freshContainer(t);
  const log = container.getAppendBlobClient("log");
  await log.create();
  await log.appendBlock("all there is", 12);
  await refused(log.seal({ conditions: { appendPosition: 11 } }), 412, "AppendPositionConditionNotMet");
  assert.equal((await log.seal({ conditions: { appendPosition: 12 } })).isSealed, true);
  await log.seal();
  await refused(log.appendBlock("x", 1), 409, "BlobIsSealed");
  assert.equal((await log.getProperties()).isSealed, true);
  const [listed] = await collect(container.listBlobsFlat());
  assert.deepEqual([listed.properties.blobType, listed.properties.isSealed], ["AppendBlob", true]);
  assert.equal(await text(log), "all there is");
});
