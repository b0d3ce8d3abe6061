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


def blobs():
    az("container create --name files --metadata of=az")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(bytes(range(256)) * 300)
        az("blob upload --container-name files --name a/b", "--file", str(source))
        az("blob upload --container-name files --name a/b", "--file", str(source), fails=True)
        az("blob download --container-name files --name a/b", "--file", str(target))
        expect("content", target.read_bytes() == source.read_bytes(), True)
    expect("names", [blob["name"] for blob in az("blob list --container-name files --prefix a/")], ["a/b"])
    az("blob metadata update --container-name files --name a/b --metadata k=v")
    expect("metadata", az("blob metadata show --container-name files --name a/b"), {"k": "v"})
    lease = az("blob lease acquire --container-name files --blob-name a/b --lease-duration 15")
    az("blob delete --container-name files --name a/b", fails=True)
    az("blob lease release --container-name files --blob-name a/b", "--lease-id", lease)
    az("blob delete --container-name files --name a/b")
    az("container delete --name files")


if __name__ == "__main__":
    for part in (queues, tables, blobs):
        part()
    print(f"az storage: {len(done)} commands, {len(set(done))} kinds, all as expected")
