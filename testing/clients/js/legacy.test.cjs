// A smoke through `azure-storage`, the client of a decade ago: x-ms-version 2018-03-28 and callbacks, still in use.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test } = require("node:test");
const { PassThrough, Readable } = require("node:stream");
const { promisify } = require("node:util");

let storage;
try {
  storage = require("azure-storage");
} catch (error) {
  storage = null;
}

const ENDPOINT = process.env.LAZULI_BLOB_ENDPOINT;
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

test("legacy client", { skip: storage === null && "azure-storage is not installed" }, async () => {
  const service = storage.createBlobService(
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`);
  const call = (name, ...rest) => promisify(service[name]).call(service, ...rest);
  const container = `legacy-${crypto.randomBytes(6).toString("hex")}`;

  await call("createContainer", container, { metadata: { hello: "world" } });
  await assert.rejects(call("createContainer", container), { code: "ContainerAlreadyExists" });
  assert.deepEqual((await call("getContainerProperties", container)).metadata, { hello: "world" });

  const put = await call("createBlockBlobFromText", container, "dir/a b.txt", "hello", { metadata: { aa: "1" } });
  assert.equal(await call("getBlobToText", container, "dir/a b.txt"), "hello");
  const seen = await call("getBlobProperties", container, "dir/a b.txt");
  assert.equal(seen.etag, put.etag);
  assert.deepEqual(seen.metadata, { aa: "1" });
  assert.equal(Number(seen.contentLength), 5);

  const stale = { accessConditions: storage.AccessCondition.generateIfMatchCondition('"0x1"') };
  await assert.rejects(call("createBlockBlobFromText", container, "dir/a b.txt", "no", stale), { statusCode: 412 });
  const once = { accessConditions: storage.AccessCondition.generateIfNotExistsCondition() };
  await assert.rejects(call("createBlockBlobFromText", container, "dir/a b.txt", "no", once), { code: "BlobAlreadyExists" });

  const listed = await call("listBlobsSegmented", container, null);
  assert.deepEqual(listed.entries.map((b) => b.name), ["dir/a b.txt"]);
  const prefixes = await call("listBlobDirectoriesSegmented", container, null);
  assert.deepEqual(prefixes.entries.map((b) => b.name), ["dir/"]);

  await call("deleteBlob", container, "dir/a b.txt");
  await assert.rejects(call("getBlobToText", container, "dir/a b.txt"), { statusCode: 404 });
  const containers = await call("listContainersSegmentedWithPrefix", container, null, { include: "metadata" });
  assert.deepEqual(containers.entries.map((c) => [c.name, c.metadata]), [[container, { hello: "world" }]]);
  await call("deleteContainer", container);
});

const blobs = () => {
  const service = storage.createBlobService(
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`);
  return (name, ...rest) => promisify(service[name]).call(service, ...rest);
};
const withContainer = async (story) => {
  const call = blobs(), container = `legacy-${crypto.randomBytes(6).toString("hex")}`;
  await call("createContainer", container);
  await story(call, container);
  await call("deleteContainer", container);
};
const legacyTest = (name, story) => test(`legacy client, ${name}`, { skip: storage === null && "azure-storage is not installed" }, () => withContainer(story));
const OTHER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

legacyTest("metadata and properties", async (call, container) => {
  const first = await call("createBlockBlobFromText", container, "b", "0123456789", { contentSettings: { contentType: "text/plain" } });
  const second = await call("setBlobMetadata", container, "b", { Hello: "World" });
  assert.deepEqual((await call("getBlobMetadata", container, "b")).metadata, { Hello: "World" });
  const third = await call("setBlobProperties", container, "b", { contentType: "text/x-odd", contentLanguage: "de", cacheControl: "no-store" });
  assert.equal(new Set([first.etag, second.etag, third.etag]).size, 3);
  const seen = await call("getBlobProperties", container, "b");
  const { contentType, contentLanguage, cacheControl } = seen.contentSettings;
  assert.deepEqual([contentType, contentLanguage, cacheControl, seen.etag], ["text/x-odd", "de", "no-store", third.etag]);
  assert.deepEqual(seen.metadata, { Hello: "World" });
  const stale = { accessConditions: storage.AccessCondition.generateIfMatchCondition(first.etag) };
  await assert.rejects(call("setBlobMetadata", container, "b", {}, stale), { statusCode: 412, code: "ConditionNotMet" });
  await assert.rejects(call("setBlobProperties", container, "b", {}, stale), { statusCode: 412, code: "ConditionNotMet" });
  assert.equal(await call("getBlobToText", container, "b", { rangeStart: 2, rangeEnd: 4 }), "234");
  assert.equal((await call("doesBlobExist", container, "absent")).exists, false);

  const properties = await call("getServiceProperties");
  await call("setServiceProperties", properties); // as they are: the server is everybody's

  await call("setContainerMetadata", container, { of: "legacy" });
  assert.deepEqual((await call("getContainerMetadata", container)).metadata, { of: "legacy" });
  await call("setContainerAcl", container, { p: { Permissions: "r", Expiry: new Date(Date.now() + 3600e3) } });
  assert.equal((await call("getContainerAcl", container)).signedIdentifiers.p.Permissions, "r");
});

// B6, B7: as they were written down for the version of 2012 that leases came with.
legacyTest("leases of blobs", async (call, container) => {
  await call("createBlockBlobFromText", container, "b", "1");
  const { id } = await call("acquireLease", container, "b", { leaseDuration: 60 });
  await assert.rejects(call("acquireLease", container, "b"), { statusCode: 409, code: "LeaseAlreadyPresent" });
  await call("renewLease", container, "b", id);
  const put = (text, leaseId) => call("createBlockBlobFromText", container, "b", text, { leaseId });
  await assert.rejects(put("2"), { statusCode: 412, code: "LeaseIdMissing" });
  await assert.rejects(put("2", OTHER), { statusCode: 412, code: "LeaseIdMismatchWithBlobOperation" });
  await put("2", id);
  await assert.rejects(call("setBlobMetadata", container, "b", { a: "1" }), { statusCode: 412, code: "LeaseIdMissing" });
  assert.equal(await call("getBlobToText", container, "b"), "2");
  await assert.rejects(call("getBlobProperties", container, "b", { leaseId: OTHER }), { statusCode: 412 });
  const seen = await call("getBlobProperties", container, "b", { leaseId: id });
  assert.deepEqual([seen.lease.state, seen.lease.status, seen.lease.duration], ["leased", "locked", "fixed"]);

  assert.equal((await call("changeLease", container, "b", id, OTHER)).id, OTHER);
  await assert.rejects(call("renewLease", container, "b", id), { statusCode: 409, code: "LeaseIdMismatchWithLeaseOperation" });
  assert.ok(Number((await call("breakLease", container, "b", { leaseBreakPeriod: 30 })).time) <= 30);
  await assert.rejects(call("renewLease", container, "b", OTHER), { statusCode: 409, code: "LeaseIsBrokenAndCannotBeRenewed" });
  await call("releaseLease", container, "b", OTHER);
  assert.equal((await call("getBlobProperties", container, "b")).lease.state, "available");
});

legacyTest("leases of containers", async (call, container) => {
  const { id } = await call("acquireLease", container, null);
  await assert.rejects(call("acquireLease", container, null), { statusCode: 409, code: "LeaseAlreadyPresent" });
  await call("createBlockBlobFromText", container, "b", "its blobs are free");
  await call("setContainerMetadata", container, { a: "1" });
  await assert.rejects(call("setContainerMetadata", container, {}, { leaseId: OTHER }), { statusCode: 412, code: "LeaseIdMismatchWithContainerOperation" });
  await assert.rejects(call("deleteContainer", container), { statusCode: 412, code: "LeaseIdMissing" });
  await call("renewLease", container, null, id);
  await call("changeLease", container, null, id, OTHER);
  await call("breakLease", container, null, { leaseBreakPeriod: 0 });
  await assert.rejects(call("renewLease", container, null, OTHER), { statusCode: 409, code: "LeaseIsBrokenAndCannotBeRenewed" });
  await call("acquireLease", container, null, { leaseDuration: 15, proposedLeaseId: OTHER });
  await call("releaseLease", container, null, OTHER);
});

legacyTest("blocks", async (call, container) => {
  const stage = (block, text) => call("createBlockFromText", block, container, "b", text);
  const commit = (list, options) => call("commitBlocks", container, "b", list, options ?? {});
  const both = async () => {
    const { CommittedBlocks = [], UncommittedBlocks = [] } = await call("listBlocks", container, "b", storage.BlobUtilities.BlockListFilter.ALL);
    return [CommittedBlocks, UncommittedBlocks].map((blocks) => blocks.map((block) => [block.Name, Number(block.Size)]));
  };
  await Promise.all([stage("1", "one "), stage("2", "two "), stage("3", "three ")]);
  assert.deepEqual(await both(), [[], [["1", 4], ["2", 4], ["3", 6]]]);
  const made = await commit({ LatestBlocks: ["1", "2", "3"] }, { metadata: { a: "1" } });
  assert.equal(await call("getBlobToText", container, "b"), "one two three ");
  await stage("2", "TWO ");
  await stage("4", "FOUR ");
  assert.deepEqual(await both(), [[["1", 4], ["2", 4], ["3", 6]], [["2", 4], ["4", 5]]]);
  // A block is looked for where the list says, and nowhere else.
  for (const wrong of [{ CommittedBlocks: ["4"] }, { UncommittedBlocks: ["1"] }, { LatestBlocks: ["5"] }])
    await assert.rejects(commit(wrong), { statusCode: 400, code: "InvalidBlockList" });
  const stale = { accessConditions: storage.AccessCondition.generateIfNoneMatchCondition(made.etag) };
  await assert.rejects(commit({ LatestBlocks: ["4"] }, stale), { statusCode: 412, code: "ConditionNotMet" });
  await commit({ CommittedBlocks: ["2"], UncommittedBlocks: ["4"] });
  const content = await call("getBlobToText", container, "b");
  assert.ok(["two FOUR ", "FOUR two "].includes(content), content); // the client groups them by kind

  const large = crypto.randomBytes(3_000_000);
  await call("createBlockBlobFromStream", container, "large", Readable.from([large]), large.length, { blockSize: 500_000 });
  const sink = new PassThrough(), received = [];
  sink.on("data", (piece) => received.push(piece));
  await call("getBlobToStream", container, "large", sink);
  assert.deepEqual(Buffer.concat(received), large);
});

legacyTest("append blobs", async (call, container) => {
  await call("createOrReplaceAppendBlob", container, "log", { metadata: { a: "1" } });
  await call("appendBlockFromText", container, "log", "one ");
  await call("appendBlockFromText", container, "log", "two ", { appendPosition: 4, maxBlobSize: 8 });
  await assert.rejects(call("appendBlockFromText", container, "log", "x", { appendPosition: 4 }), { statusCode: 412, code: "AppendPositionConditionNotMet" });
  await assert.rejects(call("appendBlockFromText", container, "log", "x", { maxBlobSize: 8 }), { statusCode: 412, code: "MaxBlobSizeConditionNotMet" });
  await call("appendFromText", container, "log", "three");
  assert.equal(await call("getBlobToText", container, "log"), "one two three");
  const seen = await call("getBlobProperties", container, "log");
  assert.deepEqual([seen.blobType, Number(seen.committedBlockCount)], ["AppendBlob", 3]);
  const { id } = await call("acquireLease", container, "log", { leaseDuration: 15 });
  await assert.rejects(call("appendBlockFromText", container, "log", "x"), { statusCode: 412, code: "LeaseIdMissing" });
  await call("appendBlockFromText", container, "log", "!", { leaseId: id });
  await call("deleteBlob", container, "log", { leaseId: id });
});

test("legacy client, queues", { skip: storage === null && "azure-storage is not installed" }, async () => {
  const service = storage.createQueueService(
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};QueueEndpoint=${process.env.LAZULI_QUEUE_ENDPOINT};`);
  service.messageEncoder = new storage.QueueMessageEncoder.TextXmlQueueMessageEncoder();
  const call = (name, ...rest) => promisify(service[name]).call(service, ...rest);
  const queue = `legacy-${crypto.randomBytes(6).toString("hex")}`;

  await call("createQueue", queue, { metadata: { hello: "world" } });
  assert.equal((await call("createQueueIfNotExists", queue, { metadata: { hello: "world" } })).created, false);
  await call("setQueueMetadata", queue, { hello: "moon" });
  const put = await call("createMessage", queue, "hello <&>", { visibilityTimeout: 0, messageTimeToLive: 3600 });
  assert.equal((await call("peekMessage", queue)).messageText, "hello <&>");
  const got = await call("getMessage", queue, { visibilityTimeout: 60 });
  assert.equal(got.messageId, put.messageId);
  assert.equal(Number(got.dequeueCount), 1);
  const updated = await call("updateMessage", queue, got.messageId, got.popReceipt, 0, { messageText: "two" });
  await assert.rejects(call("deleteMessage", queue, got.messageId, got.popReceipt), { code: "MessageNotFound" });
  assert.equal((await call("peekMessages", queue, { numOfMessages: 32 }))[0].messageText, "two");
  const seen = await call("getQueueMetadata", queue);
  assert.equal(Number(seen.approximateMessageCount), 1);
  assert.deepEqual(seen.metadata, { hello: "moon" });
  await call("deleteMessage", queue, got.messageId, updated.popReceipt);
  await call("createMessage", queue, "x");
  await call("clearMessages", queue);
  assert.equal((await call("getMessages", queue, { numOfMessages: 5 })).length, 0);
  await call("setQueueAcl", queue, { p: { Permissions: "r", Expiry: new Date(Date.now() + 3600e3) } });
  assert.equal((await call("getQueueAcl", queue)).signedIdentifiers.p.Permissions, "r");
  assert.ok((await call("listQueuesSegmented", null)).entries.some((one) => one.name === queue));
  await call("deleteQueue", queue);
  assert.equal((await call("doesQueueExist", queue)).exists, false);
});

test("legacy client, tables", { skip: storage === null && "azure-storage is not installed" }, async () => {
  const service = storage.createTableService(
    `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};TableEndpoint=${process.env.LAZULI_TABLE_ENDPOINT};`);
  const call = (name, ...rest) => promisify(service[name]).call(service, ...rest);
  const { Int32, Int64, Double, Boolean, DateTime, Guid, Binary, String: Text } = storage.TableUtilities.entityGenerator;
  const table = `legacy${crypto.randomBytes(6).toString("hex")}`;

  await call("createTable", table);
  await assert.rejects(call("createTable", table), { code: "TableAlreadyExists" });
  assert.equal((await call("createTableIfNotExists", table)).created, false);
  assert.equal((await call("doesTableExist", table)).exists, true);
  assert.ok((await call("listTablesSegmentedWithPrefix", "legacy", null)).entries.includes(table));

  const when = new Date("2017-11-10T02:43:35.846Z");
  const entity = (row, rest = {}) => ({ PartitionKey: Text("it's"), RowKey: Text(row), ...rest });
  await call("insertEntity", table, entity("1", {
    text: Text("a b"), small: Int32(7), large: Int64("9007199254740993"), real: Double(1.5), on: Boolean(true), when: DateTime(when),
    guid: Guid("01234567-89ab-cdef-0123-456789abcdef"), raw: Binary(Buffer.from([0, 255])),
  }), { echoContent: true });
  const read = await call("retrieveEntity", table, "it's", "1");
  assert.equal(read.text._, "a b");
  assert.equal(read.large._, "9007199254740993");
  assert.deepEqual([read.small._, read.real._, read.on._], [7, 1.5, true]);
  assert.equal(new Date(read.when._).toISOString(), when.toISOString());
  assert.equal(read.guid._, "01234567-89ab-cdef-0123-456789abcdef");
  assert.deepEqual([...Buffer.from(read.raw._)], [0, 255]);
  await assert.rejects(call("insertEntity", table, entity("1")), { code: "EntityAlreadyExists" });

  await call("mergeEntity", table, entity("1", { small: Int32(8) }));
  const stale = entity("1", { small: Int32(9) });
  stale[".metadata"] = { etag: read[".metadata"].etag };
  await assert.rejects(call("replaceEntity", table, stale), { code: "UpdateConditionNotSatisfied" });
  await assert.rejects(call("deleteEntity", table, stale), { code: "UpdateConditionNotSatisfied" });
  await call("insertOrMergeEntity", table, entity("2", { n: Int32(2) }));
  await call("insertOrReplaceEntity", table, entity("3", { n: Int32(3) }));

  const batch = new storage.TableBatch();
  for (let n = 10; n < 20; n++) batch.insertEntity(entity(String(n), { n: Int32(n) }), { echoContent: n % 2 === 0 });
  batch.mergeEntity(entity("2", { m: Int32(1) }));
  batch.deleteEntity(entity("3"));
  const done = await call("executeBatch", table, batch);
  assert.equal(done.length, 12);
  const failing = new storage.TableBatch();
  failing.insertOrReplaceEntity(entity("99"));
  failing.insertEntity(entity("10"));
  await assert.rejects(call("executeBatch", table, failing), { code: "EntityAlreadyExists" });

  const query = new storage.TableQuery().where("PartitionKey eq ? and n ge ?", "it's", 10).top(4);
  const rows = [];
  for (let token = null; ;) {
    const page = await call("queryEntities", table, query, token);
    rows.push(...page.entries.map((one) => one.RowKey._));
    token = page.continuationToken;
    if (!token) break;
  }
  assert.deepEqual(rows, ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19"]);
  await call("setTableAcl", table, { p: { Permissions: "r", Expiry: new Date(Date.now() + 3600e3) } });
  assert.equal((await call("getTableAcl", table)).signedIdentifiers.p.Permissions, "r");
  await call("deleteEntity", table, entity("1"));
  await call("deleteTable", table);
  assert.equal((await call("doesTableExist", table)).exists, false);
});

const FILES = process.env.LAZULI_FILE_ENDPOINT;
test("legacy client, files", { skip: (storage === null && "azure-storage is not installed") || (!FILES && "the peer has no files") }, async () => {
  const service = storage.createFileService(`DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};FileEndpoint=${FILES};`);
  const caller = (one) => (name, ...rest) => promisify(one[name]).call(one, ...rest);
  const call = caller(service);
  const share = `legacy-${crypto.randomBytes(6).toString("hex")}`;
  await call("createShare", share, { metadata: { hello: "world" }, quota: 5 });
  await assert.rejects(call("createShare", share), { code: "ShareAlreadyExists" });
  assert.equal((await call("createShareIfNotExists", share)).created, false);
  await call("setShareProperties", share, { quota: 6 });
  await call("setShareMetadata", share, { a: "1" });
  const about = await call("getShareProperties", share);
  assert.deepEqual([about.quota, about.metadata, (await call("getShareMetadata", share)).metadata], ["6", { a: "1" }, { a: "1" }]);
  assert.equal((await call("getShareStats", share)).shareStats.shareUsageBytes, "0");
  const listed = await call("listSharesSegmentedWithPrefix", share, null, { include: "metadata" });
  assert.deepEqual(listed.entries.map((one) => [one.name, one.metadata]), [[share, { a: "1" }]]);

  await call("createDirectory", share, "dir");
  assert.equal((await call("createDirectoryIfNotExists", share, "dir")).created, false);
  await call("setDirectoryMetadata", share, "dir", { b: "2" });
  assert.deepEqual((await call("getDirectoryMetadata", share, "dir")).metadata, { b: "2" });
  assert.ok((await call("getDirectoryProperties", share, "dir")).etag);
  assert.equal((await call("doesDirectoryExist", share, "absent")).exists, false);

  await call("createFileFromText", share, "dir", "ü +.txt", "hello");
  assert.equal(await call("getFileToText", share, "dir", "ü +.txt"), "hello");
  const content = crypto.randomBytes(5_000_000);
  await call("createFileFromStream", share, "dir", "large", Readable.from(content), content.length);
  const target = new PassThrough(), pieces = [];
  target.on("data", (piece) => pieces.push(piece));
  await call("getFileToStream", share, "dir", "large", target);
  assert.ok(Buffer.concat(pieces).equals(content));
  await call("clearRange", share, "dir", "large", 512, 1023);
  assert.deepEqual((await call("listRanges", share, "dir", "large")).map((one) => [one.start, one.end]), [[0, 511], [1024, 4_999_999]]);
  await call("resizeFile", share, "dir", "large", 100);
  await call("setFileMetadata", share, "dir", "large", { c: "3" });
  await call("setFileProperties", share, "dir", "large", { contentType: "a/b" });
  const seen = await call("getFileProperties", share, "dir", "large");
  assert.deepEqual([seen.contentLength, seen.metadata, seen.contentSettings.contentType], ["100", { c: "3" }, "a/b"]);
  assert.deepEqual((await call("getFileMetadata", share, "dir", "large")).metadata, { c: "3" });
  await call("startCopyFile", service.getUrl(share, "dir", "ü +.txt"), share, "", "copy");
  assert.equal(await call("getFileToText", share, "", "copy"), "hello");
  await assert.rejects(call("abortCopyFile", share, "", "copy", "11111111-2222-4333-8444-555555555555"), { statusCode: 409 });
  const inside = await call("listFilesAndDirectoriesSegmented", share, "", null);
  assert.deepEqual([inside.entries.files.map((one) => one.name), inside.entries.directories.map((one) => one.name)], [["copy"], ["dir"]]);

  const snapshot = await call("createShareSnapshot", share);
  await call("deleteFile", share, "", "copy");
  assert.equal(await call("getFileToText", share, "", "copy", { shareSnapshotId: snapshot }), "hello");
  const policy = { AccessPolicy: { Permissions: "r", Expiry: new Date(Date.now() + 3600 * 1000) } };
  const reader = caller(storage.createFileServiceWithSas(FILES, service.generateSharedAccessSignature(share, "dir", "ü +.txt", policy)));
  assert.equal(await reader("getFileToText", share, "dir", "ü +.txt"), "hello");
  await assert.rejects(reader("deleteFile", share, "dir", "ü +.txt"), { statusCode: 403 });
  await call("setShareAcl", share, { readers: policy.AccessPolicy });
  assert.deepEqual(Object.keys((await call("getShareAcl", share)).signedIdentifiers), ["readers"]);

  await assert.rejects(call("deleteDirectory", share, "dir"), { code: "DirectoryNotEmpty" });
  for (const name of ["ü +.txt", "large"]) await call("deleteFile", share, "dir", name);
  await call("deleteDirectory", share, "dir");
  await assert.rejects(call("deleteShare", share), { code: "ShareHasSnapshots" });
  await call("deleteShare", share, { deleteSnapshots: storage.FileUtilities.ShareSnapshotDeleteOptions.SHARE_AND_SNAPSHOTS });
  assert.equal((await call("doesShareExist", share)).exists, false);
});
