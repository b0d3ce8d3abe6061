#!/usr/bin/env python3
"""The command line client, `az storage`, doing what it can with queues, messages, tables, entities, containers and blobs.

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
    for service in ("Blob", "Queue", "Table"):
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


if __name__ == "__main__":
    for part in (queues, tables, containers, blobs):
        part()
    print(f"az storage: {len(done)} commands, {len(set(done))} kinds, all as expected")
