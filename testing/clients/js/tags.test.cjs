// Tags, tiers and holds through @azure/storage-blob.
"use strict";

const assert = require("node:assert/strict");
const { test, before, after } = require("node:test");
const { collect, freshName, refused, service } = require("./common.cjs");

const AZURITE = process.env.LAZULI_TEST_SERVER === "azurite";
const notOnAzurite = (name, body) => test(name, { skip: AZURITE && "the peer differs" }, body);

const TAGS = { project: "Alpha-1", state: "in review", empty: "" };

let container;
before(async () => {
  container = service.getContainerClient(freshName());
  await container.create();
});
after(() => container.deleteIfExists());

notOnAzurite("tags: with writes, on their own, in listings", async () => {
  const blob = container.getBlockBlobClient("tagged");
  const { etag } = await blob.upload("content", 7, { tags: TAGS });
  assert.deepEqual((await blob.getTags()).tags, TAGS);
  await blob.setTags({ other: "1" });
  assert.deepEqual((await blob.getTags()).tags, { other: "1" });
  const seen = await blob.getProperties();
  assert.deepEqual([seen.tagCount, seen.etag], [1, etag]);
  const listed = await collect(container.listBlobsFlat({ prefix: "tagged", includeTags: true }));
  assert.deepEqual(listed.map((one) => one.tags), [{ other: "1" }]);
  await blob.upload("again", 5);
  assert.deepEqual((await blob.getTags()).tags, {});
  await refused(blob.setTags({ a: "?" }), 400, "InvalidTag");
});

notOnAzurite("tags: conditions", async () => {
  const blob = container.getBlockBlobClient("conditional");
  await blob.upload("content", 7, { tags: TAGS });
  const good = { tagConditions: "\"project\" = 'Alpha-1'" };
  const bad = { tagConditions: "project <> 'Alpha-1'" };
  await blob.setMetadata({ a: "1" }, { conditions: good });
  assert.equal((await blob.downloadToBuffer(0, undefined, { conditions: good })).toString(), "content");
  await refused(blob.getProperties({ conditions: bad }), 412);
  await refused(blob.upload("other", 5, { conditions: bad }), 412, "ConditionNotMet");
  await refused(blob.setTags({}, { conditions: bad }), 412, "ConditionNotMet");
  await refused(blob.delete({ conditions: bad }), 412, "ConditionNotMet");
  await blob.delete({ conditions: good });
});

notOnAzurite("tags: found", async () => {
  const run = freshName();
  for (const n of [1, 2, 3]) {
    await container.getBlockBlobClient(`found/${n}`).upload("", 0, { tags: { run, n: String(n) } });
  }
  const where = `run = '${run}' AND n > '1'`;
  const inContainer = await collect(container.findBlobsByTags(where));
  assert.deepEqual(inContainer.map((one) => one.name), ["found/2", "found/3"]);
  const inAccount = await collect(service.findBlobsByTags(where));
  assert.deepEqual(inAccount.map((one) => [one.containerName, one.name, one.tags.n]),
    [[container.containerName, "found/2", "2"], [container.containerName, "found/3", "3"]]);
  const pages = await collect(service.findBlobsByTags(`run = '${run}'`).byPage({ maxPageSize: 2 }));
  assert.deepEqual(pages.map((page) => page.blobs.length), [2, 1]);
});

notOnAzurite("tiers: set, sent, archived and on the way back", async () => {
  const blob = container.getBlockBlobClient("cool");
  await blob.upload("content", 7, { tier: "Cool" });
  assert.equal((await blob.getProperties()).accessTier, "Cool");
  await blob.setAccessTier("Archive");
  await refused(blob.downloadToBuffer(), 409, "BlobArchived");
  const answer = await blob.setAccessTier("Hot", { rehydratePriority: "High" });
  assert.equal(answer._response.status, 202);
  const seen = await blob.getProperties();
  assert.deepEqual([seen.accessTier, seen.archiveStatus, seen.rehydratePriority], ["Archive", "rehydrate-pending-to-hot", "High"]);
  await refused(blob.setAccessTier("Cool"), 409, "BlobBeingRehydrated");
  await blob.delete();
});

notOnAzurite("holds are for accounts that have them", async () => {
  const blob = container.getBlockBlobClient("held");
  await blob.upload("content", 7);
  await refused(blob.setLegalHold(true), 409, "ImmutableStorageNotEnabled");
  const policy = { expiriesOn: new Date(Date.now() + 86400 * 1000), policyMode: "Unlocked" };
  await refused(blob.setImmutabilityPolicy(policy), 409, "ImmutableStorageNotEnabled");
});
