"""Tests of a program that keeps photos in blobs and announces them on a queue."""

import uuid

import pytest
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient


class Album:
    """The program."""

    def __init__(self, connection, name):
        self.photos = BlobServiceClient.from_connection_string(connection).create_container(name)
        self.news = QueueServiceClient.from_connection_string(connection).create_queue(name)

    def add(self, name, picture):
        self.photos.upload_blob(name, picture)
        self.news.send_message(name)


@pytest.fixture
def album(storage):
    # A name of its own for each test: no test sees another's photos, and nothing has to be cleared up.
    return Album(storage, f"album-{uuid.uuid4().hex[:8]}")


def test_a_photo_is_kept_and_announced(album):
    album.add("cat.jpg", b"meow")
    assert album.photos.download_blob("cat.jpg").readall() == b"meow"
    assert album.news.receive_message().content == "cat.jpg"


def test_no_photo_is_replaced(album):
    album.add("cat.jpg", b"meow")
    with pytest.raises(ResourceExistsError):
        album.add("cat.jpg", b"woof")
    assert album.photos.download_blob("cat.jpg").readall() == b"meow"
    assert album.news.get_queue_properties().approximate_message_count == 1
