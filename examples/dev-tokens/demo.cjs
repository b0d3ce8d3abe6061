// DefaultAzureCredential, a blob, a user delegation key, and a SAS made with it. See README.md.
"use strict";

const { randomUUID } = require("node:crypto");
const { DefaultAzureCredential } = require("@azure/identity");
const { BlobClient, BlobSASPermissions, BlobServiceClient, BlockBlobClient, generateBlobSASQueryParameters } = require("@azure/storage-blob");

const ENDPOINT = process.env.BLOB_ENDPOINT ?? "https://127.0.0.1:10000/devstoreaccount1";

async function main() {
  const credential = new DefaultAzureCredential();
  const { token } = await credential.getToken("https://storage.azure.com/.default");
  const claims = JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString());
  console.log("signed in; the token is for", claims.aud.replace(/\/$/, ""));

  const service = new BlobServiceClient(ENDPOINT, credential);
  const { containerClient: container } = await service.createContainer(`demo-${randomUUID()}`);
  const blob = container.getBlockBlobClient("hello.txt");
  await blob.upload("hello", 5);
  console.log("uploaded", blob.name);
  console.log("read it back:", (await blob.downloadToBuffer()).toString());

  const after = (minutes) => new Date(Date.now() + minutes * 60_000);
  const key = await service.getUserDelegationKey(after(-5), after(60));
  const account = new URL(ENDPOINT).pathname.split("/")[1] || new URL(ENDPOINT).hostname.split(".")[0];
  const asked = { containerName: container.containerName, blobName: blob.name, permissions: BlobSASPermissions.parse("r"), expiresOn: after(30) };
  const sas = generateBlobSASQueryParameters(asked, key, account);
  console.log("got a user delegation key, and made a SAS that reads");
  const url = `${blob.url}?${sas}`;
  console.log("read with the SAS alone:", (await new BlobClient(url).downloadToBuffer()).toString());
  await new BlockBlobClient(url).upload("other", 5).catch((refused) => {
    console.log("writing with it is refused:", refused.statusCode, refused.code);
  });
  await container.delete();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
