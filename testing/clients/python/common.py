"""What the Python suites share beside fixtures: clients without retries, names that are new, refusals."""

import itertools
import uuid

from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from azure.storage.fileshare import ShareServiceClient

import server as servers


def client(endpoint, credential=servers.KEY, **options):
    """A service client that shows the first answer instead of trying again."""
    return BlobServiceClient(endpoint, credential=credential, retry_total=0, **options)


def file_client(endpoint, credential=servers.KEY, **options):
    """The same for shares."""
    return ShareServiceClient(endpoint, credential=credential, retry_total=0, **options)


_numbers = itertools.count()


def fresh_name(word="c"):
    return f"{word}{next(_numbers)}-{uuid.uuid4().hex[:12]}"


class Refused:
    """`with refused(412, "ConditionNotMet"):` - the block must fail with this status and this error code."""

    def __init__(self, status, code=None):
        self.status, self.code = status, code

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        assert error is not None, f"was accepted; {self.status} {self.code or ''} was expected"
        if not isinstance(error, HttpResponseError):
            return False
        self.error = error
        code = getattr(error, "error_code", None) or (
            error.response.headers.get("x-ms-error-code") if error.response is not None else None)
        code = getattr(code, "value", code)
        assert error.status_code == self.status, f"{error.status_code} {code}, expected {self.status} {self.code}"
        assert self.code is None or code == self.code, f"{code}, expected {self.code}"
        return True
