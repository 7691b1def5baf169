"""Copies the pages to where Zensical reads them, with links that stay within the site.

A page of docs/ keeps its path. Another file of the repository that is linked gets the path
`repository/...`; a program becomes a page that shows it. Zensical would load the script that draws
mermaid's diagrams from another host, so here a sequence becomes a picture, and states a table.
"""

import os
import re
import shutil
from pathlib import Path

from tools.docs_site.drawing import sequence
from tools.docs_site.nav import DOCS, ROOT, NavError, Page, Section

LINK = re.compile(r"(\]\(|(?:src|srcset|href)=\")([^)\s\"]+)(?=[)\"])")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
SEQUENCE = re.compile(r"^```mermaid\nsequenceDiagram\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATES = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURES = {".svg", ".png"}
LANGUAGES = {".py": "python", ".sh": "sh", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml"}


def of_docs(source: Path) -> bool:
    """True of a page and a picture of docs/: all of them are on the site."""
    return source.is_relative_to(DOCS) and source.suffix in {".md", *PICTURES}


def staged(source: Path) -> Path:
    """Return the path of a file within the site's sources."""
    if of_docs(source):
        return source.relative_to(DOCS)
    path = Path("repository") / source.relative_to(ROOT)
    return path if path.suffix == ".md" else path.with_name(path.name + ".md")


class Assembly:
    """The sources of the site in one folder, and the programs that its pages link to."""

    def __init__(self, sections: list[Section], folder: Path) -> None:
        self._folder = folder
        self._pages = {page.source for section in sections for page in section.pages}
        self.programs: list[Page] = []
        self._sequences = 0

    def run(self) -> None:
        """Write all pages, pictures and linked programs. Raises NavError at a link to nowhere."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for picture in [path for path in DOCS.rglob("*") if path.suffix in PICTURES]:
            target = self._folder / picture.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture, target)
        for source in sorted(self._pages):
            self.write(staged(source), self.within_site(source))
        for program in self.programs:  # grows: a page may lead to further ones
            is_page = program.source.suffix == ".md"
            text = self.within_site(program.source) if is_page else show(program)
            self.write(staged(program.source), text)

    def write(self, path: Path, text: str) -> None:
        """Write one page of the site's sources."""
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def within_site(self, source: Path) -> str:
        """Return the text of a page with links to where the site has what they lead to."""
        here = staged(source).parent

        def lead(found: re.Match[str]) -> str:
            before, link = found.groups()
            path, mark, anchor = link.partition("#")
            if "://" in link or not path:
                return found[0]
            target = (source.parent / path).resolve()
            if not target.exists() or not target.is_relative_to(ROOT):
                raise NavError(f"{source.relative_to(ROOT)} links to {path}, which is not here")
            there = os.path.relpath(self._place(target), here)
            return f"{before}{Path(there).as_posix()}{mark}{anchor}"

        def draw(found: re.Match[str]) -> str:
            self._sequences += 1
            name = Path("pictures") / f"sequence-{self._sequences}.svg"
            self.write(name, sequence(found[1]))
            return f"![{found[1].count(chr(10))} calls]({os.path.relpath(name, here)})"

        parts = CODE.split(source.read_text(encoding="utf-8"))  # a link within code is none
        text = "".join(part if at % 2 else LINK.sub(lead, part) for at, part in enumerate(parts))
        return STATES.sub(list_moves, SEQUENCE.sub(draw, text))

    def _place(self, target: Path) -> Path:
        """Return where the site has a file; a program that is met first gets a page."""
        if target in self._pages or of_docs(target):
            return staged(target)
        if target not in (page.source for page in self.programs):
            self.programs.append(Page(target, target.relative_to(ROOT).as_posix()))
        return staged(target)


def list_moves(diagram: re.Match[str]) -> str:
    """Return a diagram of states as a table."""
    moves = re.findall(r"^ *(\S+) --> (\S+): (.*)$", diagram[1], re.MULTILINE)
    rows = [f"| {first} | {second} | {by} |" for first, second, by in moves]
    table = "\n".join(["| from | to | by |", "|---|---|---|", *rows])
    return table.replace("\n| [*] |", "\n| (new) |").replace("| [*] |", "| (gone) |")


def files(folder: Path) -> list[Path]:
    """Return the files below a folder, but none of a cache."""
    found = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    return [each for each in found if not {"__pycache__", "node_modules"} & {*each.parts}]


def show(program: Page) -> str:
    """Return a page that shows a file as it is, or the names of the files in a folder."""
    if program.source.is_dir():
        names = [each.relative_to(program.source).as_posix() for each in files(program.source)]
        return f"# {program.title}\n\n" + "\n".join(f"* `{name}`" for name in names) + "\n"
    text = program.source.read_text(encoding="utf-8")
    fence = "`" * 4
    language = LANGUAGES.get(program.source.suffix, "")
    return f"# {program.title}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"
