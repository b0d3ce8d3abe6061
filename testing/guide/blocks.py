"""The fenced blocks of the pages in docs/, and which of them are programs.

A block of a language in RUN is a whole program. What it prints is the last `text` block above it: the pages say so in words, and
test_guide.py holds them to it. `sh` and `csharp` are shown and not run; the pages say that, too.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
RUN = ("python", "javascript", "rust", "bash")


@dataclass
class Block:
    page: Path
    line: int
    language: str
    text: str
    printed: str | None

    @property
    def name(self):
        return f"{self.page.stem}-{self.language}-{self.line}"


def blocks(page):
    """In the order in which they stand. A fence that nobody closes is a mistake of the page."""
    language, start, lines, printed = None, 0, [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, start, lines = line[3:].strip(), number, []
        else:
            text = "".join(f"{one}\n" for one in lines)
            if language == "text":
                printed = text
            yield Block(page, start, language, text, printed)
            language = None
    assert language is None, f"{page}:{start}: a fence that nobody closes"


def programs():
    return [block for page in sorted(GUIDE.glob("*.md")) for block in blocks(page) if block.language in RUN]
