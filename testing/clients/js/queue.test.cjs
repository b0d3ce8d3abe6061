// The Queue service through @azure/storage-queue: the same ground as ../python/test_queue.py, shorter.
// The server is named by LAZULI_QUEUE_ENDPOINT (../with-server sets it); modules are found through NODE_PATH.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { fork } = require("node:child_process");
const { test, before, after } = require("node:test");
const {
  AccountSASPermissions, AccountSASResourceTypes, QueueClient, QueueSASPermissions, QueueServiceClient, StorageSharedKeyCredential,
  generateQueueSASQueryParameters, newPipeline,
} = require("@azure/storage-queue");

const ENDPOINT = process.env.LAZULI_QUEUE_ENDPOINT;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOUR = 3600 * 1000;

const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
const ONE_TRY = { retryOptions: { maxTries: 1 } };
const service = new QueueServiceClient(ENDPOINT, newPipeline(credential, ONE_TRY));

// One of several competing consumers: a process of its own that tells what it was given.
if (process.env.CONSUME) {
  (async () => {
    const queue = service.getQueueClient(process.env.CONSUME);
    const got = [];
    for (let idle = 0; idle < 30;) {
      const { receivedMessageItems } = await queue.receiveMessages({ numberOfMessages: 3, visibilityTimeout: 600 });
      idle = receivedMessageItems.length ? 0 : idle + 1;
      for (const one of receivedMessageItems) {
        got.push(`${one.messageText} ${one.dequeueCount}`);
        await queue.deleteMessage(one.messageId, one.popReceipt);
      }
    }
    process.send(got, () => process.exit(0));
  })();
  return;
}

let number = 0;
const freshName = () => `js${number++}-${crypto.randomBytes(6).toString("hex")}`;

let queue;
before(async () => {
  queue = service.getQueueClient(freshName());
  await queue.create();
});
after(() => queue.deleteIfExists());

async function refused(promise, status, code) {
  await assert.rejects(promise, (error) => {
    const seen = error.code ?? error.details?.errorCode ?? error.response?.headers?.get("x-ms-error-code");
    assert.equal(error.statusCode, status, `${error.statusCode} ${seen}, expected ${status} ${code}`);
    if (code) assert.equal(seen, code);
    return true;
  });
}

test("queues come and go", async () => {
  const one = service.getQueueClient(freshName());
  assert.equal((await one.create({ metadata: { hello: "world" } }))._response.status, 201);
  assert.equal((await one.create({ metadata: { hello: "world" } }))._response.status, 204);
  await refused(one.create({ metadata: { hello: "moon" } }), 409, "QueueAlreadyExists");
  assert.equal((await one.createIfNotExists({ metadata: { hello: "moon" } })).succeeded, false);
  const properties = await one.getProperties();
  assert.deepEqual(properties.metadata, { hello: "world" });
  assert.equal(properties.approximateMessagesCount, 0);
  await one.setMetadata({ a: "1" });
  assert.deepEqual((await one.getProperties()).metadata, { a: "1" });
  assert.equal(await one.exists(), true);
  await one.delete();
  assert.equal(await one.exists(), false);
  await refused(one.sendMessage("x"), 404, "QueueNotFound");
});

test("list", async () => {
  const prefix = freshName();
  for (let n = 0; n < 5; n++) await service.createQueue(`${prefix}-${n}`, { metadata: { n: String(n) } });
  const pages = [];
  for await (const page of service.listQueues({ prefix, includeMetadata: true }).byPage({ maxPageSize: 2 })) {
    pages.push(page.queueItems.map((one) => `${one.name.slice(-1)}${one.metadata.n}`));
  }
  assert.deepEqual(pages, [["00", "11"], ["22", "33"], ["44"]]);
  for (let n = 0; n < 5; n++) await service.deleteQueue(`${prefix}-${n}`);
});

test("a message from put to delete", async () => {
  // No carriage return: this client reads no numeric references, and one cannot be written otherwise (../GAPS.md).
  const text = " a <b> & \n\t\u{1f600} ";
  const put = await queue.sendMessage(text);
  const peeked = await queue.peekMessages();
  assert.equal(peeked.peekedMessageItems[0].messageText, text);
  const [got] = (await queue.receiveMessages({ visibilityTimeout: 60 })).receivedMessageItems;
  assert.equal(got.messageId, put.messageId);
  assert.equal(got.dequeueCount, 1);
  await refused(queue.deleteMessage(put.messageId, put.popReceipt), 404, "MessageNotFound");
  const hidden = await queue.updateMessage(got.messageId, got.popReceipt, undefined, 30); // visibility alone
  await refused(queue.updateMessage(got.messageId, got.popReceipt, "no", 0), 404, "MessageNotFound");
  const shown = await queue.updateMessage(got.messageId, hidden.popReceipt, "two", 0);
  assert.equal((await queue.peekMessages()).peekedMessageItems[0].messageText, "two");
  await queue.deleteMessage(got.messageId, shown.popReceipt);
  assert.equal((await queue.peekMessages()).peekedMessageItems.length, 0);
  await refused(queue.deleteMessage(got.messageId, "nonsense"), 400, "InvalidQueryParameterValue");
});

test("ranges", async () => {
  await refused(queue.receiveMessages({ numberOfMessages: 33 }), 400, "OutOfRangeQueryParameterValue");
  await refused(queue.peekMessages({ numberOfMessages: 0 }), 400, "OutOfRangeQueryParameterValue");
  await refused(queue.receiveMessages({ visibilityTimeout: 604801 }), 400, "OutOfRangeQueryParameterValue");
  await refused(queue.sendMessage("x", { visibilityTimeout: 5, messageTimeToLive: 5 }), 400, "InvalidQueryParameterValue");
  await refused(queue.sendMessage("x".repeat(65537)), 413, "RequestBodyTooLarge");
  const forever = await queue.sendMessage("x", { messageTimeToLive: -1 });
  assert.equal(forever.expiresOn.getUTCFullYear(), 9999);
  await queue.clearMessages();
  assert.equal((await queue.getProperties()).approximateMessagesCount, 0);
});

test("access policies and SAS", async () => {
  await queue.setAccessPolicy([{ id: "p", accessPolicy: { expiresOn: new Date(Date.now() + HOUR), permissions: "rp" } }]);
  const { signedIdentifiers } = await queue.getAccessPolicy();
  assert.equal(signedIdentifiers[0].id, "p");
  assert.equal(signedIdentifiers[0].accessPolicy.permissions, "rp");
  const token = generateQueueSASQueryParameters({ queueName: queue.name, identifier: "p" }, credential);
  const reader = new QueueClient(`${queue.url}?${token}`, newPipeline(undefined, ONE_TRY));
  assert.equal((await reader.peekMessages()).peekedMessageItems.length, 0);
  await refused(reader.sendMessage("x"), 403, "AuthorizationPermissionMismatch");
  await queue.setAccessPolicy([]);
  await refused(reader.peekMessages(), 403, "AuthenticationFailed");
  const url = queue.generateSasUrl({ permissions: QueueSASPermissions.parse("a"), expiresOn: new Date(Date.now() + HOUR) });
  await new QueueClient(url, newPipeline(undefined, ONE_TRY)).sendMessage("x");
  const account = new QueueServiceClient(service.generateAccountSasUrl(
    new Date(Date.now() + HOUR), AccountSASPermissions.parse("lp"), AccountSASResourceTypes.parse("sco").toString()),
  newPipeline(undefined, ONE_TRY));
  assert.equal((await account.getQueueClient(queue.name).receiveMessages()).receivedMessageItems.length, 1);
  await queue.clearMessages();
});

test("service properties", async () => {
  const before = await service.getProperties();
  await service.setProperties({ cors: [{ allowedOrigins: "http://page", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 5 }] });
  assert.equal((await service.getProperties()).cors[0].allowedOrigins, "http://page");
  await service.setProperties({ cors: before.cors ?? [] });
});

test("competing consumers in several processes", async () => {
  const one = service.getQueueClient(freshName());
  await one.create();
  const sent = [...Array(200).keys()].map((n) => `${n} 1`);
  for (const text of sent) await one.sendMessage(text.split(" ")[0]);
  const consumers = [1, 2, 3].map(() => new Promise((resolve, reject) => {
    const child = fork(__filename, { env: { ...process.env, CONSUME: one.name, NODE_TEST_CONTEXT: "" } });
    child.on("message", resolve);
    child.on("error", reject);
    child.on("exit", (code) => code && reject(new Error(`a consumer ended with ${code}`)));
  }));
  const got = (await Promise.all(consumers)).flat();
  assert.deepEqual(got.sort(), sent.sort());
  assert.equal((await one.getProperties()).approximateMessagesCount, 0);
  await one.delete();
});
