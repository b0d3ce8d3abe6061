"""A customer's email, changed under an ETag, by force, and under a lock that everybody agrees on."""

import os
import uuid

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

CONNECTION = os.environ.get("AZURE_STORAGE_CONNECTION_STRING") or (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"
)
NAME = f"customers{uuid.uuid4().hex[:8]}"


def optimistic(customers):
    mine = customers.get_entity("Smith", "Ben")
    theirs = customers.get_entity("Smith", "Ben")

    theirs["Email"] = "ben@contoso.com"
    customers.update_entity(theirs, etag=theirs.metadata["etag"], match_condition=MatchConditions.IfNotModified)
    print("optimistic: they changed the email first")

    mine["Email"] = "ben@fabrikam.com"
    try:
        customers.update_entity(mine, etag=mine.metadata["etag"], match_condition=MatchConditions.IfNotModified)
        raise SystemExit("a stale write was taken")
    except ResourceModifiedError as stale:
        print(f"optimistic: our write was refused with {stale.status_code} {stale.error_code.value}")

    again = customers.get_entity("Smith", "Ben")
    again["Phone"] = "555-0100"  # decided over what is there now
    customers.update_entity(again, etag=again.metadata["etag"], match_condition=MatchConditions.IfNotModified)
    print(f"optimistic: read again, decided again, written; the email is still {again['Email']}")


def last_writer_wins(customers):
    customers.update_entity({"PartitionKey": "Smith", "RowKey": "Ben", "Email": "ben@fabrikam.com"})  # sends If-Match: *
    print(f"last writer wins: the email is {customers.get_entity('Smith', 'Ben')['Email']}")


def pessimistic(customers, lock):
    lease = lock.acquire_lease(lease_duration=15)
    print("pessimistic: we hold the lease of the blob that stands for the table")
    try:
        lock.acquire_lease(lease_duration=15)
        raise SystemExit("two hold the lock")
    except HttpResponseError as held:
        print(f"pessimistic: another program is refused with {held.status_code} {held.error_code}")
    customers.update_entity({"PartitionKey": "Smith", "RowKey": "Ben", "Email": "ben@adatum.com"})
    lease.release()
    lock.acquire_lease(lease_duration=15).release()
    print("pessimistic: written and released; the next one may")


def main():
    tables, blobs = TableServiceClient.from_connection_string(CONNECTION), BlobServiceClient.from_connection_string(CONNECTION)
    customers, locks = tables.create_table(NAME), blobs.create_container(NAME)
    try:
        customers.create_entity({"PartitionKey": "Smith", "RowKey": "Ben", "Email": "ben@example.org"})
        lock = locks.get_blob_client("table-lock")
        lock.upload_blob(b"")
        optimistic(customers)
        last_writer_wins(customers)
        pessimistic(customers, lock)
    finally:
        customers.delete_table()
        locks.delete_container()


if __name__ == "__main__":
    main()
