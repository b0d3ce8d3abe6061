// The examples do what their README says.
"use strict";

const assert = require("node:assert/strict");
const { execFile } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { promisify } = require("node:util");
const { ACCOUNT, ENDPOINT, KEY } = require("./common.cjs");

test("blob-concurrency", async () => {
  const folder = path.join(__dirname, "../../../examples/blob-concurrency");
  const AZURE_STORAGE_CONNECTION_STRING = `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};BlobEndpoint=${ENDPOINT};`;
  const env = { ...process.env, AZURE_STORAGE_CONNECTION_STRING };
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, "demo.cjs")], { env });
  const readme = readFileSync(path.join(folder, "README.md"), "utf8");
  assert.equal(stdout, readme.split("```text\n")[1].split("```")[0]);
});
