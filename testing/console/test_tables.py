"""Tables: queries in pages, entities of every type, changes under their ETag and what is said when somebody was faster."""

from datetime import datetime, timezone
from uuid import UUID

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty

from common import fresh_name


@pytest.fixture
def table(tables):
    one = tables.create_table(fresh_name("t").replace("-", ""))
    yield one
    tables.delete_table(one.table_name)


EVERY_TYPE = {
    "Text": "words", "Small": 7, "Large": EntityProperty(9007199254740993, EdmType.INT64), "Half": 0.5, "Whole": 3.0, "Yes": True,
    "When": datetime(2026, 11, 17, 1, 2, 3, tzinfo=timezone.utc), "Id": UUID("01234567-89ab-cdef-0123-456789abcdef"), "Raw": b"\x00\xff",
}


def test_a_table_is_made_and_deleted(page, tables):
    name = fresh_name("t").replace("-", "")
    page.open("#/tables")
    page.click("New table")
    page.fill("Name", name)
    page.press("Enter")
    page.sees("No entity yet.")
    page.open("#/tables")
    page.fill("Prefix of the name", name)
    page.sees("1 table")
    page.click(f"Delete {name}")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("No table has this prefix.")
    assert name not in [one.name for one in tables.list_tables()]


def test_queries(page, table):
    for number in range(30):
        table.create_entity({"PartitionKey": "p", "RowKey": f"{number:03}", "Age": number, "Name": f"n{number}", "Other": "x"})
    page.open(f"#/table/{table.table_name}")
    page.sees("30 entities")
    page.fill("$filter", "Age ge 10 and Age lt 22")
    page.fill("$select", "Age, Name")
    page.fill("$top", "5")
    page.press("Enter")
    page.sees("5 entities so far")
    assert page.run("[...document.querySelectorAll('.grid th')].map((one) => one.innerText)") == ["PartitionKey", "RowKey", "Age", "Name"]
    page.click("Load more")
    page.sees("10 entities so far")
    page.click("Load more")
    page.sees("12 entities")
    page.fill("$filter", "Age gee 1")
    page.press("Enter")
    page.sees("InvalidInput")
    # A query is part of the address.
    page.fill("$filter", "RowKey eq '007'")
    page.press("Enter")
    page.sees("1 entity")
    page.reload()
    page.sees("1 entity")
    page.sees("n7")


def test_an_entity_keeps_its_types(page, table):
    table.create_entity({"PartitionKey": "it's", "RowKey": "a b+c", **EVERY_TYPE})
    before = table.get_entity("it's", "a b+c")
    page.open(f"#/table/{table.table_name}")
    page.click("it's", kind=".grid button")
    page.wait(lambda: page.run("document.querySelectorAll('dialog .pairs tbody tr').length") == len(EVERY_TYPE), "its properties")
    page.fill("Value of Text", "other words")
    page.click("Save")
    page.sees("Entity saved.")
    after = table.get_entity("it's", "a b+c")
    assert dict(after) == dict(before) | {"Text": "other words"}
    assert {name: type(value) for name, value in after.items()} == {name: type(value) for name, value in before.items()}


def test_somebody_was_faster(page, table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "State": "new", "Count": 1})
    page.open(f"#/table/{table.table_name}")
    page.click("p", kind=".grid button")
    page.fill("Value of State", "mine")
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "Count": 2})
    page.click("Save")
    page.sees("412 Precondition Failed")
    assert sorted(page.run("[...document.querySelectorAll('.diff tbody tr')].map((one) => one.innerText.split('\\t'))")) == [
        ["Count", "1 (Int32)", "1 (Int32)", "2 (Int32)"], ["State", "new", "mine", "new"]]
    page.click("Keep editing")
    assert table.get_entity("p", "r")["State"] == "new"
    page.click("Save")
    page.click("Reload theirs")
    page.wait(lambda: page.run("[...document.querySelectorAll('.pairs input')].some((one) => one.value === '2')"), "their count")
    page.fill("Value of State", "mine")
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "Count": 3})
    page.click("Save")
    page.click("Overwrite theirs")
    page.sees("Entity saved.")
    assert (table.get_entity("p", "r")["State"], table.get_entity("p", "r")["Count"]) == ("mine", 2)
    # A deletion is of what was seen, too.
    page.click("p", kind=".grid button")
    page.sees("Timestamp")
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "Count": 4})
    page.click("Delete")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("UpdateConditionNotSatisfied")
    assert table.get_entity("p", "r")["Count"] == 4


def test_made_by_hand_and_deleted(page, table):
    page.open(f"#/table/{table.table_name}")
    page.click("New entity")
    page.fill("PartitionKey", "p")
    page.fill("RowKey", "r")
    for name, kind, value in [("Name", "String", "<b>Ann</b>"), ("Age", "Int32", "forty"), ("Score", "Double", "2.0")]:
        page.click("Add property")
        page.fill("Name of the property", name)
        page.fill("Type of the property", kind)
        page.fill("Value of the property", value)
    page.click("Create")
    page.sees("InvalidInput", "dialog")
    page.run("[...document.querySelectorAll('dialog input')].find((one) => one.value === 'forty').select()")
    page.run("[...document.querySelectorAll('dialog input')].find((one) => one.value === 'forty').focus()")
    page.call("Input.insertText", text="40")
    page.click("Create")
    page.sees("Entity made.")
    made = table.get_entity("p", "r")
    assert (made["Name"], made["Age"], made["Score"], type(made["Score"])) == ("<b>Ann</b>", 40, 2.0, float)
    page.sees("<b>Ann</b>", ".grid")
    page.press("j", "Enter")
    page.click("Delete")
    page.click("Delete", kind="dialog button[data-yes]")
    page.sees("No entity yet.")
    with pytest.raises(ResourceNotFoundError):
        table.get_entity("p", "r")
