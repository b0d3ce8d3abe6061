"""What strangers stored is shown as text: names, contents, metadata, messages, entities. Nothing of it runs, nothing breaks the page."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from common import fresh_name

SCRIPT = "<script>document.title='run'</script>"
IMAGE = "<img src=x onerror=\"document.title='run'\">"
NAMES = [SCRIPT, IMAGE, "'\"><b>bold</b>", "javascript:alert(1)", "..a/b..", "…/日本語/🎉", "\u202egnp.exe", "a b+c&d=e?f#g%41", "x" * 1000, "{{7*7}}${7*7}", "constructor", "__proto__"]


@pytest.fixture
def container(blobs):
    one = blobs.create_container(fresh_name())
    yield one
    one.delete_container()


def unharmed(page):
    assert "run" not in page.run("document.title").split(" · ")[1:] and page.run("document.title") != "run"
    assert page.run("document.querySelectorAll('main script, main iframe, main b, main img[src=x]').length") == 0


def test_names_of_blobs(page, container):
    for name in NAMES:
        container.upload_blob(name, SCRIPT.encode())
    page.open(f"#/blobs/{container.container_name}?flat=1")
    page.sees(f"{len(NAMES)} blobs and folders")
    listed = page.run("[...document.querySelectorAll('.grid tbody .name a')].map((one) => one.textContent)")
    assert sorted(listed) == sorted(one.name for one in container.list_blobs()) and len(set(listed)) == len(NAMES)
    unharmed(page)
    # Each can be opened by what the list says, and is what it says.
    for name in NAMES:
        page.open(f"#/blob/{container.container_name}/{quote(name, safe='')}")
        page.sees(SCRIPT, ".panel")
        unharmed(page)
    # No blob can be called so; the browser does not make another address of it.
    for name in ["../../other/secret", "..", "a/../b"]:
        page.requests.clear()
        page.open(f"#/blob/{container.container_name}/{quote(name, safe='')}")
        page.sees("Try again")
        asked = [one for one in page.requests if "/api/blob/" in one]
        assert all(f"/api/blob/devstoreaccount1/{container.container_name}" in one for one in asked), asked


@pytest.mark.parametrize("content_type", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript"])
def test_contents(page, container, content_type):
    from azure.storage.blob import ContentSettings
    page_of_theirs = "<html xmlns='http://www.w3.org/1999/xhtml'><body><script>document.title='run'</script></body></html>"
    picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>document.title='run'</script></svg>"
    container.upload_blob("theirs", (picture if "svg" in content_type else page_of_theirs).encode(), content_settings=ContentSettings(content_type=content_type))
    page.open(f"#/blob/{container.container_name}/theirs")
    page.sees("9 × 9" if "svg" in content_type else "<script>", ".panel")
    unharmed(page)
    # Opened by its address it is saved, and never a page of this origin.
    answer = page.run("fetch(document.querySelector('a[download]').href).then((one) => one.headers.get('content-security-policy'))")
    assert "sandbox" in answer


def test_metadata_tags_and_messages(page, container, queues):
    container.upload_blob("b", b"x", metadata={"note": IMAGE}, tags={"a": "+-./:=_ x"})
    page.open(f"#/blob/{container.container_name}/b?tab=Metadata")
    page.wait(lambda: page.run("[...document.querySelectorAll('.pairs input')].some((one) => one.value === arguments[0])", IMAGE), "the value")
    queue = queues.create_queue(fresh_name("q"))
    for text in [SCRIPT, "x" * 5000, "PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg=="]:
        queue.send_message(text)
    page.open(f"#/queue/{queue.queue_name}")
    page.sees(SCRIPT)
    page.sees("<script>alert(1)</script>")
    unharmed(page)
    queue.delete_queue()


def test_entities(page, tables):
    table = tables.create_table(fresh_name("t").replace("-", ""))
    table.create_entity({"PartitionKey": IMAGE, "RowKey": "'; drop--", "Html": IMAGE, "constructor": "c", "Long": "y" * 20000})
    page.open(f"#/table/{table.table_name}")
    page.sees(IMAGE)
    page.click(IMAGE, kind=".grid button")
    page.sees("ETag", "dialog")
    page.click("Save")
    page.sees("Entity saved.")
    kept = table.get_entity(IMAGE, "'; drop--")
    assert (kept["Html"], kept["constructor"], len(kept["Long"])) == (IMAGE, "c", 20000)
    unharmed(page)
    tables.delete_table(table.table_name)


def test_names_of_files(page, shares):
    share = shares.create_share(fresh_name("s"))
    names = ["'quoted' & spaced.txt", "日本語 🎉", "a%41#b;c=d", "z" * 200]
    for name in names:
        share.get_directory_client("").upload_file(name, b"inside")
    page.open(f"#/share/{share.share_name}")
    page.sees("4 entries")
    for name in names:
        page.open(f"#/file/{share.share_name}/{quote(name, safe='')}")
        page.sees("inside", ".panel")
    unharmed(page)
    share.delete_share()


def test_addresses_that_lead_nowhere(page):
    for where in ["#/no-such-page", "#/%", "#/blob/x", "#/blobs/no-such-container", "#/constructor", "#/share/nope?path=a"]:
        page.open(where)
        page.wait(lambda: page.run("document.querySelector('.trouble, .cards') !== null"), f"an answer to {where}")
        page.open("#/queues")
        page.sees("New queue")


def test_no_module_makes_markup_of_text():
    """Elements come from `h` in dom.js alone, and nothing names another host."""
    assets = Path(__file__).resolve().parents[2] / "console" / "assets"
    modules = {path.relative_to(assets).as_posix(): path.read_text() for path in assets.rglob("*.*") if path.suffix in (".js", ".html", ".css")}
    assert len(modules) > 30
    for name, source in modules.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|srcdoc", source), name
        assert "://" not in source, f"{name} names a host"
        assert name == "dom.js" or "createElement" not in source, name
    page = modules["index.html"]
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", page), "the policy allows nothing inline"
