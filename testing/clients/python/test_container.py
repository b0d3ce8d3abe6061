"""Containers: create, properties, metadata, delete, list; conditions on dates (promise B4)."""

from datetime import timedelta

import pytest

HOUR = timedelta(hours=1)


def test_create_returns_etag_and_second_create_is_refused(service, tools, refused):
    name = tools.fresh_name()
    container = service.create_container(name)
    properties = container.get_container_properties()
    assert properties.name == name
    assert properties.etag.strip('"').startswith("0x")
    assert properties.last_modified is not None
    assert properties.lease.state == "available" and properties.lease.status == "unlocked"
    assert properties.public_access is None
    assert properties.has_immutability_policy is False and properties.has_legal_hold is False
    with refused(409, "ContainerAlreadyExists"):
        service.create_container(name)
    container.delete_container()


def test_deleted_container_is_gone_with_its_blobs(service, tools, refused):
    container = service.create_container(tools.fresh_name())
    container.upload_blob("a", b"1")
    container.delete_container()
    with refused(404, "ContainerNotFound"):
        container.get_container_properties()
    with refused(404, "ContainerNotFound"):
        container.get_blob_client("a").download_blob()
    with refused(404, "ContainerNotFound"):
        container.upload_blob("b", b"1")
    with refused(404, "ContainerNotFound"):
        container.delete_container()
    with refused(404, "ContainerNotFound"):
        list(container.list_blobs())


@pytest.mark.parametrize("name,code", [
    ("Upper", "InvalidResourceName"),
    ("under_score", "InvalidResourceName"),
    ("-leading", "InvalidResourceName"),
    ("trailing-", "InvalidResourceName"),
    ("two--hyphens", "InvalidResourceName"),
])
def test_bad_names_are_refused(service, refused, name, code):
    with refused(400, code):
        service.create_container(name)


@pytest.mark.parametrize("name", ["ab", "a" * 64])
def test_names_of_wrong_length_are_refused(service, refused, name):
    with refused(400):  # OutOfRangeInput, or InvalidResourceName in some accounts of it
        service.create_container(name)


@pytest.mark.parametrize("name", ["abc", "a" * 63, "1-a-1", "$root", "$web"])
def test_names_at_the_limits_are_accepted(service, tools, name):
    container = service.get_container_client(name)
    container.create_container()
    container.delete_container()


def test_metadata_keeps_the_case_of_its_names(service, container, tools):
    given = {"Hello": "World", "hyphen_x": "1", "UPPER": "Shout", "_x9": "a b  c"}
    before = container.get_container_properties()
    answer = container.set_container_metadata(given)
    after = container.get_container_properties()
    assert after.metadata == given
    assert after.etag != before.etag and answer["etag"] == after.etag
    container.set_container_metadata({"only": "this"})
    assert container.get_container_properties().metadata == {"only": "this"}
    container.set_container_metadata()
    assert container.get_container_properties().metadata == {}
    made_with = service.create_container(tools.fresh_name(), metadata=given)
    assert made_with.get_container_properties().metadata == given
    listed = service.list_containers(name_starts_with=made_with.container_name, include_metadata=True)
    assert [c.metadata for c in listed] == [given]
    made_with.delete_container()


def test_bad_metadata_is_refused(container, refused):
    with refused(400, "InvalidMetadata"):
        container.set_container_metadata({"1digit": "x"})
    assert container.get_container_properties().metadata == {}


@pytest.mark.azurite("knows no limit")
def test_large_metadata_is_refused(container, refused):
    with refused(400, "MetadataTooLarge"):
        container.set_container_metadata({"big": "x" * 8192})
    assert container.get_container_properties().metadata == {}


def test_dates_guard_metadata_and_delete(container, refused):
    modified = container.get_container_properties().last_modified
    with refused(412, "ConditionNotMet"):
        container.set_container_metadata({"a": "1"}, if_modified_since=modified + HOUR)
    assert container.get_container_properties().metadata == {}
    container.set_container_metadata({"a": "1"}, if_modified_since=modified - HOUR)
    with refused(412, "ConditionNotMet"):
        container.delete_container(if_unmodified_since=modified - HOUR)
    with refused(412, "ConditionNotMet"):
        container.delete_container(if_modified_since=modified + HOUR)
    container.delete_container(if_unmodified_since=modified + HOUR)


def test_exists(service, tools, container):
    assert container.exists()
    assert not service.get_container_client(tools.fresh_name()).exists()


def test_list_prefix_and_pages(service, tools):
    family = tools.fresh_name("list")
    names = [f"{family}-{n}" for n in range(5)]
    for n, name in enumerate(names):
        service.create_container(name, metadata={"Number": str(n)})
    try:
        listed = list(service.list_containers(name_starts_with=family))
        assert [c.name for c in listed] == names
        assert all(c.etag and c.last_modified and c.lease.state == "available" for c in listed)
        assert all(not c.metadata for c in listed)

        pages = service.list_containers(name_starts_with=family, results_per_page=2).by_page()
        assert [[c.name for c in page] for page in pages] == [names[0:2], names[2:4], names[4:5]]

        pages = service.list_containers(name_starts_with=family, results_per_page=2).by_page()
        first = [c.name for c in next(pages)]
        rest = service.list_containers(name_starts_with=family).by_page(continuation_token=pages.continuation_token)
        assert first + [c.name for page in rest for c in page] == names

        listed = service.list_containers(name_starts_with=family, include_metadata=True)
        assert [c.metadata for c in listed] == [{"Number": str(n)} for n in range(5)]
        assert list(service.list_containers(name_starts_with=family + "-none")) == []
        everything = {c.name for c in service.list_containers()}
        assert set(names) <= everything
    finally:
        for name in names:
            service.delete_container(name)


def test_blob_writes_leave_the_container_etag(container):
    before = container.get_container_properties()
    container.upload_blob("a", b"1")
    container.delete_blob("a")
    assert container.get_container_properties().etag == before.etag


def test_recreated_container_is_empty(service, tools):
    name = tools.fresh_name()
    container = service.create_container(name)
    container.upload_blob("left-behind", b"1")
    first = container.get_container_properties()
    container.delete_container()
    container = service.create_container(name)  # the name is free at once here
    assert list(container.list_blobs()) == []
    assert container.get_container_properties().etag != first.etag
    container.delete_container()
