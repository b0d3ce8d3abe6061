// Tokens as the JavaScript clients make them: granted what they grant, refused the rest. The same ground as ../python/test_sas_kinds.py.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const http = require("node:http");
const { test, before, after } = require("node:test");
const { promisify } = require("node:util");
const blobs = require("@azure/storage-blob");
const queues = require("@azure/storage-queue");
const files = require("@azure/storage-file-share");
const tables = require("@azure/data-tables");
const legacy = require("azure-storage");

const ENDPOINT = process.env.LAZULI_BLOB_ENDPOINT;
const AZURITE = process.env.LAZULI_TEST_SERVER === "azurite";
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOUR = 3600 * 1000;
const NAME = "dir/b 1+ü.txt";
const SNAPSHOT = "2024-01-02T03:04:05.0000000Z";

const credential = new blobs.StorageSharedKeyCredential(ACCOUNT, KEY);
const ONE_TRY = { retryOptions: { maxTries: 1 } };
const soon = (hours = 1) => new Date(Date.now() + hours * HOUR);
const freshName = () => `sas-${crypto.randomBytes(6).toString("hex")}`;
const service = new blobs.BlobServiceClient(ENDPOINT, blobs.newPipeline(credential, ONE_TRY));
const [here, there] = [freshName(), freshName()].map((name) => service.getContainerClient(name));

before(async () => {
  for (const container of [here, there]) {
    await container.create();
    await container.getBlockBlobClient(NAME).upload("content", 7);
  }
  await here.getBlockBlobClient("other").upload("content", 7);
});
after(() => Promise.all([here, there].map((container) => container.deleteIfExists())));

async function refused(promise, status, code) {
  await assert.rejects(promise, (error) => {
    const seen = error.code ?? error.details?.errorCode ?? error.response?.headers?.get("x-ms-error-code");
    assert.equal(error.statusCode, status, `${error.statusCode} ${seen}, expected ${status} ${code}: ${error.message}`);
    if (code) assert.equal(seen, code);
    return true;
  });
}
const anonymous = (url) => new blobs.ContainerClient(url, blobs.newPipeline(new blobs.AnonymousCredential(), ONE_TRY));
const seen = (container, token) => anonymous(`${container.url}?${token}`);
const read = async (container, name = NAME) => assert.equal((await container.getBlobClient(name).downloadToBuffer()).toString(), "content");
const write = (container, name = NAME) => container.getBlockBlobClient(name).upload("content", 7);
const list = async (container) => { for await (const _ of container.listBlobsFlat()) return; };

const ours = (name, body) => test(name, { skip: AZURITE && "the peer differs" }, body);

const KINDS = {
  account: (words) => blobs.generateAccountSASQueryParameters({
    resourceTypes: "sco", services: "b", expiresOn: soon(), ...words, permissions: blobs.AccountSASPermissions.parse(words.permissions ?? "rwdlacup"),
  }, credential),
  container: (words) => blobs.generateBlobSASQueryParameters({
    containerName: here.containerName, expiresOn: soon(), ...words,
    permissions: words.identifier && !words.permissions ? undefined : blobs.ContainerSASPermissions.parse(words.permissions ?? "racwdl"),
  }, credential),
  blob: (words) => blobs.generateBlobSASQueryParameters({
    containerName: here.containerName, blobName: NAME, expiresOn: soon(), ...words,
    permissions: words.identifier && !words.permissions ? undefined : blobs.BlobSASPermissions.parse(words.permissions ?? "racwd"),
  }, credential),
};

for (const [kind, made] of Object.entries(KINDS)) {
  const make = (words = {}) => made(words).toString();

  ours(`${kind} token: what it grants and what it refuses`, async () => {
    await read(seen(here, make()));
    await read(seen(here, make({ startsOn: soon(-1), ipRange: { start: "127.0.0.1" }, protocol: blobs.SASProtocol.HttpsAndHttp })));
    await read(seen(here, make({ ipRange: { start: "127.0.0.0", end: "127.0.0.255" } })));
    await write(seen(here, make({ permissions: "w" })));
    for (const [words, code] of [
      [{ expiresOn: soon(-1) }, "AuthenticationFailed"],
      [{ startsOn: soon(1), expiresOn: soon(2) }, "AuthenticationFailed"],
      [{ ipRange: { start: "203.0.113.7" } }, "AuthorizationSourceIPMismatch"],
      [{ protocol: blobs.SASProtocol.Https }, "AuthorizationProtocolMismatch"],
      [{ permissions: "w" }, "AuthorizationPermissionMismatch"],
      [{ permissions: "d" }, "AuthorizationPermissionMismatch"],
      [{ permissions: "t" }, "AuthorizationPermissionMismatch"],
      [{ encryptionScope: "mine" }, "AuthenticationFailed"],
    ]) await refused(read(seen(here, make(words))), 403, code);
    await refused(write(seen(here, make({ permissions: "r" }))), 403, "AuthorizationPermissionMismatch");
    const token = make({ permissions: "r" });
    for (const changed of [token.replace("sp=r", "sp=rw"), token.replace(/sig=./, (found) => (found === "sig=A" ? "sig=B" : "sig=A")), token.replace(/se=20/, "se=21")])
      await refused(read(seen(here, changed)), 403, "AuthenticationFailed");
  });

  ours(`${kind} token: where it holds`, async () => {
    if (kind === "account") {
      await read(seen(there, make()));
      await list(seen(there, make({ permissions: "l" })));
      await refused(list(seen(there, make({ resourceTypes: "o" }))), 403, "AuthorizationResourceTypeMismatch");
      await refused(read(seen(there, make({ services: "qtf" }))), 403, "AuthorizationServiceMismatch");
      return;
    }
    await refused(read(seen(there, make())), 403, "AuthenticationFailed");
    if (kind === "container") {
      await read(seen(here, make()), "other");
      await list(seen(here, make({ permissions: "l" })));
      await refused(seen(here, make()).getProperties(), 403, "AuthorizationFailure");
      await refused(seen(here, make()).delete(), 403, "AuthorizationFailure");
    } else {
      await refused(read(seen(here, make()), "other"), 403, "AuthenticationFailed");
      await refused(list(seen(here, make())), 403, "AuthenticationFailed");
    }
  });

  if (kind === "account") continue;

  ours(`${kind} token: a stored policy, and headers to answer`, async () => {
    const set = (id, permissions) => here.setAccessPolicy(undefined, [{ id, accessPolicy: { startsOn: soon(-1), expiresOn: soon(), permissions } }]);
    const token = () => make({ identifier: "reader", expiresOn: undefined });
    await set("reader", "r");
    const [kept] = (await here.getAccessPolicy()).signedIdentifiers;
    assert.equal(kept.id, "reader");
    assert.equal(kept.accessPolicy.permissions, "r");
    await read(seen(here, token()));
    await refused(write(seen(here, token())), 403, "AuthorizationPermissionMismatch");
    await refused(read(seen(here, make({ identifier: "reader", expiresOn: undefined, permissions: "r" }))), 403, "AuthenticationFailed");
    await set("somebody", "r");
    await refused(read(seen(here, token())), 403, "AuthenticationFailed");
    await here.setAccessPolicy();

    const words = { cacheControl: "no-store", contentDisposition: 'attachment; filename="a b"', contentEncoding: "identity", contentLanguage: "de, en", contentType: "text/x-mine" };
    const properties = await seen(here, make(words)).getBlobClient(NAME).getProperties();
    for (const [name, value] of Object.entries(words)) assert.equal(properties[name], value);
  });
}

ours("snapshot and version tokens are judged before what they ask for", async () => {
  for (const [words, at] of [[{ snapshotTime: SNAPSHOT }, (blob) => blob.withSnapshot(SNAPSHOT)], [{ versionId: SNAPSHOT }, (blob) => blob.withVersion(SNAPSHOT)]]) {
    const blob = seen(here, KINDS.blob({ ...words, permissions: "r" }).toString()).getBlobClient(NAME);
    await assert.rejects(at(blob).getProperties(), (error) => ![401, 403].includes(error.statusCode));
    await refused(blob.getProperties(), 403, "AuthenticationFailed");
  }
});

// --- the older client ------------------------------------------------------------------------------------------------

ours("legacy client: tokens for the account, a container, a blob, by policy", async () => {
  const host = ENDPOINT.slice(0, ENDPOINT.lastIndexOf("/"));
  const mine = legacy.createBlobService(`DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`);
  const policy = (letters, more = {}) => ({ AccessPolicy: { Permissions: letters, Expiry: soon(), ...more } });
  const call = (client, name, ...rest) => promisify(client[name]).call(client, ...rest);
  const container = here.containerName;
  const by = (token) => {
    const client = legacy.createBlobServiceWithSas(`${host}/${ACCOUNT}`, token).withFilter(new legacy.LinearRetryPolicyFilter(0, 1));
    return {
      read: (name = NAME, of = container) => call(client, "getBlobToText", of, name),
      write: () => call(client, "createBlockBlobFromText", container, NAME, "content"),
      list: () => call(client, "listBlobsSegmented", container, null),
      properties: () => call(client, "getBlobProperties", container, NAME),
    };
  };
  const no = (promise, code) => assert.rejects(promise, (error) => { assert.equal(error.statusCode, 403); if (code) assert.equal(error.code, code); return true; });

  for (const make of [
    (given) => mine.generateSharedAccessSignature(container, NAME, given),
    (given) => mine.generateSharedAccessSignature(container, null, given),
    (given) => legacy.generateAccountSharedAccessSignature(ACCOUNT, KEY, { AccessPolicy: { Services: "b", ResourceTypes: "sco", ...given.AccessPolicy } }),
  ]) {
    assert.equal(await by(make(policy("r"))).read(), "content");
    assert.equal(await by(make(policy("r", { Start: soon(-1), IPAddressOrRange: "127.0.0.1", Protocols: "https,http" }))).read(), "content");
    await by(make(policy("w"))).write();
    await no(by(make(policy("w"))).read(), "AuthorizationPermissionMismatch");
    await no(by(make(policy("r"))).write(), "AuthorizationPermissionMismatch");
    await no(by(make(policy("r", { Expiry: soon(-1) }))).read(), "AuthenticationFailed");
    await no(by(make(policy("r", { Start: soon(0.5) }))).read(), "AuthenticationFailed");
    await no(by(make(policy("r", { IPAddressOrRange: "203.0.113.7" }))).read(), "AuthorizationSourceIPMismatch");
    await no(by(make(policy("r", { Protocols: "https" }))).read(), "AuthorizationProtocolMismatch");
    await no(by(make(policy("r")).replace("sp=r", "sp=rw")).read(), "AuthenticationFailed");
  }
  const blob = by(mine.generateSharedAccessSignature(container, NAME, policy("r")));
  await no(blob.read("other"), "AuthenticationFailed");
  await no(blob.read(NAME, there.containerName), "AuthenticationFailed");
  const headed = by(mine.generateSharedAccessSignature(container, NAME, policy("r"), { contentType: "text/x-mine", cacheControl: "no-store" }));
  assert.equal((await headed.properties()).contentSettings.contentType, "text/x-mine");
  await by(mine.generateSharedAccessSignature(container, null, policy("l"))).list();

  await call(mine, "setContainerAcl", container, { reader: { Permissions: "r", Expiry: soon() } });
  assert.equal(await by(mine.generateSharedAccessSignature(container, NAME, { Id: "reader" })).read(), "content");
  await call(mine, "setContainerAcl", container, {});
  await no(by(mine.generateSharedAccessSignature(container, NAME, { Id: "reader" })).read(), "AuthenticationFailed");
});

// --- tokens of the other services, on plain requests -------------------------------------------------------------------

function ask(endpoint, method, path, token, headers = {}, body = "") {
  const target = `${endpoint}/${encodeURI(path)}${path.includes("?") ? "&" : "?"}${token}`;
  return new Promise((resolve, reject) => {
    const request = http.request(target, { method, headers: { "x-ms-version": "2025-07-05", "content-length": Buffer.byteLength(body), ...headers } }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve([answer.statusCode, answer.headers["x-ms-error-code"]]));
    });
    request.on("error", reject);
    request.end(body);
  });
}
const allowed = async (...request) => { const [status, code] = await ask(...request); assert.ok(![401, 403].includes(status), `${status} ${code}`); };
const forbidden = async (code, ...request) => assert.deepEqual(await ask(...request), [403, code]);

ours("queue tokens", async () => {
  const at = process.env.LAZULI_QUEUE_ENDPOINT;
  const shared = new queues.StorageSharedKeyCredential(ACCOUNT, KEY);
  const made = (permissions, words = {}) =>
    queues.generateQueueSASQueryParameters({ queueName: "line", permissions: queues.QueueSASPermissions.parse(permissions), expiresOn: soon(), ...words }, shared).toString();
  await allowed(at, "GET", "line/messages?peekonly=true", made("r", { startsOn: soon(-1), ipRange: { start: "127.0.0.1" }, protocol: queues.SASProtocol.HttpsAndHttp }));
  await allowed(at, "GET", "line/messages", made("p"));
  await forbidden("AuthorizationPermissionMismatch", at, "GET", "line/messages", made("r"));
  await forbidden("AuthenticationFailed", at, "GET", "other/messages", made("p"));
  await forbidden("AuthenticationFailed", at, "GET", "line/messages", made("p", { expiresOn: soon(-1) }));
  await forbidden("AuthorizationFailure", at, "DELETE", "line", made("raup"));
  const account = queues.generateAccountSASQueryParameters({ resourceTypes: "sco", services: "q", permissions: queues.AccountSASPermissions.parse("rl"), expiresOn: soon() }, shared).toString();
  await allowed(at, "GET", "?comp=list", account);
  await forbidden("AuthorizationPermissionMismatch", at, "GET", "line/messages", account);
  await forbidden("AuthorizationServiceMismatch", ENDPOINT, "GET", "?comp=list", account);
  const old = legacy.createQueueService(ACCOUNT, KEY, at).generateSharedAccessSignature("line", { AccessPolicy: { Permissions: "r", Expiry: soon() } });
  await allowed(at, "GET", "line/messages?peekonly=true", old);
  await forbidden("AuthorizationPermissionMismatch", at, "GET", "line/messages", old);
});

ours("table tokens", async () => {
  const at = process.env.LAZULI_TABLE_ENDPOINT;
  const shared = new tables.AzureNamedKeyCredential(ACCOUNT, KEY);
  const json = { accept: "application/json;odata=nometadata" };
  const made = (words) => tables.generateTableSas("people", shared, { expiresOn: soon(), ...words });
  await allowed(at, "GET", "people()", made({ permissions: { query: true }, startsOn: soon(-1), ipRange: { start: "127.0.0.1" }, protocol: "https,http" }), json);
  await allowed(at, "GET", "people()", made({ permissions: { query: true }, startPartitionKey: "a", startRowKey: "b", endPartitionKey: "q", endRowKey: "z" }), json);
  await forbidden("AuthorizationPermissionMismatch", at, "GET", "people()", made({ permissions: { add: true, update: true, delete: true } }), json);
  await forbidden("AuthenticationFailed", at, "GET", "others()", made({ permissions: { query: true } }), json);
  const account = tables.generateAccountSas(shared, { expiresOn: soon(), permissions: { list: true }, resourceTypes: "sco" });
  await allowed(at, "GET", "Tables", account, json);
  await forbidden("AuthorizationPermissionMismatch", at, "GET", "people()", account, json);
  const old = legacy.createTableService(ACCOUNT, KEY, at).generateSharedAccessSignature("People", { AccessPolicy: { Permissions: "r", Expiry: soon(), StartPk: "a", EndPk: "q" } });
  await allowed(at, "GET", "people()", old, json);
});

ours("file and share tokens", async () => {
  const at = process.env.LAZULI_FILE_ENDPOINT;
  const shared = new files.StorageSharedKeyCredential(ACCOUNT, KEY);
  for (const [words, permissions] of [[{}, files.ShareSASPermissions], [{ filePath: "dir/f.txt" }, files.FileSASPermissions]]) {
    const made = (letters, more = {}) =>
      files.generateFileSASQueryParameters({ shareName: "share", permissions: permissions.parse(letters), expiresOn: soon(), ...words, ...more }, shared).toString();
    await allowed(at, "GET", "share/dir/f.txt", made("r", { contentType: "text/x-mine", cacheControl: "no-store", ipRange: { start: "127.0.0.1" } }));
    await forbidden("AuthorizationPermissionMismatch", at, "DELETE", "share/dir/f.txt", made("r"));
    await forbidden("AuthenticationFailed", at, "GET", "other/dir/f.txt", made("r"));
    await forbidden("AuthenticationFailed", at, "GET", "share/dir/f.txt", made("r", { expiresOn: soon(-1) }));
  }
  const old = legacy.createFileService(ACCOUNT, KEY, at).generateSharedAccessSignature("share", "dir", "f.txt", { AccessPolicy: { Permissions: "r", Expiry: soon() } });
  await allowed(at, "GET", "share/dir/f.txt", old);
  await forbidden("AuthorizationPermissionMismatch", at, "DELETE", "share/dir/f.txt", old);
});
