// Tests of a program that keeps photos in blobs and announces them on a queue.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, test } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { startLazuli } from "./lazuli.mjs";

let lazuli;
before(async () => { lazuli = await startLazuli(); });
after(() => lazuli?.stop());

// The program, with a name of its own for each test: no test sees another's photos, and nothing has to be cleared up.
async function makeAlbum() {
  const name = `album-${randomBytes(4).toString("hex")}`;
  const photos = BlobServiceClient.fromConnectionString(lazuli.connection).getContainerClient(name);
  const news = QueueServiceClient.fromConnectionString(lazuli.connection).getQueueClient(name);
  await Promise.all([photos.create(), news.create()]);
  const add = async (photo, picture) => {
    await photos.getBlockBlobClient(photo).uploadData(Buffer.from(picture), { conditions: { ifNoneMatch: "*" } });
    await news.sendMessage(photo);
  };
  return { photos, news, add };
}

test("a photo is kept and announced", async () => {
  const album = await makeAlbum();
  await album.add("cat.jpg", "meow");
  assert.equal((await album.photos.getBlobClient("cat.jpg").downloadToBuffer()).toString(), "meow");
  assert.equal((await album.news.receiveMessages()).receivedMessageItems[0].messageText, "cat.jpg");
});

test("no photo is replaced", async () => {
  const album = await makeAlbum();
  await album.add("cat.jpg", "meow");
  await assert.rejects(album.add("cat.jpg", "woof"), { statusCode: 409, code: "BlobAlreadyExists" });
  assert.equal((await album.photos.getBlobClient("cat.jpg").downloadToBuffer()).toString(), "meow");
  assert.equal((await album.news.getProperties()).approximateMessagesCount, 1);
});
