"""One file, reached over SMB and over REST: share modes and delete-pending, seen from both sides. See README.md.

pip install azure-storage-file-share smbprotocol
"""

import os
import uuid

from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import ShareServiceClient
from smbprotocol.connection import Connection
from smbprotocol.file_info import FileDispositionInformation
from smbprotocol.open import (
    CreateDisposition, CreateOptions, FilePipePrinterAccessMask as Right, ImpersonationLevel, Open, SMB2SetInfoRequest, ShareAccess)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
DEFAULT = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};FileEndpoint=http://127.0.0.1:10003/{ACCOUNT};"
SMB_PORT = int(os.environ.get("LAZULI_SMB_PORT", "10445"))

READ_WRITE = Right.FILE_READ_DATA | Right.FILE_WRITE_DATA
OTHERS_MAY = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE


def connect(share):
    """One more SMB client: user and password are the account's name and key."""
    connection = Connection(uuid.uuid4(), "127.0.0.1", SMB_PORT)
    connection.connect()
    session = Session(connection, ACCOUNT, KEY)
    session.connect()
    tree = TreeConnect(session, rf"\\127.0.0.1\{share}")
    tree.connect()
    return tree


def open_file(tree, access, others_may):
    handle = Open(tree, "report.txt")
    handle.create(ImpersonationLevel.Impersonation, access, 0, others_may, CreateDisposition.FILE_OPEN,
                  CreateOptions.FILE_NON_DIRECTORY_FILE)
    return handle


def mark_for_deletion(handle, is_wanted):
    """FileDispositionInformation: the file is to go with its last handle, or is to stay after all."""
    wish = FileDispositionInformation()
    wish["delete_pending"] = is_wanted
    request = SMB2SetInfoRequest()
    request["info_type"], request["file_info_class"] = 1, wish.INFO_CLASS
    request["file_id"], request["buffer"] = handle.file_id, wish
    tree = handle.tree_connect
    sent = handle.connection.send(request, tree.session.session_id, tree.tree_connect_id)
    handle.connection.receive(sent)


def main():
    service = ShareServiceClient.from_connection_string(os.environ.get("AZURE_STORAGE_CONNECTION_STRING", DEFAULT), retry_total=0)
    share = service.create_share(f"story-{uuid.uuid4().hex[:8]}")
    file = share.get_file_client("report.txt")
    file.upload_file(b"all is well")

    def rest(when):
        try:
            print(f"{when}: REST reads {file.download_file().readall().decode()!r}")
        except HttpResponseError as error:
            print(f"{when}: REST is refused with {error.status_code} {getattr(error.error_code, 'value', error.error_code)}")

    first, second, third = (connect(share.share_name) for _ in range(3))
    rest("nobody has it open")

    alone = open_file(first, READ_WRITE, 0)
    rest("an SMB client has it open for itself alone")
    alone.close()
    rest("it is closed")

    holding = open_file(third, Right.FILE_READ_DATA, OTHERS_MAY)
    deleting = open_file(second, Right.DELETE, OTHERS_MAY)
    mark_for_deletion(deleting, True)
    rest("a client has marked it for deletion, another has it open")
    print(f"REST lists {[entry['name'] for entry in share.list_directories_and_files()]}")
    mark_for_deletion(deleting, False)
    rest("the mark is taken back")

    mark_for_deletion(deleting, True)
    deleting.close()
    rest("marked again, the marking handle closed")
    holding.close()
    rest("the last handle is closed")

    share.delete_share()


main()
