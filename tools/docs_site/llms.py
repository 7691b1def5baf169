"""Writes llms.txt and llms-full.txt: the site for a program that reads text (llmstxt.org)."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

SAYS = (
    "A delayed priority queue with visibility timeouts on Redis or Valkey, in Python, for work "
    "against rate limits: crawlers, API clients, batches. The best work goes first, none is lost."
)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's first paragraph, without marks of links."""
    body = re.sub(r"^(`{3,}).*?^\1$|^(?::::|!\[|<)[^\n]*$", "", text, flags=re.M | re.S)
    for part in body.split("\n\n"):
        part = " ".join(part.split())
        if part and not part.startswith(("#", "|", "* ", "- ")):
            part = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", part)
            return re.split(r"(?<=[.:?]) ", part)[0]
    return ""


def write_llms(site: Path, parts: Iterable[tuple[str, list[tuple[str, str, str]]]]) -> None:
    """Write both files, and each page as Markdown beside its HTML.

    llms-full.txt leaves out what is no text of docs/: programs, figures, the changelog.

    Args:
        site: The folder of the built site.
        parts: Title of each section, and path, title and text of its pages, in the nav's order.
    """
    short, full = [f"# DPQ\n\n> {SAYS}\n"], [f"# DPQ\n\n{SAYS}\n"]
    for section, pages in parts:
        short.append(f"\n## {section}\n\n")
        for path, title, text in pages:
            says = textwrap.shorten(first_sentence(text), 200, placeholder=" ...")
            short.append(f"- [{title}]({path})" + (f": {says}\n" if says else "\n"))
            if not path.startswith("repository/"):
                full.append(f"\n<!-- {path} -->\n\n{text.strip()}\n")
            target = site / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text("".join(short), encoding="utf-8")
    (site / "llms-full.txt").write_text("".join(full), encoding="utf-8")
