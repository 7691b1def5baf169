"""Every link of the documents leads somewhere, and every section that the code names is there."""

import re
from pathlib import Path

import pytest

import dpq

ROOT = Path(dpq.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
PAGES += [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests" / "soak" / "REPORT.md"]
SOURCES = [*(ROOT / "dpq").rglob("*.py"), *(ROOT / "dpq").rglob("*.lua")]
SOURCES += [path for path in (ROOT / "tests").rglob("*.py") if path.name != Path(__file__).name]
COMMENT_MARKS = re.compile(r"\n\s*(?:#|--|\*)?\s*")


def titles(page: Path) -> list[str]:
    """The headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


def anchor(title: str) -> str:
    """What a link to a heading ends with, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def broken(page: Path, text: str) -> list[str]:
    """The links of a text to files and headings that are not there."""
    found = []
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)|srcset=\"([^\"]+)|src=\"([^\"]+)", text):
        link = "".join(link)
        if "://" in link:
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (place and place not in map(anchor, titles(target))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    """Files and headings that a page links to exist."""
    assert broken(page, page.read_text(encoding="utf-8")) == []


def named_sections(text: str) -> list[tuple[str, str]]:
    """The page and section of each `docs/page.md, "Section"` in a source."""
    flat = COMMENT_MARKS.sub(" ", text)
    return re.findall(r'(docs/\w+\.md|benchmarks/README\.md), "([A-Z][^"]{1,60})"', flat)


def test_every_section_that_the_code_names_is_there():
    """A `Source:` line leads to a heading of its page."""
    named = [
        (path.name, page, title)
        for path in SOURCES
        for page, title in named_sections(path.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    missing = [each for each in named if each[2] not in titles(ROOT / each[1])]
    assert missing == []
    assert named_sections('# docs/design.md, "Leases\n# and tokens".') == [
        ("docs/design.md", "Leases and tokens")
    ]
