"""Checks the built site: every link within it, and that nothing is loaded from another host.

Zensical checks the links of Markdown. This also sees those of HTML, of docstrings and of the nav.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src", "video": "src"}
"""Attributes from which a browser loads something without being asked."""

STYLE_URL = re.compile(r"(?:@import\s*|url\()\s*['\"]?((?:https?:)?//[^'\")]+)")


class PageReader(HTMLParser):
    """Collects what a page names: its anchors, its links and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.classes |= set(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        if (name := LOADED.get(tag)) and name in given:
            self.loads.append(given[name])


def read(page: Path) -> PageReader:
    """Return what a page of HTML names."""
    reader = PageReader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


def faults(site: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere and each thing of another host.

    Zensical's script loads mermaid and glightbox from another host on pages that use them: so no
    page may.
    """
    pages = {path: read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name} loads {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{name} links to {link}, which is not there")
            elif parts.fragment and target in pages:
                anchors = pages[target].anchors
                if unquote(parts.fragment) not in anchors and parts.fragment not in anchors:
                    found.append(f"{name} links to {link}, which has no such anchor")
        found += [
            f"{name} needs {kind}" for kind in ("mermaid", "glightbox") if kind in page.classes
        ]
    for style in sorted(site.rglob("*.css")):
        text = style.read_text(encoding="utf-8")
        found += [f"{style.name} loads {address}" for address in STYLE_URL.findall(text)]
    return found
