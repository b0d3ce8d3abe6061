"""A counter in a blob, changed under an ETag, under a lease, and by whoever comes last."""

import os
import uuid

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

CONNECTION = os.environ.get("AZURE_STORAGE_CONNECTION_STRING") or "UseDevelopmentStorage=true"


def refused(act):
    """The status and the code with which this is refused."""
    try:
        act()
    except HttpResponseError as error:
        return f"{error.status_code} {getattr(error.error_code, 'value', error.error_code)}"
    raise SystemExit("was accepted and should not have been")


def optimistic(counter):
    counter.upload_blob(b"1", overwrite=True)
    seen = counter.download_blob()
    print(f"optimistic: we read {seen.readall().decode()}")
    counter.upload_blob(b"2", overwrite=True)
    print("optimistic: somebody else writes 2")

    def write(text, etag):
        counter.upload_blob(text, overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified)

    print(f"optimistic: our write under the ETag of 1 is refused with {refused(lambda: write(b'2', seen.properties.etag))}")
    again = counter.download_blob()
    write(str(int(again.readall()) + 1).encode(), again.properties.etag)
    print("optimistic: we read again, and write 3 under the ETag of 2")


def pessimistic(counter):
    lease = counter.acquire_lease(lease_duration=15)
    print("pessimistic: we hold the lease")
    print(f"pessimistic: a second acquire is refused with {refused(lambda: counter.acquire_lease(lease_duration=15))}")
    print(f"pessimistic: a write without the lease's id is refused with {refused(lambda: counter.upload_blob(b'9', overwrite=True))}")
    counter.upload_blob(str(int(counter.download_blob().readall()) + 1).encode(), overwrite=True, lease=lease)
    lease.release()
    print("pessimistic: we write 4 with it, and release it")


def last_writer_wins(counter):
    counter.upload_blob(b"5", overwrite=True)
    counter.upload_blob(b"6", overwrite=True)
    print(f"last writer wins: 5 and then 6 are written; the blob is {counter.download_blob().readall().decode()}")


def main():
    with BlobServiceClient.from_connection_string(CONNECTION) as service:
        container = service.create_container(f"counters-{uuid.uuid4().hex[:8]}")
        try:
            for way in (optimistic, pessimistic, last_writer_wins):
                way(container.get_blob_client("counter"))
        finally:
            container.delete_container()


if __name__ == "__main__":
    main()
