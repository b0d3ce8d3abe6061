// A smoke through `azure-storage`, the client of a decade ago: x-ms-version 2018-03-28 and callbacks, still in use.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test } = require("node:test");
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
