"""MD5 and CRC64: checked on the way in, stored, given on the way out."""

import base64
import hashlib
import os

import pytest
from azure.storage.blob import ContentSettings


def md5(content):
    return hashlib.md5(content).digest()


def sending(headers):
    """A hook that adds headers before the request is signed."""
    return lambda request: request.http_request.headers.update(headers)


def test_validated_round_trip(container):
    content = os.urandom(100_000)
    blob = container.get_blob_client("b")
    blob.upload_blob(content, validate_content=True)
    assert blob.download_blob(validate_content=True).readall() == content
    assert blob.download_blob(offset=10, length=1000, validate_content=True).readall() == content[10:1010]


def test_md5_is_computed_and_stored(container):
    content = b"stored with its hash"
    blob = container.get_blob_client("b")
    answer = blob.upload_blob(content)
    assert bytes(answer["content_md5"]) == md5(content)
    assert bytes(blob.get_blob_properties().content_settings.content_md5) == md5(content)
    assert bytes(blob.download_blob().properties.content_settings.content_md5) == md5(content)


def test_md5_of_the_caller_is_stored(container):
    blob = container.get_blob_client("b")
    blob.upload_blob(b"content", content_settings=ContentSettings(content_md5=bytearray(md5(b"content"))))
    assert bytes(blob.get_blob_properties().content_settings.content_md5) == md5(b"content")


def test_wrong_md5_is_refused_and_nothing_stored(container, refused):
    blob = container.get_blob_client("b")
    wrong = base64.b64encode(md5(b"other")).decode()
    with refused(400, "Md5Mismatch"):
        blob.upload_blob(b"content", raw_request_hook=sending({"Content-MD5": wrong}))
    assert not blob.exists()
    blob.upload_blob(b"before")
    with refused(400, "Md5Mismatch"):
        blob.upload_blob(b"content", overwrite=True, raw_request_hook=sending({"Content-MD5": wrong}))
    assert blob.download_blob().readall() == b"before"


@pytest.mark.parametrize("value", ["not base64", "AAAA", base64.b64encode(bytes(17)).decode()])
def test_malformed_md5(container, refused, value):
    with refused(400, "InvalidMd5"):
        container.get_blob_client("b").upload_blob(b"content", raw_request_hook=sending({"Content-MD5": value}))


@pytest.mark.azurite("does not look at the CRC")
def test_crc64(container, refused):
    blob = container.get_blob_client("b")
    right, wrong = "iJh5CoYUi64=", "AAAAAAAAAAA="  # of 123456789, of nothing
    blob.upload_blob(b"123456789", raw_request_hook=sending({"x-ms-content-crc64": right}))
    with refused(400, "Crc64Mismatch"):
        blob.upload_blob(b"123456789", overwrite=True, raw_request_hook=sending({"x-ms-content-crc64": wrong}))
    seen = {}
    blob.upload_blob(b"123456789", overwrite=True, raw_response_hook=lambda r: seen.update(r.http_response.headers))
    assert {k.lower(): v for k, v in seen.items()}["x-ms-content-crc64"] == right


def test_md5_of_a_range(container):
    content = os.urandom(50_000)
    blob = container.get_blob_client("b")
    blob.upload_blob(content)
    seen = {}

    def keep(response):
        seen.update({k.lower(): v for k, v in response.http_response.headers.items()})

    blob.download_blob(offset=100, length=2000, validate_content=True, raw_response_hook=keep).readall()
    assert seen["content-md5"] == base64.b64encode(md5(content[100:2100])).decode()
    assert seen["x-ms-blob-content-md5"] == base64.b64encode(md5(content)).decode()
    seen.clear()
    blob.download_blob(offset=100, length=2000, raw_response_hook=keep).readall()
    assert "content-md5" not in seen
    assert seen["x-ms-blob-content-md5"] == base64.b64encode(md5(content)).decode()
