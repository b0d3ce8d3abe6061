"""Names that several threads try to create at once with If-None-Match: *. At most one may be told it won."""

import hashlib
from collections import defaultdict, namedtuple

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import BlobServiceClient

from server import KEY

WON, LOST, IN_FLIGHT = "won", "lost", "in flight"

Attempt = namedtuple("Attempt", "name outcome hash etag")


def attempt(container, name, who, gone):
    body = f"{name} by {who}\n".encode() * 200
    digest = hashlib.sha256(body).digest()
    try:
        answer = container.get_blob_client(name).upload_blob(
            body, overwrite=True, match_condition=MatchConditions.IfMissing)
        return Attempt(name, WON, digest, answer["etag"])
    except ResourceExistsError:
        return Attempt(name, LOST, digest, None)
    except gone:
        return Attempt(name, IN_FLIGHT, digest, None)


def judge(endpoint, container, attempts):
    """Sentences about what is wrong."""
    by_name = defaultdict(list)
    for one in attempts:
        by_name[one.name].append(one)
    problems = []
    with BlobServiceClient(endpoint, credential=KEY, retry_total=0) as service:
        for name, tried in by_name.items():
            won = [one for one in tried if one.outcome == WON]
            lost = [one for one in tried if one.outcome == LOST]
            possible = won or [one for one in tried if one.outcome == IN_FLIGHT]
            if len(won) > 1:
                problems.append(f"{name}: {len(won)} were told they created it")
            try:
                answer = service.get_blob_client(container, name).download_blob()
                found, etag = hashlib.sha256(answer.readall()).digest(), answer.properties.etag
            except HttpResponseError as error:
                if error.status_code != 404:
                    problems.append(f"{name}: reading it gave {error.status_code}")
                elif won:
                    problems.append(f"{name}: created and acknowledged, and gone")
                elif lost:
                    problems.append(f"{name}: someone was told it exists, and it does not")
                continue
            if found not in [one.hash for one in possible]:
                problems.append(f"{name}: the content is of none who may have created it")
            if won and etag != won[0].etag:
                problems.append(f"{name}: ETag {etag} instead of {won[0].etag}")
    return problems
