// The slice through @azure/storage-blob: the same ground as ../python, shorter.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test, before, after } = require("node:test");
const { Readable } = require("node:stream");
const {
  AccountSASPermissions, AccountSASResourceTypes, AccountSASServices, AnonymousCredential, BlobServiceClient, SASProtocol,
  StorageSharedKeyCredential, generateAccountSASQueryParameters,
} = require("@azure/storage-blob");
const { ACCOUNT, ENDPOINT, KEY, ONE_TRY, collect, connect, credential, freshName, notOnAzurite, refused, service } = require("./common.cjs");

const MIB = 1024 * 1024;
const HOUR = 3600 * 1000;

let container;
before(async () => {
  container = service.getContainerClient(freshName());
  await container.create();
});
after(() => container.deleteIfExists());

async function smoke(client) {
  const one = client.getContainerClient(freshName());
  await one.create();
  const blob = one.getBlockBlobClient("dir/a b+ü.txt");
  await blob.upload("hello", 5, { metadata: { aa: "1" } });
  assert.equal((await blob.downloadToBuffer()).toString(), "hello");
  assert.deepEqual((await blob.getProperties()).metadata, { aa: "1" });
  assert.deepEqual((await collect(one.listBlobsFlat())).map((b) => b.name), ["dir/a b+ü.txt"]);
  await blob.delete();
  await one.delete();
}

test("names that XML has no way to write", async () => {
  const one = service.getContainerClient(freshName());
  await one.create();
  const names = ["dir1\ufffe/dir2/file\uffff.blob", "dir1\ufffe/other %20+\uffff"];
  for (const name of names) await one.getBlockBlobClient(name).upload("hello", 5);
  assert.equal((await one.getBlockBlobClient(names[0]).downloadToBuffer()).toString(), "hello");
  const pages = [];
  for await (const page of one.listBlobsFlat({ prefix: "dir1\ufffe" }).byPage({ maxPageSize: 1 })) pages.push(...page.segment.blobItems);
  assert.deepEqual(pages.map((b) => b.name), names);
  const level = await collect(one.listBlobsByHierarchy("/", { prefix: "dir1\ufffe/" }));
  assert.deepEqual(level.map((b) => [b.kind, b.name]).sort(), [["blob", names[1]], ["prefix", "dir1\ufffe/dir2/"]]);
  const odd = await collect(one.listBlobsByHierarchy("\ufffe"));
  assert.deepEqual(odd.map((b) => b.name), ["dir1\ufffe"]);
  await one.delete();
});

test("a refused upload is told, however long it is", async () => {
  const blob = container.getBlockBlobClient("kept");
  await blob.upload("hello", 5);
  for (let turn = 0; turn < 3; turn++) {
    const body = Buffer.alloc(48 * MIB);
    await refused(blob.upload(body, body.length, { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
  }
});

test("container: create, metadata, properties, delete", async () => {
  const one = service.getContainerClient(freshName());
  const created = await one.create({ metadata: { Hello: "World", hyphen_x: "1" } });
  assert.match(created.etag, /^"0x[0-9A-F]+"$/);
  await refused(one.create(), 409, "ContainerAlreadyExists");
  const first = await one.getProperties();
  assert.equal(first.etag, created.etag);
  assert.equal(first.leaseState, "available");
  // This client folds header names to lower case; listing keeps the case.
  assert.deepEqual(first.metadata, { hello: "World", hyphen_x: "1" });
  const listed = await collect(service.listContainers({ prefix: one.containerName, includeMetadata: true }));
  assert.deepEqual(listed.map((c) => c.metadata), [{ Hello: "World", hyphen_x: "1" }]);
  const second = await one.setMetadata({ a: "b" });
  assert.notEqual(second.etag, first.etag);
  assert.deepEqual((await one.getProperties()).metadata, { a: "b" });
  const future = new Date(Date.now() + HOUR);
  await refused(one.setMetadata({}, { conditions: { ifModifiedSince: future } }), 412, "ConditionNotMet");
  await refused(one.delete({ conditions: { ifUnmodifiedSince: new Date(Date.now() - HOUR) } }), 412, "ConditionNotMet");
  await one.delete();
  await refused(one.getProperties(), 404, "ContainerNotFound");
});

test("container: list by prefix and page", async () => {
  const family = freshName();
  const names = [0, 1, 2, 3, 4].map((n) => `${family}-${n}`);
  for (const name of names) await service.createContainer(name);
  const pages = await collect(service.listContainers({ prefix: family }).byPage({ maxPageSize: 2 }));
  assert.deepEqual(pages.map((page) => page.containerItems.map((c) => c.name)), [names.slice(0, 2), names.slice(2, 4), names.slice(4)]);
  for (const name of names) await service.deleteContainer(name);
});

for (const size of [0, 1, 1024, 65536, 4 * MIB + 1]) {
  test(`round trip of ${size} bytes`, async () => {
    const body = crypto.randomBytes(size);
    const blob = container.getBlockBlobClient(`size-${size}`);
    const put = await blob.upload(body, size);
    const seen = await blob.getProperties();
    assert.equal(seen.contentLength, size);
    assert.equal(seen.etag, put.etag);
    assert.equal(seen.blobType, "BlockBlob");
    assert.deepEqual(Buffer.from(seen.contentMD5), crypto.createHash("md5").update(body).digest());
    const answer = await blob.download();
    const chunks = await collect(answer.readableStreamBody);
    assert.deepEqual(Buffer.concat(chunks), body);
  });
}

test("ranges", async () => {
  const body = crypto.randomBytes(10_000);
  const blob = container.getBlockBlobClient("ranges");
  await blob.upload(body, body.length);
  for (const [offset, count] of [[0, 1], [100, 1000], [9999, 1], [9000, 5000], [5000, undefined]]) {
    const answer = await blob.download(offset, count);
    const end = count === undefined ? body.length : Math.min(offset + count, body.length);
    assert.deepEqual(Buffer.concat(await collect(answer.readableStreamBody)), body.subarray(offset, end));
    assert.equal(answer._response.status, 206);
    assert.equal(answer.contentRange, `bytes ${offset}-${end - 1}/${body.length}`);
  }
});

notOnAzurite("a range outside the blob", async () => {
  const blob = container.getBlockBlobClient("short");
  await blob.upload("123", 3);
  await refused(blob.download(3, 1), 416, "InvalidRange");
});

test("properties and metadata", async () => {
  const blob = container.getBlockBlobClient("properties");
  const blobHTTPHeaders = {
    blobContentType: "text/x-odd; charset=utf-8", blobContentEncoding: "identity", blobContentLanguage: "de, en",
    blobContentDisposition: 'attachment; filename="a b.txt"', blobCacheControl: "no-store",
  };
  await blob.upload("x", 1, { blobHTTPHeaders, metadata: { Hello: "World", hyphen_x: "1" } });
  for (const seen of [await blob.getProperties(), await blob.download()]) {
    assert.equal(seen.contentType, blobHTTPHeaders.blobContentType);
    assert.equal(seen.contentEncoding, blobHTTPHeaders.blobContentEncoding);
    assert.equal(seen.contentLanguage, blobHTTPHeaders.blobContentLanguage);
    assert.equal(seen.contentDisposition, blobHTTPHeaders.blobContentDisposition);
    assert.equal(seen.cacheControl, blobHTTPHeaders.blobCacheControl);
    assert.deepEqual(seen.metadata, { hello: "World", hyphen_x: "1" });
    seen.readableStreamBody?.destroy();
  }
  const [listed] = await collect(container.listBlobsFlat({ prefix: "properties", includeMetadata: true }));
  assert.deepEqual(listed.metadata, { Hello: "World", hyphen_x: "1" });
});

test("conditions", async () => {
  const blob = container.getBlockBlobClient("conditions");
  const { etag, lastModified } = await blob.upload("1", 1);
  const past = new Date(lastModified.getTime() - HOUR), future = new Date(lastModified.getTime() + HOUR);
  const wrong = '"0x8D6D418B6C08663"';

  for (const conditions of [{ ifMatch: etag }, { ifMatch: "*" }, { ifNoneMatch: wrong }, { ifModifiedSince: past }, { ifUnmodifiedSince: future }])
    await blob.getProperties({ conditions });
  for (const conditions of [{ ifNoneMatch: etag }, { ifModifiedSince: future }]) {
    await refused(blob.getProperties({ conditions }), 304, "ConditionNotMet");
    await refused(blob.download(0, undefined, { conditions }), 304);
    await refused(blob.upload("2", 1, { conditions }), 412, "ConditionNotMet");
  }
  for (const conditions of [{ ifMatch: wrong }, { ifUnmodifiedSince: past }]) {
    await refused(blob.getProperties({ conditions }), 412, "ConditionNotMet");
    await refused(blob.upload("2", 1, { conditions }), 412, "ConditionNotMet");
    await refused(blob.delete({ conditions }), 412, "ConditionNotMet");
  }
  await refused(blob.upload("2", 1, { conditions: { ifNoneMatch: "*" } }), 409, "BlobAlreadyExists");
  assert.equal((await blob.downloadToBuffer()).toString(), "1");

  const second = await blob.upload("2", 1, { conditions: { ifMatch: etag } });
  assert.notEqual(second.etag, etag);
  await refused(blob.upload("3", 1, { conditions: { ifMatch: etag } }), 412, "ConditionNotMet");
  await blob.delete({ conditions: { ifMatch: second.etag } });
  await blob.upload("4", 1, { conditions: { ifNoneMatch: "*" } });
});

test("compare and swap loses no update", async () => {
  const blob = container.getBlockBlobClient("counter");
  await blob.upload("0", 1);
  const increment = async () => {
    for (;;) {
      const answer = await blob.download();
      const value = Number(Buffer.concat(await collect(answer.readableStreamBody)).toString()) + 1;
      try {
        return await blob.upload(`${value}`, `${value}`.length, { conditions: { ifMatch: answer.etag } });
      } catch (error) {
        assert.equal(error.statusCode, 412);
      }
    }
  };
  await Promise.all(Array.from({ length: 30 }, increment));
  assert.equal((await blob.downloadToBuffer()).toString(), "30");
});

test("create once has exactly one winner", async () => {
  const blob = container.getBlockBlobClient("once");
  const put = (n) => blob.upload(`${n}`, `${n}`.length, { conditions: { ifNoneMatch: "*" } });
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => put(n)));
  const winners = outcomes.flatMap((o, n) => (o.status === "fulfilled" ? [n] : []));
  assert.equal(winners.length, 1);
  for (const o of outcomes) if (o.status === "rejected") assert.equal(o.reason.code, "BlobAlreadyExists");
  assert.equal((await blob.downloadToBuffer()).toString(), `${winners[0]}`);
});

test("odd names", async () => {
  const one = service.getContainerClient(freshName());
  await one.create();
  const names = ["a b", "100%", "a%20b", "a+b", "a#b", "a?b=c&d", "<&>'\"", "a//b", "dir/", "file.", "ümlaut", "日本語", "😀", "n".repeat(1024)];
  for (const name of names) await one.getBlockBlobClient(name).upload(name, Buffer.byteLength(name));
  const listed = (await collect(one.listBlobsFlat())).map((b) => b.name);
  const codePoints = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  assert.deepEqual(listed, [...names].sort(codePoints));
  for (const name of names) assert.equal((await one.getBlobClient(name).downloadToBuffer()).toString(), name);
  for (const name of names) await one.deleteBlob(name);
  assert.deepEqual(await collect(one.listBlobsFlat()), []);
  await one.delete();
});

test("list: prefix, pages, hierarchy", async () => {
  const one = service.getContainerClient(freshName());
  await one.create();
  const names = ["a", "a/1", "a/2", "b/1", "b/c/1", ...Array.from({ length: 10 }, (_, n) => `many/${n}`)];
  for (const name of names) await one.getBlockBlobClient(name).upload("x", 1);
  const pages = await collect(one.listBlobsFlat({ prefix: "many/" }).byPage({ maxPageSize: 4 }));
  assert.deepEqual(pages.map((page) => page.segment.blobItems.length), [4, 4, 2]);
  const walked = await collect(one.listBlobsByHierarchy("/"));
  assert.deepEqual(walked.map((item) => [item.kind, item.name]).sort(), [["blob", "a"], ["prefix", "a/"], ["prefix", "b/"], ["prefix", "many/"]]);
  const below = await collect(one.listBlobsByHierarchy("/", { prefix: "b/" }));
  assert.deepEqual(below.map((item) => item.name).sort(), ["b/1", "b/c/"]);
  await one.delete();
});

test("MD5 of a range", async () => {
  const blob = container.getBlockBlobClient("md5");
  await blob.upload("content", 7);
  const range = await blob.download(1, 3, { rangeGetContentMD5: true });
  assert.deepEqual(Buffer.from(range.contentMD5), crypto.createHash("md5").update("ont").digest());
  range.readableStreamBody.destroy();
});

test("delete and missing things", async () => {
  const blob = container.getBlockBlobClient("gone");
  await blob.upload("x", 1);
  await blob.delete();
  assert.equal(await blob.exists(), false);
  await refused(blob.delete(), 404, "BlobNotFound");
  await refused(blob.download(), 404, "BlobNotFound");
  await refused(blob.getProperties(), 404, "BlobNotFound");
  const nowhere = service.getContainerClient(freshName()).getBlockBlobClient("b");
  await refused(nowhere.upload("x", 1), 404, "ContainerNotFound");
  await refused(nowhere.download(), 404, "ContainerNotFound");
});

const token = (permissions, more = {}) =>
  generateAccountSASQueryParameters({
    permissions: AccountSASPermissions.parse(permissions), expiresOn: new Date(Date.now() + HOUR),
    services: AccountSASServices.parse("b").toString(), resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
    protocol: SASProtocol.HttpsAndHttp, ...more,
  }, credential).toString();
const withToken = (sas) => connect(`${ENDPOINT}?${sas}`, new AnonymousCredential()).getContainerClient(container.containerName);

test("account SAS", async () => {
  await container.getBlockBlobClient("sas").upload("x", 1);
  await smoke(connect(`${ENDPOINT}?${token("rwdlac")}`, new AnonymousCredential()));
  const reader = withToken(token("r"));
  assert.equal((await reader.getBlobClient("sas").downloadToBuffer()).toString(), "x");
  await refused(reader.getBlockBlobClient("sas").upload("y", 1), 403, "AuthorizationPermissionMismatch");
  await refused(reader.getBlobClient("sas").delete(), 403, "AuthorizationPermissionMismatch");
  await refused(collect(reader.listBlobsFlat()), 403, "AuthorizationPermissionMismatch");
  const objects = withToken(token("rwdl", { resourceTypes: "o" }));
  await refused(collect(objects.listBlobsFlat()), 403, "AuthorizationResourceTypeMismatch");
  await refused(withToken(token("r", { services: "q" })).getBlobClient("sas").getProperties(), 403, "AuthorizationServiceMismatch");
});

notOnAzurite("refused credentials", async () => {
  const expired = withToken(token("r", { expiresOn: new Date(Date.now() - HOUR) }));
  await refused(expired.getBlobClient("sas").getProperties(), 403, "AuthenticationFailed");
  const wrong = new StorageSharedKeyCredential(ACCOUNT, Buffer.from("not the key").toString("base64"));
  await refused(connect(ENDPOINT, wrong).getContainerClient(container.containerName).getProperties(), 403, "AuthenticationFailed");
  const nobody = connect(ENDPOINT, new AnonymousCredential()).getContainerClient(container.containerName);
  await refused(nobody.getBlobClient("sas").download(), 401, "NoAuthenticationInformation");
});

test("connection strings and development storage", async () => {
  await smoke(BlobServiceClient.fromConnectionString(
    `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`, ONE_TRY));
  if (new URL(ENDPOINT).port === "10000") await smoke(BlobServiceClient.fromConnectionString("UseDevelopmentStorage=true", ONE_TRY));
});

test("host style", async () => {
  await smoke(connect(`http://${ACCOUNT}.blob.localhost:${new URL(ENDPOINT).port}`));
});

test("https", { skip: !process.env.LAZULI_TOKENS_ENDPOINT && "no server that speaks it" }, async () => {
  const secure = process.env.LAZULI_TOKENS_ENDPOINT;
  await smoke(connect(secure));
  await smoke(connect(`https://${ACCOUNT}.blob.localhost:${new URL(secure).port}`));
});

test("properties and metadata set later", async () => {
  const blob = container.getBlockBlobClient("set-later");
  const { etag } = await blob.upload("x", 1, { metadata: { old: "1" } });
  const second = await blob.setMetadata({ a: "1" });
  const third = await blob.setHTTPHeaders({ blobContentType: "text/plain", blobContentLanguage: "de" });
  assert.equal(new Set([etag, second.etag, third.etag]).size, 3);
  await refused(blob.setMetadata({}, { conditions: { ifMatch: etag } }), 412, "ConditionNotMet");
  await refused(blob.setHTTPHeaders({}, { conditions: { ifMatch: etag } }), 412, "ConditionNotMet");
  const seen = await blob.getProperties();
  assert.deepEqual([seen.metadata, seen.contentType, seen.contentLanguage, seen.etag], [{ a: "1" }, "text/plain", "de", third.etag]);
});

test("a large body as one stream", async () => {
  const blob = container.getBlockBlobClient("large");
  const size = 64 * MIB, chunk = crypto.randomBytes(MIB);
  const sent = crypto.createHash("sha256");
  for (let n = 0; n < 64; n++) sent.update(chunk);
  await blob.upload(() => Readable.from((function* () { for (let n = 0; n < 64; n++) yield chunk; })()), size);
  const seen = crypto.createHash("sha256");
  for await (const piece of (await blob.download()).readableStreamBody) seen.update(piece);
  assert.equal(seen.digest("hex"), sent.digest("hex"));
});

notOnAzurite("many blobs deleted in one request", async () => {
  const one = service.getContainerClient(freshName());
  await one.create();
  const names = Array.from({ length: 10 }, (_, n) => `dir/${n} +ü`);
  for (const name of names) await one.getBlockBlobClient(name).upload("x", 1);
  const done = await service.getBlobBatchClient().deleteBlobs(names.map((name) => one.getBlobClient(name)));
  assert.deepEqual([done.subResponsesSucceededCount, done.subResponsesFailedCount], [10, 0]);

  await one.getBlockBlobClient("a").upload("x", 1);
  const mixed = await one.getBlobBatchClient().deleteBlobs(["a", "none"].map((name) => one.getBlobClient(name)));
  assert.deepEqual(mixed.subResponses.map((part) => [part.status, part.errorCode]), [[202, undefined], [404, "BlobNotFound"]]);

  await one.getBlockBlobClient("a").upload("x", 1);
  const tiers = await service.getBlobBatchClient().setBlobsAccessTier([one.getBlobClient("a")], "Cool");
  assert.equal(tiers.subResponses[0].status, 200);
  await one.delete();
});

notOnAzurite("content that is checked on the way, in both directions", async () => {
  const checked = { contentChecksumAlgorithm: "StorageCrc64" };
  // An empty body this client frames without its end.
  for (const size of [5, 9 * MIB]) {
    const content = crypto.randomBytes(size);
    const blob = container.getBlockBlobClient(`checked-${size}`);
    await blob.upload(content, size, checked);
    assert.ok((await blob.downloadToBuffer(0, undefined, checked)).equals(content), `${size}`);
    await blob.stageBlock("YQ==", content, size, checked);
    await blob.commitBlockList(["YQ=="]);
    assert.ok((await blob.downloadToBuffer()).equals(content), `${size} in a block`);
  }
});
