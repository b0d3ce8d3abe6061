"""How the programs of this example find the queue."""

import os

from azure.storage.queue import QueueClient

DEVELOPMENT = "UseDevelopmentStorage=true"
# What the shortcut stands for; the Python client has to be told.
SPELLED_OUT = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
    "QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;"
)


def connect(name):
    connection = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", DEVELOPMENT)
    return QueueClient.from_connection_string(SPELLED_OUT if connection == DEVELOPMENT else connection, name)
