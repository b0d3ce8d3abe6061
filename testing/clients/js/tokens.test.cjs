// Bearer tokens, what is delegated with them, and what is set for the whole service, through @azure/storage-blob.
// ../with-server --tokens starts the server that trusts the issuer; the client trusts its certificate through NODE_EXTRA_CA_CERTS.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { test, before, after } = require("node:test");
const blobs = require("@azure/storage-blob");
const { promisify } = require("node:util");
const legacy = require("azure-storage");

const ENDPOINT = process.env.LAZULI_TOKENS_ENDPOINT;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOUR = 3600 * 1000;
const NAME = "dir/b 1.txt";
const ONE_TRY = { retryOptions: { maxTries: 1 } };
const soon = (hours = 1) => new Date(Date.now() + hours * HOUR);
const token = (who) => process.env[`LAZULI_TOKEN_${who.toUpperCase()}`];
const ours = (name, body) => test(name, { skip: !ENDPOINT && "no server that trusts an issuer" }, body);

class Bearer {
  asked = 0;
  constructor(who) { this.token = token(who); }
  async getToken() {
    this.asked += 1;
    return { token: this.token, expiresOnTimestamp: Date.now() + HOUR };
  }
}
const by = (credential) => new blobs.BlobServiceClient(ENDPOINT, credential, ONE_TRY);
const bearer = (who) => by(new Bearer(who));
const name = `tokens-${crypto.randomBytes(6).toString("hex")}`;

before(async () => {
  if (!ENDPOINT) return;
  const container = by(new blobs.StorageSharedKeyCredential(ACCOUNT, KEY)).getContainerClient(name);
  await container.create();
  for (const blob of [NAME, "other"]) await container.getBlockBlobClient(blob).upload("content", 7);
});

async function refused(promise, status, code) {
  await assert.rejects(promise, (error) => {
    const seen = error.code ?? error.details?.errorCode ?? error.response?.headers?.get("x-ms-error-code");
    assert.equal(error.statusCode, status, `${error.statusCode} ${seen}, expected ${status} ${code}: ${error.message}`);
    if (code) assert.equal(seen, code);
    return true;
  });
}
const read = async (service, blob = NAME) =>
  assert.equal((await service.getContainerClient(name).getBlobClient(blob).downloadToBuffer()).toString(), "content");
const write = (service) => service.getContainerClient(name).getBlockBlobClient("written").upload("x", 1);

ours("roles: a reader reads, a contributor writes, nobody does nothing", async () => {
  await read(bearer("reader"));
  await refused(write(bearer("reader")), 403, "AuthorizationPermissionMismatch");
  await refused(bearer("reader").createContainer("new"), 403, "AuthorizationPermissionMismatch");
  await write(bearer("contributor"));
  await refused(bearer("contributor").getContainerClient(name).getAccessPolicy(), 403, "AuthorizationPermissionMismatch");
  await refused(read(bearer("nobody")), 403, "AuthorizationPermissionMismatch");
});

ours("a token made out to somebody else: 401, a challenge, and no loop", async () => {
  const credential = new Bearer("elsewhere");
  await assert.rejects(read(by(credential)), (error) => {
    assert.equal(error.statusCode, 401);
    assert.match(error.response.headers.get("www-authenticate"), /^Bearer authorization_uri=\S+ resource_id=https:\/\/storage\.azure\.com$/);
    return true;
  });
  assert.ok(credential.asked <= 2, `asked ${credential.asked} times`);
  await refused(read(by(new blobs.AnonymousCredential())), 401, "NoAuthenticationInformation");
});

ours("legacy client: a bearer token", async () => {
  const service = legacy.createBlobServiceWithTokenCredential(ENDPOINT, new legacy.TokenCredential(token("reader")));
  const call = (what, ...rest) => promisify(service[what]).call(service, ...rest);
  assert.equal(await call("getBlobToText", name, NAME), "content");
  await assert.rejects(call("createBlockBlobFromText", name, "x", "x"), { statusCode: 403, code: "AuthorizationPermissionMismatch" });
});

ours("delegated tokens", async () => {
  const key = await bearer("contributor").getUserDelegationKey(soon(-1), soon(1));
  assert.equal(key.signedService, "b");
  const made = (words = {}, signed = key) => {
    const permissions = words.blobName ? blobs.BlobSASPermissions : blobs.ContainerSASPermissions;
    return blobs.generateBlobSASQueryParameters(
      { containerName: name, expiresOn: soon(), ...words, permissions: permissions.parse(words.permissions ?? "racwd") }, signed, ACCOUNT).toString();
  };
  const seen = (sas, who = new blobs.AnonymousCredential()) => new blobs.ContainerClient(`${ENDPOINT}/${name}?${sas}`, who, ONE_TRY);
  const get = async (container, blob = NAME) => assert.equal((await container.getBlobClient(blob).downloadToBuffer()).toString(), "content");

  for (const kind of [{}, { blobName: NAME }]) {
    await get(seen(made(kind)));
    await get(seen(made({ ...kind, startsOn: soon(-1), ipRange: { start: "127.0.0.1" }, protocol: blobs.SASProtocol.Https, correlationId: crypto.randomUUID() })));
    await get(seen(made({ ...kind, preauthorizedAgentObjectId: crypto.randomUUID() })));
    assert.equal((await seen(made({ ...kind, contentType: "text/x-mine" })).getBlobClient(NAME).getProperties()).contentType, "text/x-mine");
    await refused(get(seen(made({ ...kind, permissions: "w" }))), 403, "AuthorizationPermissionMismatch");
    await refused(get(seen(made({ ...kind, ipRange: { start: "203.0.113.7" } }))), 403, "AuthorizationSourceIPMismatch");
    await refused(get(seen(made({ ...kind, expiresOn: soon(-0.5) }))), 403, "AuthenticationFailed");
    await refused(get(seen(made({ ...kind, containerName: "other" }))), 403, "AuthenticationFailed");
    await refused(get(seen(made({ ...kind, permissions: "r" }).replace("sp=r", "sp=rw"))), 403, "AuthenticationFailed");
    await refused(get(seen(made(kind, { ...key, signedObjectId: process.env.LAZULI_NOBODY }))), 403, "AuthenticationFailed");
    // For one user, who brings a bearer token of their own.
    const bound = { ...kind, delegatedUserObjectId: process.env.LAZULI_NOBODY };
    await refused(get(seen(made(bound))), 403, "AuthenticationFailed");
    await get(seen(made(bound), new Bearer("nobody")));
    await refused(get(seen(made(bound), new Bearer("reader"))), 403, "AuthenticationFailed");
  }
  await refused(get(seen(made({ blobName: NAME })), "other"), 403, "AuthenticationFailed");
  // What was signed of the request must be sent.
  const signs = made({ requestHeaders: { "x-ms-foo": "1" }, requestQueryParameters: { q: "2" } });
  const ask = async (headers, query) => (await fetchStatus(`${ENDPOINT}/${name}/other?${signs}${query}`, headers));
  assert.equal(await ask({ "x-ms-foo": "1" }, "&q=2"), 200);
  assert.equal(await ask({ "x-ms-foo": "2" }, "&q=2"), 403);
  assert.equal(await ask({ "x-ms-foo": "1" }, "&q=3"), 403);
  assert.equal(await ask({}, ""), 403);
  // No more than the one who delegates may.
  const readers = await bearer("reader").getUserDelegationKey(soon(-1), soon(1));
  await get(seen(made({}, readers)));
  await refused(seen(made({}, readers)).getBlockBlobClient("x").upload("x", 1), 403, "AuthorizationPermissionMismatch");
  await refused(bearer("nobody").getUserDelegationKey(soon(-1), soon(1)), 403, "AuthorizationPermissionMismatch");
});

const fetchStatus = async (url, headers) => {
  const answer = await fetch(url, { headers });
  await answer.arrayBuffer();
  return answer.status;
};

// --- what is set for the whole service ----------------------------------------------------------------------------------

ours("service properties come back as set; CORS as browsers ask", async () => {
  const service = by(new blobs.StorageSharedKeyCredential(ACCOUNT, KEY));
  const retention = { enabled: true, days: 5 };
  const given = {
    blobAnalyticsLogging: { version: "1.0", read: true, write: false, deleteProperty: true, retentionPolicy: retention },
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: retention },
    minuteMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: { enabled: false } },
    cors: [{ allowedOrigins: "https://a.example", allowedMethods: "GET,PUT", allowedHeaders: "x-ms-*", exposedHeaders: "etag", maxAgeInSeconds: 60 }],
    defaultServiceVersion: "2021-08-06",
  };
  await service.setProperties(given);
  const seen = await service.getProperties();
  for (const property of Object.keys(given)) assert.deepEqual(JSON.parse(JSON.stringify(seen[property])), given[property], property);

  const preflight = await fetch(`${ENDPOINT}/${name}/x`, { method: "OPTIONS", headers: { origin: "https://a.example", "access-control-request-method": "PUT", "access-control-request-headers": "x-ms-blob-type" } });
  assert.equal(preflight.status, 200);
  assert.equal(preflight.headers.get("access-control-allow-origin"), "https://a.example");
  const actual = await fetch(`${ENDPOINT}/${name}/other`, { headers: { origin: "https://a.example", "x-ms-version": "2021-08-06" } });
  assert.equal(actual.headers.get("access-control-allow-origin"), "https://a.example", "also on a refusal");

  await service.setProperties({ staticWebsite: { enabled: true, indexDocument: "index.html" }, deleteRetentionPolicy: { enabled: true, days: 7 } });
  const { staticWebsite, deleteRetentionPolicy } = await service.getProperties();
  assert.deepEqual([staticWebsite.enabled, staticWebsite.indexDocument, deleteRetentionPolicy.days], [true, "index.html", 7]);
  await service.setProperties({ cors: [], staticWebsite: { enabled: false }, deleteRetentionPolicy: { enabled: false } });
  assert.deepEqual((await service.getProperties()).cors ?? [], []);

  const account = await service.getAccountInfo();
  assert.deepEqual([account.accountKind, account.skuName, account.isHierarchicalNamespaceEnabled], ["StorageV2", "Standard_LRS", false]);
  const secondary = new blobs.BlobServiceClient(`${ENDPOINT}-secondary`, new blobs.StorageSharedKeyCredential(ACCOUNT, KEY), ONE_TRY);
  assert.equal((await secondary.getStatistics()).geoReplication.status, "live");
});

after(async () => {
  if (ENDPOINT) await by(new blobs.StorageSharedKeyCredential(ACCOUNT, KEY)).getContainerClient(name).deleteIfExists();
});
