"""Reads docs/nav.toml: which pages the site has, in which order, and under which titles."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


class NavError(Exception):
    """The nav and the pages disagree; the text says how."""


@dataclass(frozen=True)
class Page:
    """One page: where it stands in the repository, and the title that the nav shows."""

    source: Path
    title: str


@dataclass(frozen=True)
class Section:
    """A heading of the nav, its pages, and the parts that are made: `api`, `cli`, `programs`."""

    title: str
    pages: tuple[Page, ...]
    made: tuple[str, ...] = ()


def heading(text: str) -> str:
    """Return the first heading of a page, as plain text. Raises NavError if there is none."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if not found:
        raise NavError("a page without a heading")
    return re.sub(r"[`*]", "", found[1]).strip()


def read_nav(docs: Path = DOCS) -> list[Section]:
    """Return the sections of `docs/nav.toml`.

    A section without a page, as of a folder that is not there yet, is left out.

    Raises:
        NavError: A page is not there, stands in two sections, or is in none.
    """
    nav = tomllib.loads((docs / "nav.toml").read_text(encoding="utf-8"))
    titles = nav.get("titles", {})
    sections, seen = [], set()
    for each in nav["section"]:
        names = list(each.get("pages", ()))
        if folder := each.get("folder"):
            found = sorted((docs / folder).glob("*.md"))
            names += [path.relative_to(docs).as_posix() for path in found]
        pages = []
        for name in names:
            source = (docs / name).resolve()
            if not source.is_file():
                raise NavError(f"nav.toml names {name}, which is not there")
            if source in seen:
                raise NavError(f"nav.toml has {name} twice")
            seen.add(source)
            title = titles.get(name) or heading(source.read_text(encoding="utf-8"))
            pages.append(Page(source, title))
        if pages or each.get("made"):
            sections.append(Section(each["title"], tuple(pages), tuple(each.get("made", ()))))
    if left := sorted(path.name for path in docs.rglob("*.md") if path.resolve() not in seen):
        raise NavError(f"in no section of nav.toml: {', '.join(left)}")
    return sections
