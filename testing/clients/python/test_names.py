"""Odd blob names: what is put under a name is got, listed and deleted under exactly that name."""

import unicodedata

import pytest

NAMES = {
    "space": "a b  c",
    "leading and trailing space": " a ",
    "percent": "100%",
    "looks escaped": "a%20b%2Fc",
    "plus": "a+b",
    "hash": "a#b",
    "question mark": "a?b=c&d",
    "ampersand and equals": "a&b=c;d,e",
    "quotes": "it's \"quoted\"",
    "angle brackets": "<a>&lt;</a>",
    "brackets": "[a]{b}(c)|^`~",
    "at, colon, dollar": "a@b:c$d!*",
    "double slash": "a//b",
    "many slashes": "a///b//c/",
    "trailing slash": "dir/",
    "trailing dot": "file.",
    "dots in a segment": "a...b/..c",
    "umlaut composed": unicodedata.normalize("NFC", "\u00fcmlaut"),
    "umlaut decomposed": unicodedata.normalize("NFD", "\u00fcmlaut"),
    "japanese": "\u65e5\u672c\u8a9e/\u30d5\u30a1\u30a4\u30eb",
    "emoji": "\U0001f600\U0001f469\u200d\U0001f4bb",
    "right to left": "\u05e9\u05dc\u05d5\u05dd",
    "what XML has no way to write": "dir \uffff/%20\ufffe",
    "case": "MixedCase",
    "longest": "n" * 1024,
    "deepest": "/".join("d" * 254),
    "longest of non-ASCII": "\u00fc" * 1024,
}


@pytest.mark.parametrize("which", NAMES)
def test_odd_name(container, which):
    name = NAMES[which]
    blob = container.get_blob_client(name)
    blob.upload_blob(which.encode(), metadata={"which": which})
    assert blob.download_blob().readall() == which.encode()
    assert blob.get_blob_properties().metadata == {"which": which}
    assert [b.name for b in container.list_blobs()] == [name]
    assert [b.name for b in container.list_blobs(name_starts_with=name[:-1])] == [name]
    blob.delete_blob()
    assert list(container.list_blobs()) == []


def test_all_odd_names_together_in_code_point_order(container):
    for which, name in NAMES.items():
        container.upload_blob(name, which.encode())
    listed = [b.name for b in container.list_blobs(results_per_page=3)]
    assert sorted(listed) == sorted(NAMES.values())
    assert listed == sorted(NAMES.values()), "the order is that of code points"
    for which, name in NAMES.items():
        assert container.download_blob(name).readall() == which.encode()


def test_case_matters(container, refused):
    container.upload_blob("Name", b"upper")
    with refused(404, "BlobNotFound"):
        container.download_blob("name")
    container.upload_blob("name", b"lower")
    assert container.download_blob("Name").readall() == b"upper"
    assert container.download_blob("name").readall() == b"lower"


@pytest.mark.azurite("knows no limit")
@pytest.mark.parametrize("name", ["n" * 1025, "/".join("d" * 300)], ids=["1025 characters", "300 segments"])
def test_too_long_is_refused(container, refused, name):
    with refused(400):
        container.upload_blob(name, b"")
    assert list(container.list_blobs()) == []
