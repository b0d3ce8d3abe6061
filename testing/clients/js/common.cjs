// What the tests of blobs share. The server is named by LAZULI_BLOB_ENDPOINT (../with-server sets it); modules are found through NODE_PATH.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const dns = require("node:dns");
const { test } = require("node:test");
const { BlobServiceClient, StorageSharedKeyCredential, newPipeline } = require("@azure/storage-blob");

const ENDPOINT = process.env.LAZULI_BLOB_ENDPOINT;
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

// `*.localhost` is this machine (RFC 6761 section 6.3); not every resolver knows.
const lookup = dns.lookup;
dns.lookup = (host, ...rest) => lookup(host.endsWith(".localhost") ? "127.0.0.1" : host, ...rest);

const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
const ONE_TRY = { retryOptions: { maxTries: 1 } };
const connect = (url, who = credential) => new BlobServiceClient(url, newPipeline(who, ONE_TRY));
const service = connect(ENDPOINT);

let number = 0;
const freshName = () => `js${number++}-${crypto.randomBytes(6).toString("hex")}`;

// A container for one test, gone after it.
async function freshContainer(t) {
  const container = service.getContainerClient(freshName());
  await container.create();
  t.after(() => container.deleteIfExists());
  return container;
}

async function refused(promise, status, code) {
  await assert.rejects(promise, (error) => {
    const seen = error.code ?? error.details?.errorCode ?? error.response?.headers?.get("x-ms-error-code");
    assert.equal(error.statusCode, status, `${error.statusCode} ${seen}, expected ${status} ${code}`);
    if (code) assert.equal(seen, code);
    return true;
  });
}

async function collect(pages) {
  const all = [];
  for await (const one of pages) all.push(one);
  return all;
}

// A peer's known difference is not these suites' business.
const notOnAzurite = (name, body) => test(name, { skip: process.env.LAZULI_TEST_SERVER === "azurite" && "the peer differs" }, body);

const text = async (blob) => (await blob.downloadToBuffer()).toString();

module.exports = { ACCOUNT, ENDPOINT, KEY, ONE_TRY, collect, connect, credential, freshContainer, freshName, notOnAzurite, refused, service, text };
