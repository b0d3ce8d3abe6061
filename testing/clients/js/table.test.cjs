// The Table service through @azure/data-tables: the same ground as ../python/test_table.py, shorter.
// The server is named by LAZULI_TABLE_ENDPOINT (../with-server sets it); modules are found through NODE_PATH.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { fork } = require("node:child_process");
const { test, before, after } = require("node:test");
const {
  AzureNamedKeyCredential, AzureSASCredential, TableClient, TableServiceClient, TableTransaction, generateAccountSas, generateTableSas,
  odata,
} = require("@azure/data-tables");

const ENDPOINT = process.env.LAZULI_TABLE_ENDPOINT;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const credential = new AzureNamedKeyCredential(ACCOUNT, KEY);
const OPTIONS = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const service = new TableServiceClient(ENDPOINT, credential, OPTIONS);
const client = (name, as = credential) => new TableClient(ENDPOINT, name, as, OPTIONS);
const fresh = () => `t${crypto.randomBytes(12).toString("hex")}`;
const all = async (pages) => {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
};
const refused = (status, code) => (error) => {
  assert.equal(error.statusCode, status, String(error));
  if (code) assert.equal(error.details?.odataError?.code ?? error.code, code);
  return true;
};

// One of several competing writers: a process of its own that counts up under ETags.
if (process.env.COUNT) {
  (async () => {
    const table = client(process.env.COUNT);
    for (let n = 0; n < 20; n++) {
      for (;;) {
        const read = await table.getEntity("p", "counter");
        try {
          await table.updateEntity({ partitionKey: "p", rowKey: "counter", n: read.n + 1 }, "Merge", { etag: read.etag });
          break;
        } catch (error) {
          if (error.statusCode !== 412) throw error;
        }
      }
    }
    process.exit(0);
  })();
  return;
}

const name = fresh();
const table = client(name);
before(() => table.createTable());
after(() => table.deleteTable());

test("tables come and go", async () => {
  const other = fresh();
  await service.createTable(other);
  const listed = (await all(service.listTables())).map((one) => one.name);
  assert.ok(listed.includes(other) && listed.includes(name));
  const some = await all(service.listTables({ queryOptions: { filter: odata`TableName eq ${other}` } }));
  assert.deepEqual(some.map((one) => one.name), [other]);
  await service.deleteTable(other);
  await assert.rejects(client(other).getEntity("p", "1"), refused(404, "TableNotFound"));
});

test("every type comes back as it went", async () => {
  const written = {
    partitionKey: "types", rowKey: "it's \u{1F600}", text: "a \"b\"\n", small: -7, real: 1.5, whole: { type: "Double", value: "3.0" },
    large: 9007199254740993n, on: false, raw: new Uint8Array([0, 255]), when: new Date("2017-11-10T02:43:35.846Z"),
    guid: { type: "Guid", value: "01234567-89ab-cdef-0123-456789abcdef" }, odd: { type: "Double", value: "NaN" },
  };
  await table.createEntity(written);
  const read = await table.getEntity("types", "it's \u{1F600}");
  assert.equal(read.text, written.text);
  assert.deepEqual([read.small, read.real, read.large, read.on], [-7, 1.5, 9007199254740993n, false]);
  assert.deepEqual([...read.raw], [0, 255]);
  assert.equal(read.when.toISOString(), "2017-11-10T02:43:35.846Z");
  assert.equal(read.guid.value, written.guid.value);
  const typed = await table.getEntity("types", "it's \u{1F600}", { disableTypeConversion: true });
  assert.deepEqual(typed.large, { type: "Int64", value: "9007199254740993" });
  assert.equal(typed.odd.value, "NaN");
  await assert.rejects(table.createEntity(written), refused(409, "EntityAlreadyExists"));
  await table.deleteEntity("types", "it's \u{1F600}");
});

test("update, merge, conditions", async () => {
  const keys = { partitionKey: "p", rowKey: "1" };
  await table.upsertEntity({ ...keys, a: 1 });
  const { etag } = await table.getEntity("p", "1");
  await table.updateEntity({ ...keys, b: 2 }, "Merge");
  await assert.rejects(table.updateEntity({ ...keys, b: 3 }, "Replace", { etag }), refused(412, "UpdateConditionNotSatisfied"));
  await assert.rejects(table.deleteEntity("p", "1", { etag }), refused(412, "UpdateConditionNotSatisfied"));
  const read = await table.getEntity("p", "1");
  assert.deepEqual([read.a, read.b], [1, 2]);
  await table.updateEntity({ ...keys, c: 3 }, "Replace", { etag: read.etag });
  const only = await table.getEntity("p", "1", { queryOptions: { select: ["c"] } });
  assert.deepEqual([only.c, only.a], [3, undefined]);
  await table.upsertEntity({ ...keys, d: 4 }, "Replace");
  await assert.rejects(table.updateEntity({ partitionKey: "p", rowKey: "none" }), refused(404, "ResourceNotFound"));
  await table.deleteEntity("p", "1");
  await assert.rejects(table.getEntity("p", "1"), refused(404, "ResourceNotFound"));
});

test("transactions and queries", async () => {
  const transaction = new TableTransaction();
  for (let n = 0; n < 50; n++) transaction.createEntity({ partitionKey: "q", rowKey: String(n).padStart(3, "0"), n });
  const done = await table.submitTransaction(transaction.actions);
  assert.equal(done.status, 202);
  assert.equal(done.subResponses.length, 50);
  assert.equal(done.getResponseForEntity("007").status, 204);
  const found = async (filter) => (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => one.n);
  assert.deepEqual(await found(odata`PartitionKey eq ${"q"} and n ge ${10} and n lt ${13}`), [10, 11, 12]);
  assert.deepEqual(await found(odata`PartitionKey eq ${"q"} and RowKey eq ${"007"}`), [7]);
  await assert.rejects(found("n eq"), refused(400, "InvalidInput"));
  const pages = [];
  const byPage = table.listEntities({ queryOptions: { filter: "PartitionKey eq 'q'" } }).byPage({ maxPageSize: 20 });
  for await (const page of byPage) pages.push(page.length);
  assert.deepEqual(pages, [20, 20, 10]);

  const etag = (await table.getEntity("q", "001")).etag;
  await table.submitTransaction([
    ["delete", { partitionKey: "q", rowKey: "000" }],
    ["update", { partitionKey: "q", rowKey: "001", n: -1 }, "Merge"],
    ["upsert", { partitionKey: "q", rowKey: "x", n: -2 }, "Replace"],
  ]);
  const before = await found("PartitionKey eq 'q'");
  assert.equal(before.length, 50);
  await assert.rejects(table.submitTransaction([
    ["upsert", { partitionKey: "q", rowKey: "y", n: 1 }],
    ["update", { partitionKey: "q", rowKey: "001", n: 2 }, "Merge", { etag }],
  ]), (error) => error.statusCode === 412);
  assert.deepEqual(await found("PartitionKey eq 'q'"), before);
});

test("tokens and policies", async () => {
  await table.upsertEntity({ partitionKey: "s", rowKey: "1" });
  await table.upsertEntity({ partitionKey: "s", rowKey: "9" });
  const expiresOn = new Date(Date.now() + 3600 * 1000);
  const token = generateTableSas(name, credential, {
    expiresOn, permissions: { query: true, add: true, update: true }, startPartitionKey: "s", startRowKey: "0", endPartitionKey: "s", endRowKey: "5",
  });
  const some = client(name, new AzureSASCredential(token));
  assert.deepEqual((await all(some.listEntities())).map((one) => one.rowKey), ["1"]);
  await some.submitTransaction([["upsert", { partitionKey: "s", rowKey: "2" }]]);
  await assert.rejects(some.upsertEntity({ partitionKey: "s", rowKey: "8" }), refused(403));
  await assert.rejects(some.deleteEntity("s", "1"), refused(403));
  await table.setAccessPolicy([{ id: "p", accessPolicy: { start: new Date(0), expiry: expiresOn, permission: "r" } }]);
  assert.equal((await table.getAccessPolicy())[0].id, "p");
  const byPolicy = client(name, new AzureSASCredential(generateTableSas(name, credential, { identifier: "p" })));
  assert.ok((await all(byPolicy.listEntities())).length > 0);
  const account = new AzureSASCredential(generateAccountSas(credential, { expiresOn, permissions: { query: true, list: true } }));
  assert.ok((await all(new TableServiceClient(ENDPOINT, account, OPTIONS).listTables())).length > 0);
  assert.ok(await service.getProperties());
});

test("no update is lost between processes", async () => {
  await table.createEntity({ partitionKey: "p", rowKey: "counter", n: 0 });
  const ended = [1, 2, 3].map(() => new Promise((resolve) => {
    fork(__filename, { env: { ...process.env, COUNT: name }, execArgv: [] }).on("exit", resolve);
  }));
  assert.deepEqual(await Promise.all(ended), [0, 0, 0]);
  assert.equal((await table.getEntity("p", "counter")).n, 60);
});
