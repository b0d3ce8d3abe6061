"""One request for each built operation of blobs, queues and tables, by which this server and the peer are held side by side.

Which operation a request is, the server itself says (it logs what it answered); that it succeeds there is a test. What the peer answers to
the very same request is what the tables say of it. Nothing here knows what the answer will be.

Names in braces are filled in: {c} a container with blob `b`, {q} a queue with a message, {t} a table with entity ('p', 'r'), {here} the
address of the Blob service, {sas} a token that reads, and whatever a step before has found.
"""

import base64
import hashlib
import hmac
import http.client
import re
import time
import urllib.parse
import uuid
from email.utils import formatdate

from server import ACCOUNT, KEY

VERSION = "2025-05-05"
LEASE = "01234567-89ab-cdef-0123-456789abcdef"
JSON = {"Accept": "application/json;odata=minimalmetadata", "Content-Type": "application/json"}
PROPERTIES = ("<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins><AllowedMethods>PUT,GET</AllowedMethods>"
              "<MaxAgeInSeconds>60</MaxAgeInSeconds><ExposedHeaders>x-ms-*</ExposedHeaders><AllowedHeaders>x-ms-*</AllowedHeaders></CorsRule></Cors>%s</StorageServiceProperties>")
KEEPING = PROPERTIES % "<DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days></DeleteRetentionPolicy>"
PUT = {"x-ms-blob-type": "BlockBlob"}
APPEND = ("blob", "PUT {c}/b", {"x-ms-blob-type": "AppendBlob"})
PAGE = ("blob", "PUT {c}/b", {"x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "1024"})
PAGES = {"x-ms-page-write": "update", "x-ms-range": "bytes=0-511"}
SNAPSHOT = ("blob", "PUT {c}/b?comp=snapshot", {}, "", {"snapshot": "x-ms-snapshot"})
NEW = ("blob", "PUT {c}-new?restype=container")  # where there are blobs in it, an account with immutable storage deletes none
GONE = ("blob", "DELETE {c}/b")
SOURCE = {"x-ms-copy-source": "{here}/{c}/source?{sas}"}
MESSAGE = "<QueueMessage><MessageText>hello</MessageText></QueueMessage>"
RECEIVED = ("queue", "GET {q}/messages", {}, "", {"id": "<MessageId>(.*?)<", "receipt": "<PopReceipt>(.*?)<"})
ENTITY = "{t}(PartitionKey='p',RowKey='r')"
HELD = {"x-ms-lease-id": LEASE}
# What cannot be asked so plainly: a token of a directory and https; a copy that is still pending.
NOT_ASKED = {"GetBlobUserDelegationKey", "GetQueueUserDelegationKey", "AbortCopyBlob"}


def _preflight(path):
    return f"OPTIONS {path}", {"Origin": "http://page", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-ms-date"}


def _leases(kind, target):
    """The five, each with its own headers and whether the thing is leased before."""
    def step(action, **headers):
        return ("blob", f"PUT {target}comp=lease", {"x-ms-lease-action": action} | {name.replace("_", "-"): value for name, value in headers.items()})

    acquire = step("acquire", x_ms_lease_duration="-1", x_ms_proposed_lease_id=LEASE)
    other = LEASE.replace("0", "1")
    return {
        f"Acquire{kind}Lease": [acquire],
        f"Renew{kind}Lease": [acquire, step("renew", x_ms_lease_id=LEASE)],
        f"Change{kind}Lease": [acquire, step("change", x_ms_lease_id=LEASE, x_ms_proposed_lease_id=other)],
        f"Release{kind}Lease": [acquire, step("release", x_ms_lease_id=LEASE)],
        f"Break{kind}Lease": [acquire, step("break", x_ms_lease_break_period="5")],
    }


def _batch(part, **more):
    return f"--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n{part}\r\n\r\n--b--\r\n"


# Operation: the steps that lead to it, the last of which is the one. A step is service, line, headers, body, what to find in the answer.
PROBES = {
    "PreflightBlob": [("blob", "PUT ?restype=service&comp=properties", {}, KEEPING), ("blob", *_preflight("{c}/b"))],
    "SetBlobServiceProperties": [("blob", "PUT ?restype=service&comp=properties", {}, KEEPING)],
    "GetBlobServiceProperties": [("blob", "GET ?restype=service&comp=properties")],
    "GetBlobServiceStats": [("blob-secondary", "GET ?restype=service&comp=stats")],
    "GetAccountInformation": [("blob", "GET ?restype=account&comp=properties")],
    "GetContainerAccountInformation": [("blob", "GET {c}?restype=account&comp=properties")],
    "GetBlobAccountInformation": [("blob", "GET {c}/b?restype=account&comp=properties")],
    "SubmitBatch": [("blob", "POST ?comp=batch", {"Content-Type": "multipart/mixed; boundary=b"}, _batch("{part}"))],
    "SubmitContainerBatch": [("blob", "POST {c}?restype=container&comp=batch", {"Content-Type": "multipart/mixed; boundary=b"}, _batch("{part}"))],
    "FindBlobsByTags": [("blob", "GET ?comp=blobs&where=a%20%3D%20%271%27")],
    "FindBlobsByTagsInContainer": [("blob", "GET {c}?restype=container&comp=blobs&where=a%20%3D%20%271%27")],
    "ListContainers": [("blob", "GET ?comp=list")],
    "CreateContainer": [("blob", "PUT {c}-new?restype=container")],
    "GetContainerProperties": [("blob", "GET {c}?restype=container")],
    "GetContainerMetadata": [("blob", "GET {c}?restype=container&comp=metadata")],
    "SetContainerMetadata": [("blob", "PUT {c}?restype=container&comp=metadata", {"x-ms-meta-a": "1"})],
    "GetContainerAcl": [("blob", "GET {c}?restype=container&comp=acl")],
    "SetContainerAcl": [("blob", "PUT {c}?restype=container&comp=acl", {"x-ms-blob-public-access": "blob"})],
    **_leases("Container", "{c}?restype=container&"),
    "DeleteContainer": [NEW, ("blob", "DELETE {c}-new?restype=container")],
    "RestoreContainer": [
        NEW, ("blob", "DELETE {c}-new?restype=container"),
        ("blob", "GET ?comp=list&include=deleted&prefix={c}-new", {}, "", {"deleted": "<Version>(.*?)<"}),
        ("blob", "PUT {c}-new?restype=container&comp=undelete", {"x-ms-deleted-container-name": "{c}-new", "x-ms-deleted-container-version": "{deleted}"})],
    "ListBlobs": [("blob", "GET {c}?restype=container&comp=list")],
    "PutBlockBlob": [("blob", "PUT {c}/b", PUT, "other")],
    "PutBlobFromUrl": [("blob", "PUT {c}/new", PUT | SOURCE)],
    "PutAppendBlob": [GONE, APPEND],
    "PutPageBlob": [GONE, PAGE],
    "CopyBlob": [("blob", "PUT {c}/new", SOURCE)],
    "CopyBlobFromUrl": [("blob", "PUT {c}/new", SOURCE | {"x-ms-requires-sync": "true"})],
    "IncrementalCopyBlob": [GONE, PAGE, SNAPSHOT,
                            ("blob", "PUT {c}/new?comp=incrementalcopy", {"x-ms-copy-source": "{here}/{c}/b?snapshot={snapshot}&{sas}"})],
    "GetBlob": [("blob", "GET {c}/b")],
    "GetBlobProperties": [("blob", "HEAD {c}/b")],
    "GetBlobMetadata": [("blob", "GET {c}/b?comp=metadata")],
    "SetBlobMetadata": [("blob", "PUT {c}/b?comp=metadata", {"x-ms-meta-a": "1"})],
    "SetBlobProperties": [("blob", "PUT {c}/b?comp=properties", {"x-ms-blob-content-type": "text/plain"})],
    "DeleteBlob": [("blob", "DELETE {c}/b")],
    "UndeleteBlob": [("blob", "PUT ?restype=service&comp=properties", {}, KEEPING), GONE, ("blob", "PUT {c}/b?comp=undelete")],
    "SnapshotBlob": [("blob", "PUT {c}/b?comp=snapshot")],
    "SetBlobTier": [("blob", "PUT {c}/b?comp=tier", {"x-ms-access-tier": "Cool"})],
    "GetBlobTags": [("blob", "GET {c}/b?comp=tags")],
    "SetBlobTags": [("blob", "PUT {c}/b?comp=tags", {"Content-Type": "application/xml"}, "<?xml version=\"1.0\" encoding=\"utf-8\"?><Tags><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tags>")],
    "SetBlobImmutabilityPolicy": [("blob", "PUT {c}/b?comp=immutabilityPolicies", {"x-ms-immutability-policy-until-date": "Fri, 02 Jan 2099 00:00:00 GMT"})],
    "DeleteBlobImmutabilityPolicy": [("blob", "DELETE {c}/b?comp=immutabilityPolicies")],
    "SetBlobLegalHold": [("blob", "PUT {c}/b?comp=legalhold", {"x-ms-legal-hold": "true"})],
    "SetBlobExpiry": [("blob", "PUT {c}/b?comp=expiry", {"x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": "600000"})],
    **_leases("Blob", "{c}/b?"),
    "PutBlock": [("blob", "PUT {c}/b?comp=block&blockid=YQ%3D%3D", {}, "block")],
    "PutBlockFromUrl": [("blob", "PUT {c}/b?comp=block&blockid=YQ%3D%3D", SOURCE)],
    "PutBlockList": [("blob", "PUT {c}/b?comp=block&blockid=YQ%3D%3D", {}, "block"),
                     ("blob", "PUT {c}/b?comp=blocklist", {}, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><Latest>YQ==</Latest></BlockList>")],
    "GetBlockList": [("blob", "GET {c}/b?comp=blocklist&blocklisttype=all")],
    "AppendBlock": [GONE, APPEND, ("blob", "PUT {c}/b?comp=appendblock", {}, "more")],
    "AppendBlockFromUrl": [GONE, APPEND, ("blob", "PUT {c}/b?comp=appendblock", SOURCE)],
    "SealAppendBlob": [GONE, APPEND, ("blob", "PUT {c}/b?comp=seal")],
    "PutPages": [GONE, PAGE, ("blob", "PUT {c}/b?comp=page", PAGES, "p" * 512)],
    "PutPagesFromUrl": [GONE, PAGE, ("blob", "PUT {c}/b?comp=page", PAGES | SOURCE | {"x-ms-source-range": "bytes=0-511"})],
    "ClearPages": [GONE, PAGE, ("blob", "PUT {c}/b?comp=page", {"x-ms-page-write": "clear", "x-ms-range": "bytes=0-511"})],
    "GetPageRanges": [GONE, PAGE, ("blob", "GET {c}/b?comp=pagelist")],
    "GetPageRangesDiff": [GONE, PAGE, SNAPSHOT, ("blob", "GET {c}/b?comp=pagelist&prevsnapshot={snapshot}")],
    "GetPageRangesDiffByUrl": [GONE, PAGE, SNAPSHOT,
                               ("blob", "GET {c}/b?comp=pagelist", {"x-ms-previous-snapshot-url": "{here}/{c}/b?snapshot={snapshot}"})],
    "PreflightQueue": [("queue", "PUT ?restype=service&comp=properties", {}, PROPERTIES % ""), ("queue", *_preflight("{q}"))],
    "SetQueueServiceProperties": [("queue", "PUT ?restype=service&comp=properties", {}, PROPERTIES % "")],
    "GetQueueServiceProperties": [("queue", "GET ?restype=service&comp=properties")],
    "GetQueueServiceStats": [("queue-secondary", "GET ?restype=service&comp=stats")],
    "ListQueues": [("queue", "GET ?comp=list")],
    "CreateQueue": [("queue", "PUT {q}-new")],
    "DeleteQueue": [("queue", "DELETE {q}")],
    "GetQueueMetadata": [("queue", "GET {q}?comp=metadata")],
    "SetQueueMetadata": [("queue", "PUT {q}?comp=metadata", {"x-ms-meta-a": "1"})],
    "GetQueueAcl": [("queue", "GET {q}?comp=acl")],
    "SetQueueAcl": [("queue", "PUT {q}?comp=acl", {}, "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers></SignedIdentifiers>")],
    "PutMessage": [("queue", "POST {q}/messages", {}, MESSAGE)],
    "GetMessages": [("queue", "GET {q}/messages")],
    "PeekMessages": [("queue", "GET {q}/messages?peekonly=true")],
    "ClearMessages": [("queue", "DELETE {q}/messages")],
    "UpdateMessage": [RECEIVED, ("queue", "PUT {q}/messages/{id}?popreceipt={receipt}&visibilitytimeout=10", {}, MESSAGE)],
    "DeleteMessage": [RECEIVED, ("queue", "DELETE {q}/messages/{id}?popreceipt={receipt}")],
    "PreflightTable": [("table", "PUT ?restype=service&comp=properties", {}, PROPERTIES % ""), ("table", *_preflight("{t}"))],
    "SetTableServiceProperties": [("table", "PUT ?restype=service&comp=properties", {}, PROPERTIES % "")],
    "GetTableServiceProperties": [("table", "GET ?restype=service&comp=properties")],
    "GetTableServiceStats": [("table-secondary", "GET ?restype=service&comp=stats")],
    "QueryTables": [("table", "GET Tables", JSON)],
    "CreateTable": [("table", "POST Tables", JSON, '{"TableName":"{t}new"}')],
    "GetTable": [("table", "GET Tables('{t}')", JSON)],
    "DeleteTable": [("table", "DELETE Tables('{t}')", JSON)],
    "GetTableAcl": [("table", "GET {t}?comp=acl")],
    "SetTableAcl": [("table", "PUT {t}?comp=acl", {}, "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers></SignedIdentifiers>")],
    "QueryEntities": [("table", "GET {t}()", JSON)],
    "InsertEntity": [("table", "POST {t}", JSON, '{"PartitionKey":"p","RowKey":"other"}')],
    "GetEntity": [("table", f"GET {ENTITY}", JSON)],
    "UpdateEntity": [("table", f"PUT {ENTITY}", JSON | {"If-Match": "*"}, '{"PartitionKey":"p","RowKey":"r","A":1}')],
    "InsertOrReplaceEntity": [("table", f"PUT {ENTITY}", JSON, '{"PartitionKey":"p","RowKey":"r","A":1}')],
    "MergeEntity": [("table", f"PATCH {ENTITY}", JSON | {"If-Match": "*"}, '{"PartitionKey":"p","RowKey":"r","A":1}')],
    "InsertOrMergeEntity": [("table", f"PATCH {ENTITY}", JSON, '{"PartitionKey":"p","RowKey":"r","A":1}')],
    "DeleteEntity": [("table", f"DELETE {ENTITY}", JSON | {"If-Match": "*"})],
    "SubmitTransaction": [("table", "POST $batch", {"Content-Type": "multipart/mixed; boundary=batch_b"},
                           "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
                           "POST {tables}/{t} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\r\n"
                           '{"PartitionKey":"p","RowKey":"batched"}\r\n--changeset_c--\r\n--batch_b--\r\n')],
}


SOON = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "15", "x-ms-proposed-lease-id": LEASE}
# What the service documents for requests that are refused, or that ask for more than a plain write: in words, as documented, the steps.
BEHAVIOURS = [
    ("a blob that is not there, under `If-Match`", "404 BlobNotFound", [("blob", "GET {c}/none", {"If-Match": '"0x1"'})]),
    ("a range behind the end of a blob", "416 InvalidRange", [("blob", "GET {c}/b", {"x-ms-range": "bytes=100-200"})]),
    ("a page blob where a block blob is", "409 InvalidBlobType", [PAGE]),
    ("a lease id that is no GUID", "400 InvalidHeaderValue", [("blob", "PUT {c}/b?comp=lease", SOON | {"x-ms-proposed-lease-id": "mine"})]),
    ("a write with the id of a lease that was broken", "412 LeaseLost", [
        ("blob", "PUT {c}/b?comp=lease", SOON),
        ("blob", "PUT {c}/b?comp=lease", {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"}),
        ("blob", "PUT {c}/b", PUT | HELD, "new")]),
    ("an append at a position that is not the end", "412 AppendPositionConditionNotMet", [
        GONE, APPEND, ("blob", "PUT {c}/b?comp=appendblock", {"x-ms-blob-condition-appendpos": "5"}, "more")]),
    ("an append to a blob that was sealed", "409 BlobIsSealed", [
        GONE, APPEND, ("blob", "PUT {c}/b?comp=seal"), ("blob", "PUT {c}/b?comp=appendblock", {}, "more")]),
    ("a body whose CRC64 is another", "400 Crc64Mismatch", [("blob", "PUT {c}/b", PUT | {"x-ms-content-crc64": "AAAAAAAAAAA="}, "new")]),
    ("metadata of more than 8 KiB", "400 MetadataTooLarge", [("blob", "PUT {c}/b?comp=metadata", {f"x-ms-meta-a{n}": "x" * 1000 for n in range(9)})]),
    ("a page of no results", "400 OutOfRangeQueryParameterValue", [("blob", "GET {c}?restype=container&comp=list&maxresults=0")]),
    ("a request that is an hour old", "403 AuthenticationFailed", [("blob", "GET {c}/b", {"x-ms-date": "{an hour ago}"})]),
    ("a blob that was deleted, restored and read, where deleted ones are kept", "200", [
        ("blob", "PUT ?restype=service&comp=properties", {}, KEEPING), GONE, ("blob", "PUT {c}/b?comp=undelete"), ("blob", "GET {c}/b")]),
    ("an entity written under a stale ETag", "412 UpdateConditionNotSatisfied", [
        ("table", f"PUT {ENTITY}", JSON | {"If-Match": "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""}, '{"PartitionKey":"p","RowKey":"r"}')]),
    ("a message deleted with a receipt that is not its newest", "404 MessageNotFound", [
        RECEIVED, ("queue", "PUT {q}/messages/{id}?popreceipt={receipt}&visibilitytimeout=10", {}, MESSAGE),
        ("queue", "DELETE {q}/messages/{id}?popreceipt={receipt}")]),
]


def _mac(text):
    return base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()


def account_sas():
    text = f"{ACCOUNT}\nr\nb\nsco\n\n2099-01-01T00:00:00Z\n\n\n2021-12-02\n\n"
    return f"sv=2021-12-02&ss=b&srt=sco&sp=r&se=2099-01-01T00%3A00%3A00Z&sig={urllib.parse.quote(_mac(text), safe='')}"


class Peer:
    """A running server that is asked, with the account's key."""

    def __init__(self, ports):
        self.ports = ports

    def address(self, service):
        return f"http://127.0.0.1:{self.ports[service]}/{ACCOUNT}"

    def signed(self, service, method, path, headers, length, account):
        resource, _, query = path.partition("?")
        # Without an emulator's address the account is there once; here it is part of the path as well.
        named = f"/{ACCOUNT}/{account}/{resource}" if resource else f"/{ACCOUNT}/{account}"
        if not resource:
            named = f"/{ACCOUNT}/{account}/"
        if service == "table":
            comp = [part for part in query.split("&") if part.startswith("comp=")]
            text = f"{headers['x-ms-date']}\n{named}{'?' + comp[0] if comp else ''}"
            return f"SharedKeyLite {ACCOUNT}:{_mac(text)}"
        lower = {name.lower(): value for name, value in headers.items()}
        lines = [method, "", "", str(length) if length else "", "", lower.get("content-type", ""), "", "", lower.get("if-match", ""), "", "", ""]
        lines += sorted(f"{name}:{value}" for name, value in lower.items() if name.startswith("x-ms-"))
        lines.append(named)
        lines += sorted(f"{name}:{urllib.parse.unquote(value)}" for name, _, value in (part.partition("=") for part in query.split("&") if part))
        return f"SharedKey {ACCOUNT}:{_mac(chr(10).join(lines))}"

    def send(self, service, line, headers=None, body=""):
        """Status, headers, text."""
        service, secondary, _ = service.partition("-secondary")
        account = ACCOUNT + secondary
        method, _, path = line.partition(" ")
        data = body.encode()
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION} | dict(headers or {})
        if method in ("PUT", "POST", "PATCH"):
            headers["Content-Length"] = str(len(data))
        if method != "OPTIONS":
            headers["Authorization"] = self.signed(service, method, path, headers, len(data), account)
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[service], timeout=60)
        try:
            connection.request(method, f"/{account}/{path}", body=data or None, headers=headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def world(self):
        """What the probe's names stand for, made new."""
        name = uuid.uuid4().hex[:12]
        told = {"c": f"c{name}", "q": f"q{name}", "t": f"t{name}", "here": self.address("blob"), "tables": self.address("table"), "sas": account_sas()}
        told["an hour ago"] = formatdate(time.time() - 3600, usegmt=True)
        target = f"/{ACCOUNT}/{told['c']}/b"
        date = formatdate(usegmt=True)
        signature = _mac(f"DELETE\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{VERSION}\n/{ACCOUNT}{target}")
        told["part"] = (f"DELETE {target} HTTP/1.1\r\nx-ms-date: {date}\r\nx-ms-version: {VERSION}\r\n"
                        f"Authorization: SharedKey {ACCOUNT}:{signature}\r\nContent-Length: 0\r\n")
        for step in (("blob", f"PUT {told['c']}?restype=container"), ("blob", f"PUT {told['c']}/b", PUT, "content"),
                     ("blob", f"PUT {told['c']}/source", PUT, "s" * 1024), ("queue", f"PUT {told['q']}"),
                     ("queue", f"POST {told['q']}/messages", {}, MESSAGE), ("table", "POST Tables", JSON, f'{{"TableName":"{told["t"]}"}}'),
                     ("table", f"POST {told['t']}", JSON, '{"PartitionKey":"p","RowKey":"r"}')):
            status, _, text = self.send(*step)
            assert status == 201, f"{step}: {status} {text}"
        return told

    def ask(self, steps, client="probe"):
        """What the last step is answered: status, error code. `client` is the name by which it asks that last time."""
        told = self.world()

        def fill(text):
            return re.sub(r"\{([\w ]+)\}", lambda found: told.get(found.group(1), found.group()), text)

        for number, step in enumerate(steps, 1):
            service, line, headers, body, find = (*step, *({}, "", {})[len(step) - 2:])
            headers = headers | {"User-Agent": client if number == len(steps) else "steps before"}
            line = line.partition(" ")[0] + " " + fill(line.partition(" ")[2])
            status, answered, text = self.send(service, line, {name: fill(value) for name, value in headers.items()}, fill(body))
            for name, where in find.items():
                found = re.search(where, text)
                told[name] = urllib.parse.quote(answered.get(where) or (found.group(1) if found else "none"), safe=":" if name == "snapshot" else "")
        code = answered.get("x-ms-error-code") or (re.search(r'<Code>(\w+)|"code":"(\w+)', text) or [""])[0].split(">")[-1].split('"')[-1]
        return status, code
