// @azure/identity against the development issuer (../with-server --tokens starts it, and tells where it is).
"use strict";

const assert = require("node:assert/strict");
const { execFile } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { promisify } = require("node:util");
const { ClientSecretCredential, DefaultAzureCredential, EnvironmentCredential, ManagedIdentityCredential } = require("@azure/identity");
const { BlobServiceClient } = require("@azure/storage-blob");
const { QueueServiceClient } = require("@azure/storage-queue");

const ENDPOINT = process.env.LAZULI_DEV_ENDPOINT;
const ours = (name, body) => test(name, { skip: !ENDPOINT && "no server with a development issuer" }, body);
const CLIENT = "11111111-2222-3333-4444-555555555555";
const IDENTITY = { IDENTITY_ENDPOINT: process.env.LAZULI_DEV_IDENTITY, IDENTITY_HEADER: "lazuli" };
const PRINCIPAL = { AZURE_AUTHORITY_HOST: process.env.LAZULI_DEV_AUTHORITY, AZURE_TENANT_ID: "adfs", AZURE_CLIENT_ID: CLIENT, AZURE_CLIENT_SECRET: "any" };

// The variables for one test, and no others that a credential could find.
function environment(t, variables) {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (/^(AZURE|IDENTITY|MSI)_/.test(name)) delete process.env[name];
  Object.assign(process.env, variables);
  t.after(() => {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, before);
  });
}

const uses = async (credential, endpoint = ENDPOINT) => {
  const service = new BlobServiceClient(endpoint, credential, { retryOptions: { maxTries: 1 } });
  const { containerClient } = await service.createContainer(`identity-${process.hrtime.bigint()}`);
  await containerClient.getBlockBlobClient("b").upload("1", 1);
  assert.equal((await containerClient.getBlobClient("b").downloadToBuffer()).toString(), "1");
  await containerClient.delete();
};

ours("the example", async (t) => {
  environment(t, IDENTITY);
  const folder = path.join(__dirname, "../../../examples/dev-tokens");
  const env = { ...process.env, BLOB_ENDPOINT: ENDPOINT };
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, "demo.cjs")], { env });
  assert.equal(stdout, readFileSync(path.join(folder, "README.md"), "utf8").split("```text\n")[1].split("```")[0]);
});

ours("a managed identity", async (t) => {
  environment(t, IDENTITY);
  await uses(new DefaultAzureCredential());
  await uses(new ManagedIdentityCredential());
  await uses(new ManagedIdentityCredential({ clientId: CLIENT }));
  const queues = new QueueServiceClient(process.env.LAZULI_DEV_QUEUE_ENDPOINT, new DefaultAzureCredential());
  const queue = queues.getQueueClient(`identity-${process.hrtime.bigint()}`);
  await queue.create();
  await queue.sendMessage("m");
  assert.equal((await queue.receiveMessages()).receivedMessageItems[0].messageText, "m");
  await queue.delete();
});

ours("a service principal", async (t) => {
  environment(t, PRINCIPAL);
  await uses(new DefaultAzureCredential());
  await uses(new EnvironmentCredential());
  const options = { authorityHost: PRINCIPAL.AZURE_AUTHORITY_HOST, disableInstanceDiscovery: true };
  await uses(new ClientSecretCredential("22222222-2222-2222-2222-222222222222", CLIENT, "any", options));
});

ours("a wrong IDENTITY_HEADER gets no token", async (t) => {
  environment(t, { ...IDENTITY, IDENTITY_HEADER: "other" });
  // In a process of its own: the library keeps what it got.
  const code = `const { ManagedIdentityCredential } = require("@azure/identity");
    new ManagedIdentityCredential({ retryOptions: { maxRetries: 0 } }).getToken("https://storage.azure.com/.default").then(() => console.log("a token"), (error) => console.log("refused", error.name));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["-e", code], { env: process.env });
  assert.match(stdout, /^refused /);
});
