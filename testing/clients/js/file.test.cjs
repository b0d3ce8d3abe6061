// The File service through @azure/storage-file-share: the same ground as ../python/test_share.py, test_directory.py and test_file.py, shorter.
// The server is named by LAZULI_FILE_ENDPOINT (../with-server sets it); modules are found through NODE_PATH.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const fs = require("node:fs/promises");
const os = require("node:os");
const path = require("node:path");
const { Readable } = require("node:stream");
const { test } = require("node:test");
const {
  AccountSASPermissions, AnonymousCredential, FileSASPermissions, ShareClient, ShareFileClient, ShareSASPermissions, ShareServiceClient,
  StorageSharedKeyCredential, generateFileSASQueryParameters, newPipeline,
} = require("@azure/storage-file-share");
const { BlobSASPermissions } = require("@azure/storage-blob");
const { ACCOUNT, KEY, ONE_TRY, collect, freshContainer, freshName, refused } = require("./common.cjs");

const ENDPOINT = process.env.LAZULI_FILE_ENDPOINT;
const HOUR = 3600 * 1000;
const SDDL = "O:S-1-5-21-2127521184-1604012920-1887927527-21560751G:S-1-5-21-2127521184-1604012920-1887927527-513D:AI(A;;FA;;;SY)(A;;FA;;;BA)";
const LONG_AGO = new Date("2001-02-03T04:05:06.789Z");

const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
const soon = () => new Date(Date.now() + HOUR);
const connect = (url, options) => new ShareServiceClient(url, newPipeline(credential, ONE_TRY), options);
const ours = (name, body) => test(name, { skip: !ENDPOINT && "the peer has no files" }, body);
const service = ENDPOINT && connect(ENDPOINT);
// To rename, this client names the destination without the account of path style.
const hostStyle = ENDPOINT && connect(`http://${ACCOUNT}.file.localhost:${new URL(ENDPOINT).port}`);

// A share for one test, gone after it.
async function freshShare(t, options, by = service) {
  const share = by.getShareClient(freshName());
  await share.create(options);
  t.after(() => share.deleteIfExists({ deleteSnapshots: "include" }));
  return share;
}

ours("names that XML has no way to write", async (t) => {
  const share = await freshShare(t);
  const directory = share.getDirectoryClient("dir\uffff");
  await directory.create();
  await directory.getFileClient("file\ufffe%20.txt").create(0);
  const top = await collect(share.rootDirectoryClient.listFilesAndDirectories({ prefix: "dir\uffff" }));
  assert.deepEqual(top.map((one) => one.name), ["dir\uffff"]);
  const page = (await directory.listFilesAndDirectories().byPage().next()).value;
  assert.equal(page.directoryPath, "dir\uffff");
  assert.deepEqual(page.segment.fileItems.map((one) => one.name), ["file\ufffe%20.txt"]);
});

async function freshFile(t, content, name = "f") {
  const share = await freshShare(t);
  const file = share.rootDirectoryClient.getFileClient(name);
  await file.uploadData(Buffer.from(content));
  return { share, root: share.rootDirectoryClient, file };
}

const text = async (file, ...range) => (await file.downloadToBuffer(...range)).toString();
const names = async (directory, options) => (await collect(directory.listFilesAndDirectories(options))).map((one) => `${one.kind[0]} ${one.name}`);

ours("shares come and go", async () => {
  const share = service.getShareClient(freshName());
  assert.equal((await share.createIfNotExists({ metadata: { hello: "world" }, quota: 7 })).succeeded, true);
  assert.equal((await share.createIfNotExists()).succeeded, false);
  await refused(share.create(), 409, "ShareAlreadyExists");
  let seen = await share.getProperties();
  assert.deepEqual([seen.metadata, seen.quota, seen.leaseState, seen.accessTier], [{ hello: "world" }, 7, "available", "TransactionOptimized"]);
  await share.setQuota(8);
  await share.setProperties({ accessTier: "Hot" });
  await share.setMetadata({ a: "1" });
  seen = await share.getProperties();
  assert.deepEqual([seen.metadata, seen.quota, seen.accessTier], [{ a: "1" }, 8, "Hot"]);
  assert.equal((await share.getStatistics()).shareUsageBytes, 0);
  assert.equal(await share.exists(), true);
  await share.delete();
  assert.equal(await share.exists(), false);
  await refused(share.getProperties(), 404, "ShareNotFound");
  await refused(service.createShare("Upper"), 400, "InvalidResourceName");
});

ours("listing shares", async () => {
  const prefix = freshName();
  for (let n = 0; n < 5; n++) await service.createShare(`${prefix}-${n}`, { metadata: { n: String(n) } });
  await service.getShareClient(`${prefix}-1`).createSnapshot();
  const pages = [];
  for await (const page of service.listShares({ prefix, includeMetadata: true }).byPage({ maxPageSize: 2 })) {
    pages.push(page.shareItems.map((one) => `${one.name.slice(-1)}${one.metadata.n}`));
  }
  assert.deepEqual(pages, [["00", "11"], ["22", "33"], ["44"]]);
  const all = await collect(service.listShares({ prefix, includeSnapshots: true }));
  assert.deepEqual(all.map((one) => Boolean(one.snapshot)), [false, true, false, false, false, false]);
  for (let n = 0; n < 5; n++) await service.deleteShare(`${prefix}-${n}`, { deleteSnapshots: "include" });
});

ours("snapshots", async (t) => {
  const { share, file } = await freshFile(t, "first");
  const { snapshot } = await share.createSnapshot();
  await file.uploadData(Buffer.from("second"));
  const then = share.withSnapshot(snapshot);
  assert.equal(await text(then.rootDirectoryClient.getFileClient("f")), "first");
  assert.deepEqual(await names(then.rootDirectoryClient), ["f f"]);
  await refused(share.delete(), 409, "ShareHasSnapshots");
  await then.delete();
  await refused(then.getProperties(), 404, "ShareSnapshotNotFound");
  await share.delete();
});

ours("directories", async (t) => {
  const share = await freshShare(t);
  const { directoryClient: one } = await share.createDirectory("dir", { metadata: { a: "1" }, fileAttributes: undefined });
  assert.equal((await one.createIfNotExists()).succeeded, false);
  await refused(share.createDirectory("DIR"), 409, "ResourceAlreadyExists");
  await refused(share.createDirectory("absent/dir"), 404, "ParentNotFound");
  const before = await one.getProperties();
  assert.deepEqual([before.metadata, before.fileAttributes], [{ a: "1" }, "Directory"]);
  await one.setMetadata({ b: "2" });
  await one.setProperties({ creationTime: LONG_AGO });
  const after = await one.getProperties();
  assert.deepEqual([after.metadata, after.fileCreatedOn, after.fileId], [{ b: "2" }, LONG_AGO, before.fileId]);
  const { directoryClient: below } = await one.createSubdirectory("sub");
  await refused(one.delete(), 409, "DirectoryNotEmpty");
  assert.equal((await below.getProperties()).fileParentId, before.fileId);
  assert.deepEqual(await collect(one.listHandles()), []);
  assert.equal((await one.forceCloseAllHandles({ recursive: true })).closedHandlesCount, 0);
  await one.deleteSubdirectory("sub");
  await one.delete();
  assert.equal(await one.exists(), false);
});

ours("listing", async (t) => {
  const share = await freshShare(t);
  const root = share.rootDirectoryClient;
  for (const name of ["b", "D", "ü +%41&"]) await root.createSubdirectory(name);
  for (const name of ["A", "c", "E"]) await root.createFile(name, name.length);
  // They come by name; the client puts the files of a page first.
  assert.deepEqual(await names(root), ["f A", "f c", "f E", "d b", "d D", "d ü +%41&"]);
  assert.deepEqual(await names(root, { prefix: "a" }), ["f A"]);
  const pages = [];
  for await (const page of root.listFilesAndDirectories().byPage({ maxPageSize: 4 })) {
    pages.push([page.segment.fileItems.map((one) => one.name), page.segment.directoryItems.map((one) => one.name)]);
  }
  assert.deepEqual(pages, [[["A", "c"], ["b", "D"]], [["E"], ["ü +%41&"]]]);
  const all = await collect(root.listFilesAndDirectories({
    includeTimestamps: true, includeEtag: true, includeAttributes: true, includePermissionKey: true, includeExtendedInfo: true,
  }));
  for (const one of all) {
    const seen = one.kind === "file" ? await root.getFileClient(one.name).getProperties() : await root.getDirectoryClient(one.name).getProperties();
    assert.deepEqual([one.fileId, one.permissionKey, one.attributes], [seen.fileId, seen.filePermissionKey, seen.fileAttributes]);
    assert.deepEqual([one.properties.lastModified, one.properties.creationTime], [seen.lastModified, seen.fileCreatedOn]);
    assert.equal(one.properties.etag.replaceAll('"', ""), seen.etag.replaceAll('"', ""));
  }
});

ours("files", async (t) => {
  const { root, file } = await freshFile(t, "hello");
  await file.create(10, { metadata: { a: "1" }, fileHttpHeaders: { fileContentType: "a/b" }, creationTime: LONG_AGO });
  let seen = await file.getProperties();
  assert.deepEqual([seen.contentLength, seen.metadata, seen.contentType, seen.fileCreatedOn], [10, { a: "1" }, "a/b", LONG_AGO]);
  await file.uploadRange("xyz", 2, 3);
  assert.equal(await text(file), "\0\0xyz\0\0\0\0\0");
  assert.equal((await (await file.download(2, 3)).readableStreamBody.toArray()).join(""), "xyz");
  await file.resize(4);
  await file.setHttpHeaders({ fileContentLanguage: "de" });
  await file.setMetadata({ b: "2" });
  seen = await file.getProperties();
  assert.deepEqual([seen.contentLength, seen.metadata, seen.contentLanguage], [4, { b: "2" }, "de"]);
  assert.equal(await text(file), "\0\0xy");
  await file.setProperties({ fileAttributes: undefined, lastWriteTime: LONG_AGO });
  assert.deepEqual((await file.getProperties()).fileLastWriteOn, LONG_AGO);
  await refused(file.uploadRange("xyz", 2, 3), 416, "InvalidRange");
  await refused(file.downloadToBuffer(5, 1), 416, "InvalidRange");
  assert.deepEqual(await collect(file.listHandles()), []);
  await file.delete();
  await refused(file.getProperties(), 404, "ResourceNotFound");
  assert.equal(await root.getFileClient("absent").exists(), false);
});

ours("upload and download", async (t) => {
  const share = await freshShare(t);
  const file = share.rootDirectoryClient.getFileClient("ü +%41&.bin");
  for (const size of [0, 1, 4 * 1024 * 1024, 9_000_001]) {
    const content = crypto.randomBytes(size);
    await file.uploadData(content, { concurrency: 3 });
    assert.ok((await file.downloadToBuffer(undefined, undefined, undefined, { concurrency: 3 })).equals(content), `${size}`);
    await file.uploadStream(Readable.from([content]), size, 1024 * 1024, 3);
    assert.ok((await file.downloadToBuffer()).equals(content), `${size} as a stream`);
  }
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "lazuli-"));
  t.after(() => fs.rm(folder, { recursive: true }));
  await fs.writeFile(path.join(folder, "up"), crypto.randomBytes(5_000_000));
  await file.uploadFile(path.join(folder, "up"));
  await file.downloadToFile(path.join(folder, "down"));
  assert.ok((await fs.readFile(path.join(folder, "down"))).equals(await fs.readFile(path.join(folder, "up"))));
  await file.uploadRange("x".repeat(100), 0, 100, { contentMD5: crypto.createHash("md5").update("x".repeat(100)).digest() });
  await refused(file.uploadRange("x".repeat(100), 0, 100, { contentMD5: crypto.randomBytes(16) }), 400, "Md5Mismatch");
});

ours("ranges", async (t) => {
  const share = await freshShare(t);
  const { fileClient: file } = await share.createFile("f", 16_384);
  await file.uploadRange("a".repeat(1024), 0, 1024);
  await file.uploadRange("b".repeat(512), 8192, 512);
  const { snapshot } = await share.createSnapshot();
  await file.clearRange(0, 512);
  await file.uploadRange("c".repeat(512), 4096, 512);
  const list = async (options) => (await file.getRangeList(options)).rangeList.map((one) => [one.start, one.end]);
  assert.deepEqual(await list(), [[512, 1023], [4096, 4607], [8192, 8703]]);
  assert.deepEqual(await list({ range: { offset: 4096, count: 512 } }), [[4096, 4607]]);
  const diff = await file.getRangeListDiff(snapshot);
  assert.deepEqual([diff.ranges, diff.clearRanges], [[{ start: 4096, end: 4607 }], [{ start: 0, end: 511 }]]);
});

ours("rename", async (t) => {
  const share = await freshShare(t, undefined, hostStyle);
  const root = share.rootDirectoryClient;
  await root.createSubdirectory("dir");
  const file = root.getFileClient("old ü");
  await file.uploadData(Buffer.from("content"));
  const { fileId } = await file.getProperties();
  const { destinationFileClient: moved } = await file.rename("dir/new +ü", { metadata: { a: "1" } });
  assert.equal(await text(moved), "content");
  assert.deepEqual([(await moved.getProperties()).fileId, (await moved.getProperties()).metadata], [fileId, { a: "1" }]);
  await file.uploadData(Buffer.from("in the way"));
  await refused(moved.rename("old ü"), 409, "ResourceAlreadyExists");
  await moved.rename("old ü", { replaceIfExists: true });
  assert.equal(await text(file), "content");
  const { destinationDirectoryClient: directory } = await root.getDirectoryClient("dir").rename("renamed");
  assert.equal(await directory.exists(), true);
  assert.deepEqual(await names(root), ["f old ü", "d renamed"]);
});

ours("leases", async (t) => {
  const { share, file } = await freshFile(t, "content");
  const lease = file.getShareLeaseClient();
  await lease.acquireLease();
  await refused(file.setMetadata({ a: "1" }), 412, "LeaseIdMissing");
  await refused(file.setMetadata({ a: "1" }, { leaseAccessConditions: { leaseId: crypto.randomUUID() } }), 412, "LeaseIdMismatchWithFileOperation");
  await file.setMetadata({ a: "1" }, { leaseAccessConditions: { leaseId: lease.leaseId } });
  await lease.changeLease(crypto.randomUUID());
  await lease.releaseLease();
  await lease.acquireLease();
  assert.equal((await file.getProperties()).leaseState, "leased");
  await lease.breakLease();
  await file.setMetadata({ b: "2" });

  const ofShare = share.getShareLeaseClient();
  await ofShare.acquireLease(15); // renewed by Python alone: this client takes the lease for one of a file
  await refused(share.delete(), 412, "LeaseIdMissing");
  await ofShare.changeLease(crypto.randomUUID());
  await ofShare.breakLease({ breakPeriod: 0 });
  await ofShare.acquireLease(-1);
  await ofShare.releaseLease();
});

ours("copies", async (t) => {
  const { root, file } = await freshFile(t, "content");
  const copy = root.getFileClient("copy");
  const started = await copy.startCopyFromURL(file.url, { metadata: { a: "1" } });
  assert.equal(started.copyStatus, "success");
  assert.equal(await text(copy), "content");
  assert.equal((await copy.getProperties()).copyProgress, "7/7");
  await refused(copy.abortCopyFromURL(started.copyId), 409, "NoPendingCopyOperation");
  const permissions = FileSASPermissions.parse("r");
  await copy.uploadRangeFromURL(file.generateSasUrl({ permissions, expiresOn: soon() }), 0, 3, 4);
  assert.equal(await text(copy), "concont");
  const container = await freshContainer(t);
  const blob = container.getBlockBlobClient("b");
  await blob.upload("from a blob", 11);
  await refused(copy.startCopyFromURL(blob.url), 401, "CannotVerifyCopySource"); // the key opens files of the account as sources, not blobs
  await copy.startCopyFromURL(await blob.generateSasUrl({ permissions: BlobSASPermissions.parse("r"), expiresOn: soon() }));
  while ((await copy.getProperties()).copyStatus === "pending"); // behind a balancer, whose ports say nothing of services
  assert.equal(await text(copy), "from a blob");
});

ours("permissions", async (t) => {
  const { share, file } = await freshFile(t, "x");
  const { filePermissionKey } = await share.createPermission(SDDL);
  assert.ok((await share.getPermission(filePermissionKey)).permission.startsWith(SDDL));
  await file.setProperties({ filePermissionKey });
  assert.equal((await file.getProperties()).filePermissionKey, filePermissionKey);
  await refused(share.createPermission("nonsense"), 400, "FileInvalidPermission");
});

ours("links on a share for NFS", async (t) => {
  const share = await freshShare(t, { protocols: { nfsEnabled: true }, rootSquash: "NoRootSquash" });
  const root = share.rootDirectoryClient;
  const file = root.getFileClient("f");
  await file.create(7, { posixProperties: { owner: "1", group: "2", fileMode: { owner: { read: true, write: true, execute: false }, group: { read: true, write: false, execute: false }, other: { read: false, write: false, execute: false }, effectiveUserIdentity: false, effectiveGroupIdentity: false, stickyBit: false } } });
  const seen = (await file.getProperties()).posixProperties;
  assert.deepEqual([seen.owner, seen.group, seen.fileType], ["1", "2", "Regular"]);
  const linked = await root.getFileClient("hard").createHardLink("/f");
  assert.equal(linked.posixProperties.linkCount, 2);
  const soft = root.getFileClient("soft");
  await soft.createSymbolicLink("some/where else");
  assert.equal(decodeURIComponent((await soft.getSymbolicLink()).linkText), "some/where else");
  const other = await freshShare(t);
  await refused(other.rootDirectoryClient.getFileClient("l").createSymbolicLink("f"), 409, "UnsupportedShareProtocol");
});

ours("access policies and SAS", async (t) => {
  const { share, file } = await freshFile(t, "content", "f ü");
  const anonymous = newPipeline(new AnonymousCredential(), ONE_TRY);
  await share.setAccessPolicy([{ id: "p", accessPolicy: { expiresOn: soon(), startsOn: new Date(Date.now() - HOUR), permissions: "rl" } }]);
  const [policy] = (await share.getAccessPolicy()).signedIdentifiers;
  assert.deepEqual([policy.id, policy.accessPolicy.permissions], ["p", "rl"]);
  const token = generateFileSASQueryParameters({ shareName: share.name, identifier: "p" }, credential);
  const by = new ShareClient(`${share.url}?${token}`, anonymous);
  assert.deepEqual(await names(by.rootDirectoryClient), ["f f ü"]);
  assert.equal(await text(by.rootDirectoryClient.getFileClient("f ü")), "content");
  await refused(by.createDirectory("d"), 403, "AuthorizationPermissionMismatch");
  await share.setAccessPolicy([]);
  await refused(names(by.rootDirectoryClient), 403, "AuthenticationFailed");

  const writes = new ShareClient(share.generateSasUrl({ permissions: ShareSASPermissions.parse("w"), expiresOn: soon() }), anonymous);
  await writes.rootDirectoryClient.getFileClient("g").uploadData(Buffer.from("new"));
  await refused(writes.rootDirectoryClient.getFileClient("g").getProperties(), 403, "AuthorizationPermissionMismatch");
  const reads = new ShareFileClient(file.generateSasUrl({ permissions: FileSASPermissions.parse("r"), expiresOn: soon(), contentType: "text/x-mine" }), anonymous);
  assert.equal((await reads.getProperties()).contentType, "text/x-mine");
  await refused(reads.delete(), 403, "AuthorizationPermissionMismatch");
  const account = new ShareServiceClient(service.generateAccountSasUrl(soon(), AccountSASPermissions.parse("rl"), "sco"), anonymous);
  assert.ok((await collect(account.listShares())).some((one) => one.name === share.name));
  assert.equal(await text(account.getShareClient(share.name).rootDirectoryClient.getFileClient("f ü")), "content");
});

ours("trailing dots", async (t) => {
  const share = await freshShare(t);
  await share.createDirectory("dir...");
  const keeps = connect(ENDPOINT, { allowTrailingDot: true, allowSourceTrailingDot: true }).getShareClient(share.name);
  await keeps.createDirectory("dir.");
  assert.deepEqual(await names(share.rootDirectoryClient), ["d dir", "d dir."]);
  await keeps.deleteDirectory("dir.");
});

ours("service properties", async () => {
  const before = await service.getProperties();
  await service.setProperties({
    cors: [{ allowedOrigins: "http://page", allowedMethods: "GET", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 5 }],
    protocol: { smb: { multichannel: { enabled: true } } },
  });
  const after = await service.getProperties();
  assert.equal(after.cors[0].allowedOrigins, "http://page");
  assert.equal(after.protocol.smb.multichannel.enabled, true);
  await service.setProperties({ cors: before.cors ?? [], protocol: { smb: { multichannel: { enabled: false } } } });
});

ours("a connection string, and host style", async (t) => {
  const text = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};FileEndpoint=${ENDPOINT};`;
  for (const by of [ShareServiceClient.fromConnectionString(text, ONE_TRY), hostStyle]) {
    const share = await freshShare(t, undefined, by);
    const { fileClient } = await share.createFile("f", 5);
    await fileClient.uploadRange("hello", 0, 5);
    assert.equal((await fileClient.downloadToBuffer()).toString(), "hello");
  }
});
