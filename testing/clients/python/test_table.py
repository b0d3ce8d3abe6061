"""The Table service through azure-data-tables: every operation it has."""

import multiprocessing
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import (
    AccountSasPermissions, EdmType, EntityProperty, ResourceTypes, TableAccessPolicy, TableSasPermissions, TableServiceClient,
    TableTransactionError, UpdateMode, generate_account_sas, generate_table_sas,
)
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

import server as servers

CREDENTIAL = AzureNamedKeyCredential(servers.ACCOUNT, servers.KEY)


def connect(endpoint, credential=CREDENTIAL, **options):
    return TableServiceClient(endpoint, credential=credential, retry_total=0, **options)


def fresh(word="t"):
    return f"{word}{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def tables(table_endpoint):
    with connect(table_endpoint) as one:
        yield one


@pytest.fixture
def table(tables):
    one = tables.create_table(fresh())
    yield one
    one.delete_table()  # of what is not there the client makes no error


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


def entity(row="1", **properties):
    return {"PartitionKey": "p", "RowKey": row, **properties}


def test_tables_come_and_go(tables):
    name = fresh("CamelCase")
    one = tables.create_table(name)
    with pytest.raises(ResourceExistsError) as exists:
        tables.create_table(name.lower())
    assert exists.value.error_code == "TableAlreadyExists"
    tables.create_table_if_not_exists(name)
    assert name in [item.name for item in tables.list_tables(results_per_page=3)]
    assert [item.name for item in tables.query_tables("TableName eq @name", parameters={"name": name})] == [name]
    one.create_entity(entity())
    tables.delete_table(name)
    assert not list(tables.query_tables(f"TableName eq '{name}'"))
    with pytest.raises(ResourceNotFoundError) as missing:
        one.get_entity("p", "1")
    assert missing.value.error_code == "TableNotFound"
    one.create_table()
    assert not list(one.list_entities())
    one.delete_table()
    for bad in ["1table", "my-table", "a"]:
        with pytest.raises((ValueError, HttpResponseError)):
            tables.create_table(bad)


EVERYTHING = {
    "text": "it's \u00e9\U0001F600\n\"quoted\"",
    "empty": "",
    "small": -7,
    "large": EntityProperty(9007199254740993, EdmType.INT64),
    "lowest": EntityProperty(-(2**63), EdmType.INT64),
    "real": 3.0,
    "tiny": 5e-324,
    "infinite": float("inf"),
    "minus": float("-inf"),
    "on": True,
    "raw": bytes(range(256)),
    "guid": uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
    "when": datetime(2017, 11, 10, 2, 43, 35, 846092, timezone.utc),
    "early": datetime(1601, 1, 1, tzinfo=timezone.utc),
}


@pytest.mark.parametrize("name", ["ab", "a" * 64, "a_b", "1ab"])
def test_names_that_no_table_may_have(tables, name):
    with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):  # so the client understands what it is told
        tables.create_table(name)


def test_every_type_comes_back_as_it_went(table):
    written = entity("1", nothing=None, odd=float("nan"), **EVERYTHING)
    table.create_entity(written)
    for read in [table.get_entity("p", "1"), next(iter(table.list_entities()))]:
        for name, value in EVERYTHING.items():
            if isinstance(value, EntityProperty):
                assert read[name] == value and read[name].edm_type == value.edm_type, name
            else:
                assert read[name] == value and type(value) in type(read[name]).__mro__, name
        assert read["odd"] != read["odd"]
        assert "nothing" not in read
        assert read.metadata["etag"].startswith("W/\"datetime'")
        assert abs(read.metadata["timestamp"] - datetime.now(timezone.utc)) < timedelta(minutes=5)
    exact = "2017-11-10T02:43:35.8460923Z"
    table.upsert_entity(entity("2", when=EntityProperty(exact, EdmType.DATETIME)))
    assert table.get_entity("p", "2")["when"].tables_service_value == exact


def test_insert_update_merge_delete(table, refused):
    etag = table.create_entity(entity(a=1, b=2))["etag"]
    with refused(409, "EntityAlreadyExists"):
        table.create_entity(entity())
    merged = table.update_entity(entity(b=3, c=4), mode=UpdateMode.MERGE)["etag"]
    assert merged != etag
    read = table.get_entity("p", "1")
    assert (read["a"], read["b"], read["c"]) == (1, 3, 4) and read.metadata["etag"] == merged
    table.update_entity(entity(d=5), mode=UpdateMode.REPLACE)
    assert dict(table.get_entity("p", "1")) == entity(d=5)
    table.upsert_entity(entity("2", a=1), mode=UpdateMode.MERGE)
    table.upsert_entity(entity("2", b=2), mode=UpdateMode.MERGE)
    assert dict(table.get_entity("p", "2")) == entity("2", a=1, b=2)
    table.upsert_entity(entity("2", c=3), mode=UpdateMode.REPLACE)
    assert dict(table.get_entity("p", "2", select=["c", "none"])) == {"c": 3, "none": None}
    with refused(404, "ResourceNotFound"):
        table.update_entity(entity("none"))
    table.delete_entity("p", "1")
    table.delete_entity("p", "1")  # the client makes no error of what is gone
    with refused(404, "ResourceNotFound"):
        table.get_entity("p", "1")


def test_conditions(table):
    table.create_entity(entity(n=0))
    read = table.get_entity("p", "1")
    table.update_entity(entity(n=1))
    stale = dict(etag=read.metadata["etag"], match_condition=MatchConditions.IfNotModified)
    for attempt in [
        lambda: table.update_entity(entity(n=9), **stale),
        lambda: table.update_entity(entity(n=9), mode=UpdateMode.REPLACE, **stale),
        lambda: table.delete_entity("p", "1", **stale),
    ]:
        with pytest.raises(ResourceModifiedError) as modified:
            attempt()
        assert modified.value.status_code == 412 and modified.value.error_code == "UpdateConditionNotSatisfied"
    assert table.get_entity("p", "1")["n"] == 1
    fresh_etag = table.get_entity("p", "1").metadata["etag"]
    table.update_entity(entity(n=2), etag=fresh_etag, match_condition=MatchConditions.IfNotModified)
    table.update_entity(entity(n=3), match_condition=MatchConditions.Unconditionally)
    assert table.get_entity("p", "1")["n"] == 3


@pytest.mark.parametrize("key", ["", "it's", "a b+c%20&=,()", "\u00e9\U0001F600", "'" * 5, "x" * 512])
def test_keys(table, key):
    table.create_entity({"PartitionKey": key, "RowKey": key, "n": 1})
    assert table.get_entity(key, key)["n"] == 1
    table.update_entity({"PartitionKey": key, "RowKey": key, "n": 2})
    found = table.query_entities("PartitionKey eq @k and RowKey eq @k", parameters={"k": key})
    assert [one["n"] for one in found] == [2]
    table.submit_transaction([("upsert", {"PartitionKey": key, "RowKey": key, "n": 3})])
    table.delete_entity(key, key)
    assert not list(table.list_entities())


@pytest.mark.parametrize("key", ["a/b", "a\\b", "a#b", "a?b", "a\tb"])
def test_keys_that_no_entity_may_have(table, key, refused):
    with refused(400, "OutOfRangeInput"):
        table.create_entity({"PartitionKey": key, "RowKey": "1"})


def test_queries(table):
    when = datetime(2020, 1, 1, tzinfo=timezone.utc)
    for n in range(30):
        table.create_entity({
            "PartitionKey": f"p{n % 3}", "RowKey": f"{n:03}", "n": n, "big": EntityProperty(n * 2**40, EdmType.INT64),
            "real": n / 4, "on": n % 2 == 0, "when": when + timedelta(days=n), "id": uuid.UUID(int=n), "raw": bytes([n]),
        })

    def found(filter, **parameters):
        return [int(one["RowKey"]) for one in table.query_entities(filter, parameters=parameters or None, results_per_page=4)]

    every = sorted(range(30), key=lambda n: (n % 3, n))
    assert [int(one["RowKey"]) for one in table.list_entities(results_per_page=7)] == every
    assert found("PartitionKey eq 'p1'") == [n for n in every if n % 3 == 1]
    assert found("PartitionKey eq @pk and RowKey ge @low and RowKey lt @high", pk="p1", low="010", high="020") == [10, 13, 16, 19]
    assert found("n ge @a and n lt @b", a=5, b=8) == [6, 7, 5]
    assert found("big gt @a", a=27 * 2**40) == [28, 29]
    assert found("real le @a", a=0.5) == [0, 1, 2]
    assert found("on eq @a and PartitionKey eq 'p0'", a=True) == [0, 6, 12, 18, 24]
    assert found("when gt @a", a=when + timedelta(days=27)) == [28, 29]
    assert found("id eq @a", a=uuid.UUID(int=7)) == [7]
    assert found("raw eq @a", a=bytes([8])) == [8]
    assert found("not (n gt 0) or (n eq 29)") == [0, 29]
    assert found("none eq 1") == []
    pages = table.query_entities("n ge 0", results_per_page=12, select=["n"]).by_page()
    sizes = []
    for page in pages:
        page = list(page)
        sizes.append(len(page))
        assert all(set(one) == {"n"} for one in page)
    assert sum(sizes) == 30 and max(sizes) == 12
    first = table.list_entities(results_per_page=10).by_page()
    assert len(list(next(first))) == 10
    rest = table.list_entities(results_per_page=100).by_page(continuation_token=first.continuation_token)
    assert len([one for page in rest for one in page]) == 20


def test_a_whole_number_finds_wider_ones(table):
    table.create_entity(entity("1", price=9.5, count=EntityProperty(1 << 40, EdmType.INT64)))
    for filter, rows in [("price gt 9", 1), ("price gt 10", 0), ("count gt 5", 1), ("count eq 5", 0), ("5 lt count", 1)]:
        assert len(list(table.query_entities(filter))) == rows, filter


def test_a_wrong_filter_names_the_place(table, refused):
    with refused(400, "InvalidInput") as wrong:
        list(table.query_entities("aaa bbb ccc"))
    assert "position 7" in wrong.error.message


def test_more_than_a_page(table):
    for start in range(0, 1100, 100):
        table.submit_transaction([("create", entity(f"{n:05}", n=n)) for n in range(start, start + 100)])
    pages = [len(list(page)) for page in table.list_entities().by_page()]
    assert pages == [1000, 100]


def test_transactions(table):
    for n in range(3):
        table.create_entity(entity(str(n), n=n))
    etag = table.get_entity("p", "1").metadata["etag"]
    done = table.submit_transaction([
        ("create", entity("new", n=1)),
        ("update", entity("0", n=10)),
        ("update", entity("1", n=11), {"mode": "replace", "etag": etag, "match_condition": MatchConditions.IfNotModified}),
        ("upsert", entity("other", n=4), {"mode": UpdateMode.MERGE}),
        ("delete", entity("2")),
    ])
    assert len(done) == 5 and done[0]["etag"] == table.get_entity("p", "new").metadata["etag"]
    assert {one["RowKey"]: one["n"] for one in table.list_entities()} == {"0": 10, "1": 11, "new": 1, "other": 4}

    before = [dict(one) for one in table.list_entities()]
    for operations, code, index in [
        ([("upsert", entity("x")), ("create", entity("0"))], "EntityAlreadyExists", 1),
        ([("upsert", entity("x")), ("upsert", entity("x"))], "InvalidDuplicateRow", 1),
        ([("upsert", entity("x")), ("update", entity("none"))], "ResourceNotFound", 1),
        ([("update", entity("0"), {"etag": etag, "match_condition": MatchConditions.IfNotModified})], "UpdateConditionNotSatisfied", 0),
        ([("create", entity(f"many{n}")) for n in range(101)], "InvalidInput", 99),
    ]:
        with pytest.raises(TableTransactionError) as failed:
            table.submit_transaction(operations)
        assert (failed.value.error_code, failed.value.index) == (code, index)
        assert [dict(one) for one in table.list_entities()] == before
    with pytest.raises(ValueError):
        table.submit_transaction([("upsert", entity("x")), ("upsert", {"PartitionKey": "q", "RowKey": "x"})])


def test_large_entities(table, refused):
    parts = {f"p{n}": "x" * 32000 for n in range(15)}
    table.create_entity(entity("large", **parts))
    assert dict(table.get_entity("p", "large")) == entity("large", **parts)
    with refused(400, "PropertyValueTooLarge"):
        table.create_entity(entity("2", p="x" * 32769))
    with refused(400, "TooManyProperties"):
        table.create_entity(entity("3", **{f"p{n}": n for n in range(253)}))
    table.create_entity(entity("4", **{f"p{n}": n for n in range(252)}))
    with refused(400, "EntityTooLarge"):
        table.create_entity(entity("5", **{f"p{n}": "x" * 32000 for n in range(17)}))


def test_access_policies_and_tokens(table, tables, table_endpoint, refused):
    table.create_entity(entity("1"))
    table.create_entity({"PartitionKey": "q", "RowKey": "1"})
    policy = TableAccessPolicy(start=datetime(2011, 10, 11, tzinfo=timezone.utc), expiry=soon(), permission="r")
    table.set_table_access_policy({"p": policy, "bare": None})
    stored = table.get_table_access_policy()
    assert stored["p"].permission == "r" and stored["bare"] is None

    def reached(**how):
        token = generate_table_sas(CREDENTIAL, table.table_name, **how)
        return connect(table_endpoint, AzureSasCredential(token)).get_table_client(table.table_name)

    by_policy = reached(policy_id="p")
    assert len(list(by_policy.list_entities())) == 2
    with refused(403):
        by_policy.create_entity(entity("2"))
    table.set_table_access_policy({})
    with refused(403):
        list(by_policy.list_entities())

    some = reached(permission=TableSasPermissions(read=True, add=True, update=True, delete=True), expiry=soon(),
                   start_pk="p", start_rk="1", end_pk="p", end_rk="5")
    assert [(one["PartitionKey"], one["RowKey"]) for one in some.list_entities()] == [("p", "1")]
    some.upsert_entity(entity("5"))
    some.submit_transaction([("upsert", entity("3")), ("delete", entity("5"))])
    with refused(403):
        some.upsert_entity(entity("6"))
    with refused(403):
        some.submit_transaction([("upsert", entity("3")), ("upsert", entity("6"))])
    with refused(404):
        some.get_entity("q", "1")
    other = tables.create_table(fresh())
    with refused(403):
        token = generate_table_sas(CREDENTIAL, table.table_name, permission="r", expiry=soon())
        list(connect(table_endpoint, AzureSasCredential(token)).get_table_client(other.table_name).list_entities())
    other.delete_table()

    account = generate_account_sas(CREDENTIAL, ResourceTypes(service=True, container=True, object=True),
                                   AccountSasPermissions(read=True, list=True), soon())
    reader = connect(table_endpoint, AzureSasCredential(account))
    assert table.table_name in [item.name for item in reader.list_tables()]
    with refused(403):
        reader.create_table(fresh())


def test_service(tables):
    properties = tables.get_service_properties()
    assert set(properties) >= {"analytics_logging", "hour_metrics", "minute_metrics", "cors"}
    tables.set_service_properties(cors=[])
    assert tables.get_service_properties()["cors"] == []


async def _async_client(endpoint):
    async with AsyncTableServiceClient(endpoint, credential=CREDENTIAL) as service:
        table = await service.create_table(fresh())
        await table.submit_transaction([("create", entity(str(n))) for n in range(5)])
        rows = [one["RowKey"] async for one in table.list_entities(results_per_page=2)]
        await table.delete_table()
        return rows


def test_async(table_endpoint):
    import asyncio
    assert asyncio.run(_async_client(table_endpoint)) == ["0", "1", "2", "3", "4"]


def test_host_style(table_endpoint):
    port = table_endpoint.rsplit(":", 1)[1].split("/")[0]
    service = connect(f"http://{servers.ACCOUNT}.table.localhost:{port}")
    one = service.create_table(fresh())
    one.submit_transaction([("create", entity("it's", n=1))])
    assert one.get_entity("p", "it's")["n"] == 1
    one.delete_table()


def _count(endpoint, name, times):
    table = connect(endpoint).get_table_client(name)
    lost = 0
    for _ in range(times):
        while True:
            read = table.get_entity("p", "counter")
            try:
                table.update_entity(entity("counter", n=read["n"] + 1), etag=read.metadata["etag"],
                                    match_condition=MatchConditions.IfNotModified)
                break
            except ResourceModifiedError:
                lost += 1
    return lost


def test_no_update_is_lost_between_processes(table, table_endpoint):
    table.create_entity(entity("counter", n=0))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_count, [(table_endpoint, table.table_name, 25)] * 4)
    assert table.get_entity("p", "counter")["n"] == 100


def _transact(endpoint, name, times):
    table = connect(endpoint).get_table_client(name)
    for n in range(times):
        table.submit_transaction([("upsert", entity(f"{row:02}", n=n)) for row in range(20)])


def _watch(endpoint, name, times):
    table = connect(endpoint).get_table_client(name)
    torn = 0
    for n in range(times):
        filter = ["PartitionKey eq 'p'", "n ge 0", "PartitionKey ge 'a' and PartitionKey lt 'z'"][n % 3]
        numbers = [one["n"] for one in table.query_entities(filter)]
        torn += len(numbers) != 20 or len(set(numbers)) != 1
    return torn


def test_no_reader_sees_half_of_a_transaction(table, table_endpoint):
    _transact(table_endpoint, table.table_name, 1)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        writing = pool.starmap_async(_transact, [(table_endpoint, table.table_name, 60)] * 2)
        assert pool.starmap(_watch, [(table_endpoint, table.table_name, 60)] * 2) == [0, 0]
        writing.get()
