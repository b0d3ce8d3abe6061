"""What the pages name is there: tests, error codes with their status, files that are linked to, headings that links point at."""

import re
from pathlib import Path

import pytest

from blocks import GUIDE, ROOT

TEST = re.compile(r"`((?:testing|partition|front|contract|stream|server|env|console)/[\w./-]*)(?:::(\w+))?`")


def pages():
    """Every page of the tree; what tools brought or made is not ours."""
    brought = {"target", "node_modules", "lazuli-data", ".git"}
    return sorted(page for page in ROOT.rglob("*.md") if not brought & set(page.relative_to(ROOT).parts))


def prose(page):
    """The page without its fenced blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", page.read_text())


def items(page):
    """The sentences of a list, each with the lines that belong to it."""
    return re.findall(r"(?m)^- (.*(?:\n  .*)*)", page.read_text())


def is_test(path, name):
    """Is there a test of that name in the file?"""
    text = path.read_text()
    if path.suffix == ".py":
        return name.startswith("test_") and re.search(rf"(?m)^(async )?def {name}\(", text) is not None
    return re.search(rf"#\[(tokio::)?test[^\n]*\n(\s*#\[[^\n]*\n)*\s*(async )?fn {name}\(", text) is not None


def wrong_names(sentence):
    """What the sentence names as its test and is none. A directory or a text file stands for the suite that reads it."""
    for path, name in TEST.findall(sentence):
        file = ROOT / path
        if not file.exists():
            yield f"{path}: no such file"
        elif name and not is_test(file, name):
            yield f"{path}::{name}: no such test"
        elif not name and file.suffix in (".rs", ".py"):
            yield f"{path}: which of its tests?"


@pytest.mark.parametrize("sentence", items(ROOT / "docs/semantics.md"), ids=lambda sentence: sentence[:60])
def test_every_difference_names_its_test(sentence):
    assert TEST.search(sentence), "no test is named"
    assert list(wrong_names(sentence)) == []


def test_a_wrong_name_is_noticed():
    right = "`testing/guide/test_docs.py::test_a_wrong_name_is_noticed`"
    assert list(wrong_names(f"As it is. {right}, `testing/matrix/conditions.rs::create_once`, `testing/kill9`")) == []
    for wrong in ("`testing/guide/test_docs.py::test_gone`", "`testing/guide/test_docs.py::pages`", "`testing/guide/test_docs.py`",
                  "`testing/matrix/conditions.rs::current`", "`testing/gone`"):
        assert list(wrong_names(wrong)), wrong


def codes():
    """The error codes that there are, each with its status."""
    text = (ROOT / "contract/src/errors.rs").read_text()
    return dict((name, status) for name, status in re.findall(r'(?m)^    ([A-Z]\w+) +(\d{3}) "', text))


def test_error_codes_have_the_status_that_the_guides_say():
    known, wrong, seen = codes(), [], 0
    assert len(known) > 100
    for page in sorted(GUIDE.glob("*.md")):
        for status, name in re.findall(r"\b([1-5]\d\d) `([A-Z][A-Za-z0-9]+)`", prose(page)):
            seen += 1
            if known.get(name) != status:
                wrong.append(f"{page.name}: {status} `{name}`, and it is {known.get(name)}")
    assert wrong == [] and seen > 30


def anchors(page):
    """What GitHub makes of headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    wrong = []
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and anchor not in anchors(Path(file)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}, no such heading")
    assert wrong == []
