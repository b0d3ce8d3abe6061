"""DefaultAzureCredential, a blob, a user delegation key, and a SAS made with it. See README.md."""

import base64
import json
import os
import uuid
from datetime import datetime, timedelta, timezone

from azure.core.exceptions import HttpResponseError
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobClient, BlobSasPermissions, BlobServiceClient, generate_blob_sas

ENDPOINT = os.environ.get("BLOB_ENDPOINT", "https://127.0.0.1:10000/devstoreaccount1")

credential = DefaultAzureCredential()
claims = credential.get_token("https://storage.azure.com/.default").token.split(".")[1]
print("signed in; the token is for", json.loads(base64.urlsafe_b64decode(claims + "=="))["aud"].rstrip("/"))

service = BlobServiceClient(ENDPOINT, credential=credential)
container = service.create_container(f"demo-{uuid.uuid4()}")
blob = container.upload_blob("hello.txt", b"hello")
print("uploaded", blob.blob_name)
print("read it back:", blob.download_blob().readall().decode())

now = datetime.now(timezone.utc)
key = service.get_user_delegation_key(now - timedelta(minutes=5), now + timedelta(hours=1))
account = ENDPOINT.rstrip("/").rsplit("/", 1)[-1].split(".")[0]
sas = generate_blob_sas(account, container.container_name, blob.blob_name, user_delegation_key=key,
                        permission=BlobSasPermissions(read=True), expiry=now + timedelta(minutes=30))
print("got a user delegation key, and made a SAS that reads")
shared = BlobClient.from_blob_url(f"{blob.url}?{sas}")
print("read with the SAS alone:", shared.download_blob().readall().decode())
try:
    shared.upload_blob(b"other", overwrite=True)
except HttpResponseError as refused:
    print("writing with it is refused:", refused.status_code, refused.error_code.value if hasattr(refused.error_code, "value") else refused.error_code)
container.delete_container()
