"""The story that the article on concurrency tells of files, and the example that tells it again."""

import os
import subprocess
import sys
from pathlib import Path

import smb
from server import connection_string

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "file-two-protocols"


def test_f1_f3_f4_the_story(share, connect, refused):
    """F1, F3, F4: opened for itself alone; marked for deletion, and not; marked again, and gone."""
    first, second, third = connect(), connect(), connect()
    first.make("f", b"one")
    file = share.get_file_client("f")

    def listed():
        return [entry["name"] for entry in share.list_directories_and_files()]

    alone = first.open("f", smb.READ | smb.WRITE, "")
    with refused(409, "SharingViolation"):
        file.download_file()
    with refused(409, "SharingViolation"):
        file.upload_range(b"two", offset=0, length=3)
    with smb.refused("SHARING_VIOLATION"):
        second.open("f", smb.READ, "RWD")
    alone.close()
    assert file.download_file().readall() == b"one"

    holding = third.open("f", smb.READ, "RWD")
    deleting = second.open("f", smb.DELETE, "RWD")
    deleting.mark_for_deletion()
    with refused(409, "SMBDeletePending"):
        file.download_file()
    with refused(409, "SMBDeletePending"):
        file.get_file_properties()
    with refused(409, "SMBDeletePending"):
        file.create_file(3)
    assert listed() == []
    assert holding.read() == b"one"

    deleting.mark_for_deletion(False)
    assert file.download_file().readall() == b"one"
    assert listed() == ["f"]

    deleting.mark_for_deletion()
    deleting.close()
    with refused(409, "SMBDeletePending"):
        file.download_file()
    holding.close()
    with refused(404, "ResourceNotFound"):
        file.download_file()
    assert listed() == []


def test_the_example(server):
    connection = connection_string("http://unused") + f"FileEndpoint={server.endpoint_of('file')};"
    environment = dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=connection, LAZULI_SMB_PORT=str(server.smb_port))
    ran = subprocess.run([sys.executable, str(EXAMPLE / "demo.py")], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == (EXAMPLE / "README.md").read_text().split("```text\n")[1].split("```")[0]
