"""Thumbnails of pictures, driven by events: a webhook hears of new pictures, a queue hears of everything.

    lazuli --config examples/blob-events/lazuli.toml        # in one terminal
    python examples/blob-events/demo.py                     # in another

AZURE_STORAGE_CONNECTION_STRING names the server; WEBHOOK_PORT is the port in lazuli.toml.
"""

import base64
import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

CONNECTION = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")
heard = queue.Queue()


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self):
        events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {}
        if self.headers["aeg-event-type"] == "SubscriptionValidation":
            # Asked once: does whoever listens here want events? Then it repeats the code.
            answer = {"validationResponse": events[0]["data"]["validationCode"]}
        else:
            for event in events:
                heard.put(event)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def exists(create):
    try:
        create()
    except ResourceExistsError:
        pass


def main():
    webhook = HTTPServer(("127.0.0.1", int(os.environ.get("WEBHOOK_PORT", "28080"))), Webhook)
    threading.Thread(target=webhook.serve_forever, daemon=True).start()
    blobs, queues = BlobServiceClient.from_connection_string(CONNECTION), QueueServiceClient.from_connection_string(CONNECTION)
    pictures, journal = blobs.get_container_client("pictures"), queues.get_queue_client("journal")
    exists(pictures.create_container)
    exists(journal.create_queue)
    journal.clear_messages()

    pictures.upload_blob("notes.txt", b"no picture", overwrite=True)
    pictures.upload_blob("cat.jpg", b"a large picture of a cat", overwrite=True)

    event = heard.get(timeout=60)  # of the cat alone: subject-ends-with = ".jpg"
    name = event["subject"].rsplit("/", 1)[1]
    print("the webhook heard:", event["eventType"], name, event["data"]["contentLength"], "bytes")
    pictures.upload_blob(f"thumbnails/{name}.small", b"a cat", overwrite=True)
    pictures.delete_blob(name)

    expected = {"PutBlob notes.txt", "PutBlob cat.jpg", "PutBlob thumbnails/cat.jpg.small", "DeleteBlob cat.jpg"}
    seen = set()
    while seen != expected:
        for message in journal.receive_messages():
            event = json.loads(base64.b64decode(message.content))
            seen.add(event["data"]["api"] + " " + event["subject"].split("/blobs/", 1)[1])
            journal.delete_message(message)
    for line in sorted(seen):
        print("the queue heard:", line)
    webhook.shutdown()


if __name__ == "__main__":
    main()
