"""The async client (azure.storage.blob.aio): every operation that is built, once. The sync suite asks about the details."""

import asyncio
import os

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobType, ContentSettings, CorsRule
from azure.storage.blob.aio import BlobServiceClient

import server as servers


def run(story, endpoint):
    async def told():
        async with BlobServiceClient(endpoint, credential=servers.KEY, retry_total=0) as service:
            await story(service)

    asyncio.run(told())


async def refused(what, status, code):
    try:
        await what
    except HttpResponseError as error:
        seen = getattr(error.error_code, "value", error.error_code)
        assert (error.status_code, seen) == (status, code)
    else:
        raise AssertionError(f"was accepted; {status} {code} was expected")


def test_service(start):
    async def story(service):
        assert (await service.get_account_information())["account_kind"] == "StorageV2"
        await service.set_service_properties(cors=[CorsRule(["*"], ["GET"])])
        assert (await service.get_service_properties())["cors"][0].allowed_methods == "GET"

    run(story, start().endpoint)


def test_containers(endpoint, tools):
    async def story(service):
        name = tools.fresh_name()
        container = await service.create_container(name, metadata={"Hello": "1"})
        await refused(container.create_container(), 409, "ContainerAlreadyExists")
        assert await container.exists()
        assert (await container.get_container_properties()).metadata == {"Hello": "1"}
        assert [one.name async for one in service.list_containers(name_starts_with=name, include_metadata=True)] == [name]
        await container.set_container_metadata({"Other": "2"})
        await container.set_container_access_policy({}, public_access="blob")
        assert (await container.get_container_access_policy())["public_access"] == "blob"
        assert (await container.get_account_information())["sku_name"]

        lease = await container.acquire_lease(lease_duration=60)
        await lease.renew()
        await lease.change("11111111-2222-4333-8444-555555555555")
        await refused(container.acquire_lease(), 409, "LeaseAlreadyPresent")
        await refused(container.delete_container(), 412, "LeaseIdMissing")
        assert await lease.break_lease(lease_break_period=0) == 0
        lease = await container.acquire_lease()
        await lease.release()
        await container.delete_container()
        assert not await container.exists()

    run(story, endpoint)


def test_block_blobs(endpoint, tools):
    async def story(service):
        container = await service.create_container(tools.fresh_name())
        blob = container.get_blob_client("dir/b")
        first = await blob.upload_blob(b"content", metadata={"a": "1"})
        assert await (await blob.download_blob()).readall() == b"content"
        assert await (await blob.download_blob(offset=2, length=3)).readall() == b"nte"
        await blob.set_blob_metadata({"b": "2"})
        await blob.set_http_headers(ContentSettings(content_type="text/plain"))
        seen = await blob.get_blob_properties()
        assert (seen.metadata, seen.content_settings.content_type) == ({"b": "2"}, "text/plain")
        await refused(blob.upload_blob(b"no", overwrite=True, etag=first["etag"], match_condition=MatchConditions.IfNotModified),
                      412, "ConditionNotMet")
        await blob.upload_blob(b"yes", overwrite=True, etag=seen.etag, match_condition=MatchConditions.IfNotModified)

        lease = await blob.acquire_lease(lease_duration=60)
        await lease.renew()
        await lease.change("11111111-2222-4333-8444-555555555555")
        await refused(blob.delete_blob(), 412, "LeaseIdMissing")
        await blob.set_blob_metadata({"c": "3"}, lease=lease)
        await lease.release()
        await (await blob.acquire_lease()).break_lease()

        parts = [os.urandom(10_000 + n) for n in range(40)]
        await asyncio.gather(*(blob.stage_block(f"{n:02}", part) for n, part in enumerate(parts)))
        assert len((await blob.get_block_list("uncommitted"))[1]) == 40
        await blob.commit_block_list([f"{n:02}" for n in range(40)])
        assert await (await blob.download_blob()).readall() == b"".join(parts)
        assert len((await blob.get_block_list("all"))[0]) == 40

        assert [one.name async for one in container.list_blobs(include=["metadata"])] == ["dir/b"]
        assert [one.name async for one in container.walk_blobs()] == ["dir/"]
        await blob.delete_blob()
        assert not await blob.exists()
        await container.delete_container()

    run(story, endpoint)


def test_append_blobs(endpoint, tools):
    async def story(service):
        container = await service.create_container(tools.fresh_name())
        log = container.get_blob_client("log")
        await log.create_append_blob()
        answers = await asyncio.gather(*(log.append_block(f"{n:02}") for n in range(30)))
        content = await (await log.download_blob()).readall()
        for n, answer in enumerate(answers):
            offset = int(answer["blob_append_offset"])
            assert content[offset:offset + 2] == b"%02d" % n
        await refused(log.append_block(b"x", appendpos_condition=1), 412, "AppendPositionConditionNotMet")
        await log.upload_blob(b"more", blob_type=BlobType.APPENDBLOB)
        await log.seal_append_blob()
        await refused(log.append_block(b"x"), 409, "BlobIsSealed")
        assert (await log.get_blob_properties()).is_append_blob_sealed
        await container.delete_container()

    run(story, endpoint)


def test_uploads_and_downloads_in_pieces(endpoint, tools):
    async def story(_):
        content = os.urandom(5_000_000)
        cut = dict(max_single_put_size=1 << 20, max_block_size=1 << 19, max_single_get_size=1 << 20, max_chunk_get_size=1 << 19)
        async with BlobServiceClient(endpoint, credential=servers.KEY, retry_total=0, **cut) as service:
            container = await service.create_container(tools.fresh_name())
            blob = await container.upload_blob("large", content, max_concurrency=4)
            assert await (await blob.download_blob(max_concurrency=4)).readall() == content
            assert len((await blob.get_block_list("committed"))[0]) == 10
            await container.delete_container()

    run(story, endpoint)
