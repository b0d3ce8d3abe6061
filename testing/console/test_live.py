"""What no other tool shows: leases that run out, files open over SMB, hidden messages, refused writes as they happen, and
the last requests with what the server expected of a signature."""

import re

import pytest
from azure.core import MatchConditions
from azure.storage.blob import BlobLeaseClient

import smb
from common import Refused, client, fresh_name


@pytest.fixture
def container(blobs):
    one = blobs.create_container(fresh_name())
    yield one
    one.delete_container()


def test_leases_count_down_and_are_broken(page, container):
    blob = container.upload_blob("plans/a.txt", b"x")
    lease = blob.acquire_lease(60)
    page.open("#/concurrency")
    row = f"{container.container_name}/plans/a.txt"
    page.sees(row)
    if page.look_name == "desk":
        page.sees(lease.id)
    left = lambda: page.run("[...document.querySelectorAll('.grid tr')].find((one) => one.innerText.includes(arguments[0]))?.querySelector('.countdown')?.textContent", row)
    before = page.wait(left, "a countdown")
    assert re.fullmatch(r"\d+ s|1 min 0 s", before), before
    page.wait(lambda: left() != before, "the next second")
    page.click(f"Break the lease on {row}")
    page.click("Break lease", kind="dialog button[data-yes]")
    page.sees("Lease broken.")
    page.misses(row)
    assert blob.get_blob_properties().lease.state == "broken"


def test_endless_leases_and_containers(page, container):
    container.acquire_lease(-1)
    page.open("#/concurrency")
    page.sees(container.container_name)
    page.sees("infinite")
    BlobLeaseClient(container).break_lease(0)
    page.misses(container.container_name, ".concurrency")


def test_what_smb_clients_have_open(page, server, shares):
    share = shares.create_share(fresh_name("s"))
    share.create_directory("plans")
    path = f"{share.share_name}/plans/report.docx"
    with smb.Client(server.smb_port, share.share_name) as mounted:
        mounted.make("plans/report.docx", b"x" * 100)
        with mounted.open("plans/report.docx", smb.EVERYTHING, "R") as held:
            held.lock(10, 50)
            page.open("#/concurrency")
            page.sees(path)
            page.sees("127.0.0.1")
            page.sees("exclusive 10–59")
            held.unlock(10, 50)
            page.misses("exclusive 10–59")
            # From there to the file and its handles.
            page.click(path, kind="[aria-label='Files open over SMB'] tr")
            page.sees("Close", ".panel")
            page.open("#/concurrency")
            held.mark_for_deletion()
            page.sees("delete pending")
            # What REST is refused because of it, and why.
            with Refused(409):
                share.get_file_client("plans/report.docx").upload_file(b"y")
            page.sees("plans/report.docx", ".feed")
        page.misses(path, ".concurrency > .box:nth-child(3)")
    share.delete_share()


def test_hidden_messages_of_all_queues(page, queues):
    queue = queues.create_queue(fresh_name("q"))
    queue.send_message("work")
    taken = queue.receive_message(visibility_timeout=300)
    page.open("#/concurrency")
    page.sees(queue.queue_name)
    page.sees(taken.id)
    queue.delete_message(taken)
    page.misses(taken.id)
    queue.delete_queue()


def test_refused_writes_as_they_happen(page, container):
    blob = container.upload_blob("fought-over", b"x")
    page.open("#/concurrency")
    page.sees("Refused writes")
    old = blob.get_blob_properties().etag
    blob.upload_blob(b"y", overwrite=True)
    with Refused(412, "ConditionNotMet"):
        blob.upload_blob(b"z", overwrite=True, etag=old, match_condition=MatchConditions.IfNotModified)
    page.sees("ConditionNotMet", ".feed")
    page.sees("fought-over", ".feed")
    # Why, in words: the ETag that was asked for, and the one it is.
    page.sees(old.strip('"'), ".feed")
    blob.acquire_lease(15)
    with Refused(412, "LeaseIdMissing"):
        blob.upload_blob(b"z", overwrite=True)
    page.sees("LeaseIdMissing", ".feed")
    # From the feed to the request.
    page.click("LeaseIdMissing", kind=".feed tr")
    page.sees("Request id", ".pane")
    page.sees("LeaseIdMissing", ".pane")
    BlobLeaseClient(blob).break_lease(0)
    page.open("#/")
    page.sees("ConditionNotMet")


def test_the_inspector_filters_and_shows_details(page, container):
    blob = container.upload_blob("looked-at", b"12345")
    blob.download_blob().readall()
    container.get_blob_client("no-such-blob").exists()
    page.open("#/requests")
    page.fill("Filter: operation, path, status, code, client", f"getblob {container.container_name}")
    page.sees("GetBlob", ".grid")
    page.misses("PutBlockBlob", ".grid")
    page.press("Escape", "j", "Enter")
    page.sees("Request id", ".pane")
    page.press("Escape")
    page.wait(lambda: page.run("document.querySelector('.pane').hidden"), "the pane to close")
    page.fill("Filter: operation, path, status, code, client", container.container_name)
    page.fill("Kind", "errors")
    page.sees("404", ".grid")
    page.fill("Kind", "")
    page.fill("Service", "queue")
    page.sees("none that the filter lets through")
    page.fill("Service", "")
    page.click("Pause")
    container.upload_blob("while-paused", b"")
    page.sees("Go on")
    page.click("Go on")
    page.sees("Pause")


def test_a_refused_signature_shows_what_was_expected(page, server, blobs):
    name = fresh_name("unsigned")
    wrong = client(server.endpoint_of("blob"), credential="bm90IHRoZSBrZXk=")
    with Refused(403, "AuthenticationFailed"):
        wrong.create_container(name)
    page.open("#/requests?kind=denied")
    page.sees("AuthenticationFailed")
    page.fill("Filter: operation, path, status, code, client", name)
    page.press("Escape", "j", "Enter")
    page.sees("What the server expected to be signed")
    said = page.text(".to-sign")
    assert said.startswith("PUT\n") and f"/devstoreaccount1/{name}\nrestype:container" in said, said
    # Never the key, and no signature.
    whole = page.run("document.documentElement.outerHTML")
    assert "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1" not in whole and "bm90IHRoZSBrZXk" not in whole
