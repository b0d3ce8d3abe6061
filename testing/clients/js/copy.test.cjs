// Copies and From-URL writes through @azure/storage-blob.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test } = require("node:test");
const { freshContainer, refused, text } = require("./common.cjs");

const readable = (blob) => blob.generateSasUrl({ permissions: require("@azure/storage-blob").BlobSASPermissions.parse("r"), expiresOn: new Date(Date.now() + 3600e3) });
const md5 = (content) => new Uint8Array(crypto.createHash("md5").update(content).digest());

async function sourceIn(container) {
  const blob = container.getBlockBlobClient("dir/a source");
  await blob.upload("content", 7, { metadata: { color: "blue" }, blobHTTPHeaders: { blobContentType: "text/plain" } });
  return blob;
}

test("copy: begun and at once done", async (t) => {
  const container = await freshContainer(t);
  const source = await sourceIn(container);
  const copy = container.getBlockBlobClient("copy");
  const poller = await copy.beginCopyFromURL(source.url);
  const done = await poller.pollUntilDone();
  assert.equal(done.copyStatus, "success");
  const seen = await copy.getProperties();
  assert.deepEqual([seen.copyId, seen.copySource, seen.copyProgress, seen.metadata, seen.contentType], [done.copyId, source.url, "7/7", { color: "blue" }, "text/plain"]);
  assert.equal(await text(copy), "content");
  await refused(copy.abortCopyFromURL(done.copyId), 409, "NoPendingCopyOperation");
  const snapshot = await source.createSnapshot();
  await source.upload("later", 5);
  await (await copy.beginCopyFromURL(source.withSnapshot(snapshot.snapshot).url)).pollUntilDone();
  assert.equal(await text(copy), "content");
});

test("copy: while the caller waits", async (t) => {
  const container = await freshContainer(t);
  const source = await sourceIn(container);
  const copy = container.getBlockBlobClient("copy");
  await refused(copy.syncCopyFromURL(source.url), 401, "CannotVerifyCopySource");
  const answer = await copy.syncCopyFromURL(await readable(source), { sourceContentMD5: md5("content") });
  assert.equal(answer.copyStatus, "success");
  assert.equal(await text(copy), "content");
  await refused(copy.syncCopyFromURL(await readable(source), { sourceConditions: { ifMatch: '"0x1"' } }), 412, "SourceConditionNotMet");
});

test("uploads, blocks and appends from a URL", async (t) => {
  const container = await freshContainer(t);
  const source = await sourceIn(container);
  const put = container.getBlockBlobClient("put");
  await put.syncUploadFromURL(await readable(source), { blobHTTPHeaders: { blobContentType: "text/new" } });
  assert.equal(await text(put), "content");
  assert.equal((await put.getProperties()).contentType, "text/new");
  await refused(put.syncUploadFromURL(await readable(source), { sourceContentMD5: md5("other") }), 400, "Md5Mismatch");

  const blocks = container.getBlockBlobClient("blocks");
  await blocks.stageBlockFromURL("YQ==", await readable(source), 3, 4);
  await blocks.stageBlockFromURL("Yg==", await readable(source), 0, 3);
  await blocks.commitBlockList(["YQ==", "Yg=="]);
  assert.equal(await text(blocks), "tentcon");

  const log = container.getAppendBlobClient("log");
  await log.create();
  await log.appendBlockFromURL(await readable(source), 0, 3);
  const answer = await log.appendBlockFromURL(await readable(source), 3, 4, { conditions: { appendPosition: 3 } });
  assert.deepEqual([answer.blobAppendOffset, answer.blobCommittedBlockCount], ["3", 2]);
  assert.equal(await text(log), "content");
  await refused(blocks.stageBlockFromURL("YQ==", "http://127.0.0.1:9/outside", 0, 1), 403, "CannotVerifyCopySource");
});
