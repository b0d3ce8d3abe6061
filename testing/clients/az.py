#!/usr/bin/env python3
"""The command line client, `az storage`, doing what it can with queues, messages, tables, entities, containers, blobs, shares, directories and files.

    with-server VENV/bin/python testing/clients/az.py

Run by the Python that has azure-cli: commands are called in this process, one start of the program being most of what a
command costs. The connection string is made of the endpoints in the environment.
"""

import io
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(AZURE_CORE_COLLECT_TELEMETRY="no", AZURE_CORE_ONLY_SHOW_ERRORS="yes", AZURE_CORE_NO_COLOR="yes",
                  AZURE_CORE_CHECK_FOR_UPDATES="no", AZURE_CONFIG_DIR=tempfile.mkdtemp(prefix="az-"))
from azure.cli.core import get_default_cli  # noqa: E402

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

OTHER = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"


def connection_string():
    parts = ["DefaultEndpointsProtocol=http", "AccountName=devstoreaccount1", f"AccountKey={KEY}"]
    for service in ("Blob", "Queue", "Table", "File"):
        parts.append(f"{service}Endpoint={os.environ[f'LAZULI_{service.upper()}_ENDPOINT']}")
    return ";".join(parts)


CONNECTION = connection_string()
done = []


def az(words, *more, fails=False):
    """Runs `az storage WORDS...`; gives what it printed, read as JSON."""
    arguments = ["storage", *words.split(), *more, "--connection-string", CONNECTION, "--output", "json"]
    out = io.StringIO()
    try:
        code = get_default_cli().invoke(arguments, out_file=out)
    except SystemExit as leaving:
        code = leaving.code
    if (code != 0) != fails:
        sys.exit(f"az storage {words}: {'went well' if code == 0 else f'failed with {code}'}: {out.getvalue()}")
    done.append(words.split(" --")[0])
    text = out.getvalue().strip()
    return json.loads(text) if text else None


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got!r}, expected {wanted!r}")


def queues():
    expect("created", az("queue create --name jobs --metadata of=az")["created"], True)
    expect("exists", az("queue exists --name jobs")["exists"], True)
    expect("metadata", az("queue metadata show --name jobs"), {"of": "az"})
    az("queue metadata update --name jobs --metadata of=other")
    az("queue policy create --queue-name jobs --name p --permissions rp --expiry 2099-01-01T00:00Z")
    expect("policies", list(az("queue policy list --queue-name jobs")), ["p"])
    az("queue policy delete --queue-name jobs --name p")
    expect("names", [queue["name"] for queue in az("queue list --prefix jo")], ["jobs"])

    for text in ("first", "second & <last>"):
        az("message put --queue-name jobs", "--content", text)
    expect("peeked", [m["content"] for m in az("message peek --queue-name jobs --num-messages 5")],
           ["first", "second & <last>"])
    got = az("message get --queue-name jobs --num-messages 1 --visibility-timeout 60")[0]
    expect("received", got["content"], "first")
    updated = az("message update --queue-name jobs --visibility-timeout 60 --content changed", "--id", got["id"],
                 "--pop-receipt", got["popReceipt"])
    az("message delete --queue-name jobs", "--id", got["id"], "--pop-receipt", got["popReceipt"], fails=True)
    az("message delete --queue-name jobs", "--id", got["id"], "--pop-receipt", updated["popReceipt"])
    az("message clear --queue-name jobs")
    expect("left", az("message peek --queue-name jobs"), [])
    az("queue delete --name jobs")
    expect("exists", az("queue exists --name jobs")["exists"], False)


def tables():
    expect("created", az("table create --name people")["created"], True)
    expect("exists", az("table exists --name people")["exists"], True)
    expect("names", [table["name"] for table in az("table list")], ["people"])
    az("table policy create --table-name people --name p --permissions r --expiry 2099-01-01T00:00Z")
    expect("policies", list(az("table policy list --table-name people")), ["p"])

    az("entity insert --table-name people", "--entity", "PartitionKey=a", "RowKey=1", "Name=O'Neil", "Age=42",
       "Age@odata.type=Edm.Int32")
    az("entity insert --table-name people --if-exists fail", "--entity", "PartitionKey=a", "RowKey=1", fails=True)
    az("entity insert --table-name people --if-exists merge", "--entity", "PartitionKey=a", "RowKey=1", "More=x")
    shown = az("entity show --table-name people --partition-key a --row-key 1")
    expect("merged", (shown["Name"], shown["Age"], shown["More"]), ("O'Neil", 42, "x"))
    az("entity merge --table-name people", "--entity", "PartitionKey=a", "RowKey=1", "More=y")
    az("entity replace --table-name people", "--entity", "PartitionKey=a", "RowKey=1", "Only=z")
    found = az("entity query --table-name people", "--filter", "PartitionKey eq 'a' and Only eq 'z'")["items"]
    expect("found", [("Name" in entity, entity["Only"]) for entity in found], [(False, "z")])
    az("entity delete --table-name people --partition-key a --row-key 1")
    az("entity show --table-name people --partition-key a --row-key 1", fails=True)
    az("table delete --name people")


def containers():
    expect("created", az("container create --name box --metadata of=az")["created"], True)
    expect("created again", az("container create --name box")["created"], False)
    expect("exists", az("container exists --name box")["exists"], True)
    expect("names", [one["name"] for one in az("container list --prefix bo")], ["box"])
    expect("metadata", az("container metadata show --name box"), {"of": "az"})
    az("container metadata update --name box --metadata of=other")
    az("container set-permission --name box --public-access blob")
    expect("public", az("container show-permission --name box")["publicAccess"], "blob")
    az("container policy create --container-name box --name p --permissions r --expiry 2099-01-01T00:00Z")
    expect("policies", list(az("container policy list --container-name box")), ["p"])
    az("container policy delete --container-name box --name p")

    lease = az("container lease acquire --container-name box --lease-duration 60")
    az("container lease renew --container-name box", "--lease-id", lease)
    az("container lease change --container-name box", "--lease-id", lease, "--proposed-lease-id", OTHER)
    az("container delete --name box", fails=True)
    expect("lease", az("container show --name box")["properties"]["lease"]["state"], "leased")
    az("container lease break --container-name box --lease-break-period 0")
    az("container lease acquire --container-name box --lease-duration -1", "--proposed-lease-id", OTHER)
    az("container lease release --container-name box", "--lease-id", OTHER)
    az("container delete --name box")
    expect("exists", az("container exists --name box")["exists"], False)


def blobs():
    az("container create --name files")
    named = "--container-name files --name"
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(bytes(range(256)) * 300)
        az(f"blob upload {named} a/b", "--file", str(source))
        az(f"blob upload {named} a/b", "--file", str(source), fails=True)
        az(f"blob upload {named} a/b --overwrite --metadata of=az --content-type text/plain", "--file", str(source))
        az(f"blob download {named} a/b", "--file", str(target))
        expect("content", target.read_bytes() == source.read_bytes(), True)
        az(f"blob download {named} a/b --start-range 256 --end-range 511 --overwrite", "--file", str(target))
        expect("a part", target.read_bytes(), bytes(range(256)))

        for _ in range(2):
            az(f"blob upload {named} log --type append", "--file", str(source))
        shown = az(f"blob show {named} log")
        expect("appended", (shown["properties"]["blobType"], shown["properties"]["contentLength"]), ("AppendBlob", 2 * 76_800))

        # Beyond what goes in one request: the client makes blocks of it.
        with open(Path(folder, "large"), "wb") as large:
            large.truncate(70 << 20)
        az(f"blob upload {named} large --max-connections 4", "--file", str(Path(folder, "large")))
        expect("size", az(f"blob show {named} large")["properties"]["contentLength"], 70 << 20)
        az(f"blob delete {named} large")

        tree = Path(folder, "tree")
        for name in ("1.txt", "2.txt", "dir/3.txt", "other"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name)
        az("blob upload-batch --destination files --destination-path tree", "--source", str(tree))
        (tree / "back").mkdir()
        az("blob download-batch --source files --pattern tree/*.txt", "--destination", str(tree / "back"))
        expect("downloaded", sorted(path.read_text() for path in (tree / "back").rglob("*.txt")), ["1.txt", "2.txt", "dir/3.txt"])
        az("blob delete-batch --source files --pattern tree/*")
    expect("names", [blob["name"] for blob in az("blob list --container-name files")], ["a/b", "log"])
    expect("names", [blob["name"] for blob in az("blob list --container-name files --prefix a/")], ["a/b"])
    expect("exists", [az(f"blob exists {named} {name}")["exists"] for name in ("a/b", "absent")], [True, False])

    # Left to itself it looks for the source in the cloud, whatever the connection string says.
    to = "--destination-container files --destination-blob copy"
    az(f"blob copy start {to}", "--source-uri", f"{os.environ['LAZULI_BLOB_ENDPOINT']}/files/a/b")
    shown = az(f"blob show {named} copy")["properties"]["copy"]
    expect("copied", shown["status"], "success")
    az(f"blob copy cancel {to}", "--copy-id", shown["id"], fails=True)
    az(f"blob delete {named} copy")

    expect("metadata", az(f"blob metadata show {named} a/b"), {"of": "az"})
    az(f"blob metadata update {named} a/b --metadata k=v")
    expect("metadata", az(f"blob metadata show {named} a/b"), {"k": "v"})
    az(f"blob update {named} a/b --content-type a/b --content-language de")
    settings = az(f"blob show {named} a/b")["properties"]["contentSettings"]
    expect("properties", (settings["contentType"], settings["contentLanguage"]), ("a/b", "de"))

    leased = "--container-name files --blob-name a/b"
    lease = az(f"blob lease acquire {leased} --lease-duration 15")
    az(f"blob lease acquire {leased}", fails=True)
    az(f"blob lease renew {leased}", "--lease-id", lease)
    az(f"blob lease change {leased}", "--lease-id", lease, "--proposed-lease-id", OTHER)
    az(f"blob metadata update {named} a/b --metadata k=w", fails=True)
    az(f"blob metadata update {named} a/b --metadata k=w", "--lease-id", OTHER)
    az(f"blob delete {named} a/b", fails=True)
    az(f"blob lease break {leased} --lease-break-period 0")
    lease = az(f"blob lease acquire {leased} --lease-duration -1")
    az(f"blob lease release {leased}", "--lease-id", lease)
    az(f"blob delete {named} a/b")
    az("container delete --name files")


def shares():
    expect("created", az("share create --name stuff --quota 10 --metadata of=az")["created"], True)
    expect("created again", az("share create --name stuff")["created"], False)
    expect("exists", [az(f"share exists --name {name}")["exists"] for name in ("stuff", "absent")], [True, False])
    expect("names", [one["name"] for one in az("share list --prefix st")], ["stuff"])
    expect("quota", az("share show --name stuff")["properties"]["quota"], 10)
    az("share update --name stuff --quota 11")
    expect("metadata", az("share metadata show --name stuff"), {"of": "az"})
    az("share metadata update --name stuff --metadata of=other")
    expect("used", az("share stats --name stuff"), "1")  # GiB, and nothing is one to it
    az("share policy create --share-name stuff --name p --permissions rl --expiry 2099-01-01T00:00Z")
    expect("policies", list(az("share policy list --share-name stuff")), ["p"])
    az("share policy delete --share-name stuff --name p")
    expect("handles", az("share list-handle --name stuff --recursive")["items"], [])
    az("share close-handle --name stuff --close-all --recursive")
    taken = az("share snapshot --name stuff")["snapshot"]
    expect("snapshots", [one.get("snapshot") for one in az("share list --prefix st --include-snapshots")], [taken, None])
    az("share delete --name stuff", fails=True)
    az("share delete --name stuff --delete-snapshots include")
    expect("exists", az("share exists --name stuff")["exists"], False)


def directories():
    az("share create --name tree")
    named = "--share-name tree --name"
    expect("created", az(f"directory create {named} dir --metadata of=az")["created"], True)
    expect("created again", az(f"directory create {named} dir")["created"], False)
    az(f"directory create {named} absent/dir", fails=True)
    expect("exists", [az(f"directory exists {named} {name}")["exists"] for name in ("dir", "absent")], [True, False])
    expect("metadata", az(f"directory metadata show {named} dir"), {"of": "az"})
    az(f"directory metadata update {named} dir --metadata k=v")
    shown = az(f"directory show {named} dir")
    expect("shown", (shown["name"], shown["metadata"], shown["properties"].get("contentLength")), ("dir", {"k": "v"}, None))
    for name in ("dir/sub", "dir/other"):
        az(f"directory create {named} {name}")
    expect("names", [one["name"] for one in az("directory list --share-name tree --name dir")], ["other", "sub"])
    az(f"directory delete {named} dir", fails=True)
    for name in ("dir/sub", "dir/other", "dir"):
        expect("deleted", az(f"directory delete {named} {name}")["deleted"], True)
    az("share delete --name tree")


def files():
    az("share create --name papers")
    az("directory create --share-name papers --name dir")
    at = "--share-name papers --path"
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(bytes(range(256)) * 300)
        # A name without a dot would be the directory.
        az("file upload --share-name papers --path dir/f.bin --metadata of=az --content-type text/plain", "--source", str(source))
        az(f"file download {at} dir/f.bin", "--dest", str(target))
        expect("content", target.read_bytes() == source.read_bytes(), True)
        az(f"file download {at} dir/f.bin --start-range 256 --end-range 511", "--dest", str(target))
        expect("a part", target.read_bytes(), bytes(range(256)))
        with open(Path(folder, "large"), "wb") as large:
            large.truncate(9_000_000)
            large.write(b"beginning")
        az("file upload --share-name papers --max-connections 4", "--source", str(Path(folder, "large")))
        expect("size", az(f"file show {at} large")["properties"]["contentLength"], 9_000_000)
        az(f"file resize {at} large --size 1000")
        az(f"file download {at} large", "--dest", str(target))
        expect("shortened", target.read_bytes(), b"beginning" + bytes(991))

        tree = Path(folder, "tree")
        for name in ("1.txt", "2.txt", "dir/3.txt", "dir/deep/4.txt", "other"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name)
        az("file upload-batch --destination papers --destination-path tree", "--source", str(tree))
        (tree / "back").mkdir()
        az("file download-batch --source papers --pattern tree/*.txt", "--destination", str(tree / "back"))
        expect("downloaded", sorted(path.read_text() for path in (tree / "back").rglob("*.txt")), ["1.txt", "2.txt", "dir/3.txt", "dir/deep/4.txt"])
    expect("names", sorted(one["name"] for one in az("file list --share-name papers")), ["dir", "large", "tree"])
    expect("files alone", [one["name"] for one in az("file list --share-name papers --exclude-dir")], ["large"])
    az("file delete-batch --source papers --pattern tree/dir/*")
    expect("left", sorted(one["name"] for one in az("file list --share-name papers --path tree --exclude-dir")), ["1.txt", "2.txt", "other"])
    expect("exists", [az(f"file exists {at} {name}")["exists"] for name in ("dir/f.bin", "absent")], [True, False])

    # Left to itself it looks for the source in the cloud, whatever the connection string says.
    to = "--destination-share papers --destination-path copy"
    started = az(f"file copy start {to}", "--source-uri", f"{os.environ['LAZULI_FILE_ENDPOINT']}/papers/dir/f.bin")
    expect("copied", started["status"], "success")
    az(f"file copy cancel {to}", "--copy-id", started["id"], fails=True)
    expect("metadata", az(f"file metadata show {at} copy"), {"of": "az"})
    az(f"file metadata update {at} copy --metadata k=v")
    expect("metadata", az(f"file metadata show {at} copy"), {"k": "v"})
    az(f"file update {at} copy --content-type a/b --content-language de")
    settings = az(f"file show {at} copy")["properties"]["contentSettings"]
    expect("properties", (settings["contentType"], settings["contentLanguage"]), ("a/b", "de"))
    taken = az("share snapshot --name papers")["snapshot"]
    az(f"file delete {at} copy")
    expect("exists", az(f"file exists {at} copy")["exists"], False)
    expect("in the snapshot", az(f"file exists {at} copy", "--snapshot", taken)["exists"], True)
    az("share delete --name papers --delete-snapshots include")


if __name__ == "__main__":
    for part in (queues, tables, containers, blobs, shares, directories, files):
        part()
    print(f"az storage: {len(done)} commands, {len(set(done))} kinds, all as expected")
