"""The site of the documents: its nav, its sources, and what it refuses. `make docs` builds it."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings

import dpq
from dpq.cli import app
from tools.docs_site import __main__ as site
from tools.docs_site.assemble import Assembly, show
from tools.docs_site.check import faults
from tools.docs_site.drawing import sequence
from tools.docs_site.llms import first_sentence, write_llms
from tools.docs_site.nav import DOCS, ROOT, NavError, Page, Section, read_nav
from tools.docs_site.pictures import PICTURES
from tools.docs_site.reference import CALLS, call_text, cli_pages

SOAK = settings.get_current_profile_name() == "soak"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Three pages, one of them in a folder, and their nav."""
    (tmp_path / "guides").mkdir()
    for name in ("index.md", "usage.md", "guides/one.md"):
        (tmp_path / name).write_text(f"# The `{name}`\n\nSays [more](x.md).\n")
    (tmp_path / "nav.toml").write_text(
        '[[section]]\ntitle = "Start"\npages = ["index.md", "usage.md"]\n'
        '[[section]]\ntitle = "Guides"\nfolder = "guides"\n'
        '[[section]]\ntitle = "Empty"\nfolder = "none"\n'
        '[titles]\n"usage.md" = "All calls"\n'
    )
    return tmp_path


def test_a_nav_has_each_page_once(docs: Path) -> None:
    """A page of a folder is taken in by itself; any other that is in no section, in two, or not
    there is an error; an empty folder is no section."""
    nav = read_nav(docs)
    assert [(each.title, [page.title for page in each.pages]) for each in nav] == [
        ("Start", ["The index.md", "All calls"]),
        ("Guides", ["The guides/one.md"]),
    ]
    (docs / "guides" / "two.md").write_text("# Two")
    assert [page.title for page in read_nav(docs)[1].pages] == ["The guides/one.md", "Two"]
    (docs / "lost.md").write_text("# Lost")
    with pytest.raises(NavError, match=r"in no section of nav.toml: lost\.md"):
        read_nav(docs)
    (docs / "lost.md").unlink()
    (docs / "guides" / "two.md").write_text("no heading")
    with pytest.raises(NavError, match="without a heading"):
        read_nav(docs)
    (docs / "guides" / "two.md").unlink()
    text = (docs / "nav.toml").read_text()
    for wrong, said in (('"index.md", "index.md"', "twice"), ('"index.md", "no.md"', "not there")):
        (docs / "nav.toml").write_text(text.replace('"index.md"', wrong))
        with pytest.raises(NavError, match=said):
            read_nav(docs)


def test_the_sources_of_the_site_are_whole(tmp_path: Path) -> None:
    """Every page is there, with links to files that are there as well; nothing is left that a
    browser would draw with a script of another host."""
    parts = site.parts_of(read_nav(), tmp_path / "pages")
    paths = [path for _, pages in parts for path, _, _ in pages]
    assert Counter(paths).most_common(1)[0][1] == 1
    assert {"index.md", "api/queue.md", "cli/work.md", "repository/examples/api.py.md"} <= {*paths}
    for path in paths:
        page = tmp_path / "pages" / path
        text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s#]+)", text):
            assert "://" in link or (page.parent / link).is_file(), (path, link)
        assert "```mermaid" not in page.read_text(encoding="utf-8")


def test_a_link_that_leaves_the_repository_is_refused(docs: Path, tmp_path: Path) -> None:
    """A link to a file that is not there, or outside, is an error that names both."""
    source = ROOT / "docs" / "no-such-page.md"
    assembly = Assembly([Section("S", (Page(source, "T"),))], tmp_path / "pages")
    for link in ("none.md", "../../../etc/hostname"):
        shown = SimpleSource(source, f"# T\n\n[x]({link})\n")
        with pytest.raises(NavError, match=f"links to {re.escape(link)}"):
            assembly.within_site(shown)
    shown = SimpleSource(
        source, "[a](../deploy) [b](../examples/api.py) [c](usage.md#urls) `[d](e)`"
    )
    assert assembly.within_site(shown).startswith(
        "[a](repository/deploy.md) [b](repository/examples/api.py.md) [c](usage.md#urls)"
    )
    folder, program = (show(each) for each in assembly.programs)
    assert "\n* `compose.yaml`\n" in folder
    assert program.startswith("# examples/api.py\n\n````python\n")


def test_every_public_name_is_on_one_page_of_calls() -> None:
    """What `dpq` offers is shown, each once, with its docstring."""
    named = [name for _, names in CALLS.values() for name in names.split()]
    assert sorted(named) == sorted(dpq.__all__)
    text = call_text("api/queue.md")
    assert "### DPQ.push(self, payload" in text
    assert "Add a task" in text
    assert "model_dump" not in call_text("api/what_a_queue_tells.md")


def test_every_command_is_on_a_page() -> None:
    """The pages of the command line have each command that is shown, with its options."""
    text = "\n".join(text for _, text in cli_pages().values())
    root: Any = typer.main.get_command(app)
    groups = {name: getattr(each, "commands", {}) for name, each in root.commands.items()}
    wanted = [name for name, each in root.commands.items() if not each.hidden]
    wanted += [f"{name} {below}" for name, parts in groups.items() for below in parts]
    assert [each for each in wanted if f"## dpq {each}\n" not in text] == []
    assert "| `--priority` | Higher runs first" in text


def test_pictures_are_as_drawn() -> None:
    """The files in docs/pictures/ are what `make drawings` draws."""
    drawn = {f"{name}.svg": picture().svg() for name, picture in PICTURES.items()}
    stored = {path.name: path.read_text("utf-8") for path in (DOCS / "pictures").iterdir()}
    assert drawn == stored


def test_a_step_that_cannot_be_drawn_is_an_error() -> None:
    """A sequence shows each of its steps, or none."""
    assert sequence("a->>b: one\nb-->>a: two\na->>a: three").count("<text") == 5
    with pytest.raises(ValueError, match="no step of a sequence: Note over a"):
        sequence("a->>b: one\nNote over a")


PAGE = '<link rel="stylesheet" href="a.css"><h2 id="there"></h2><a href="{}"></a>{}'


@pytest.mark.parametrize(
    ("link", "more", "said"),
    [
        ("b.html#there", "", ""),
        ("https://example.org/", "", ""),
        ("none.html", "", "links to none.html, which is not there"),
        ("b.html#none", "", "has no such anchor"),
        ("#none", "", "has no such anchor"),
        (
            "b.html",
            '<script src="https://x.example/a.js"></script>',
            "loads https://x.example/a.js",
        ),
        ("b.html", '<img src="//x.example/a.png">', "loads //x.example/a.png"),
        ("b.html", '<pre class="mermaid"></pre>', "needs mermaid"),
    ],
)
def test_a_fault_of_the_built_site_is_found(
    tmp_path: Path, link: str, more: str, said: str
) -> None:
    """A link or an anchor that leads nowhere, and anything that another host would send."""
    (tmp_path / "a.html").write_text(PAGE.format(link, more))
    (tmp_path / "b.html").write_text(PAGE.format("a.html", ""))
    (tmp_path / "a.css").write_text("a { color: red }")
    found = faults(tmp_path)
    assert (len(found), said in "".join(found)) == (bool(said), True), found
    (tmp_path / "a.css").write_text("@import url('https://fonts.example/x')")
    assert "a.css loads https://fonts.example/x" in faults(tmp_path)


def test_llms_txt_has_every_page(tmp_path: Path) -> None:
    """It links each page as Markdown, by section, with its first sentence; the other file has all
    texts."""
    text = "# One\n\n![a picture](x.svg)\n\nSays [more](b.md) of it. And more.\n"
    program = ("repository/a.py.md", "a.py", "# a.py\n\nno text")
    write_llms(tmp_path, [("Start", [("one.md", "One", text), program])])
    short = (tmp_path / "llms.txt").read_text()
    assert short.startswith("# DPQ\n\n> ")
    assert "\n## Start\n\n- [One](one.md): Says more of it.\n" in short
    assert "[a.py](repository/a.py.md): no text" in short
    full = (tmp_path / "llms-full.txt").read_text()
    assert ("And more." in full, "no text" in full) == (True, False)
    assert (tmp_path / "one.md").read_text() == text
    assert first_sentence("# A\n\n| a | b |\n|---|---|\n") == ""


def test_guarantees_name_tests_that_are_there() -> None:
    """Each row of docs/guarantees.md leads to files that exist."""
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", text)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


class SimpleSource:
    """A page that is not on the disk."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._path, name)

    def read_text(self, encoding: str) -> str:
        """Return the text."""
        return self._text


needs_zensical = pytest.mark.skipif(
    not (
        SOAK and importlib.util.find_spec("zensical") and importlib.util.find_spec("mkdocstrings")
    ),
    reason="in the long profile, with the extra `docs`: make docs builds it, too",
)


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Path]:
    """The site, built."""
    assert site.build(tmp_path / "site") == []
    yield tmp_path / "site"
    shutil.rmtree(tmp_path / "site")


@needs_zensical
def test_a_broken_link_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is not there and an anchor that is not there are told with their lines."""
    true = Assembly.within_site

    def planted(self: Assembly, source: Path) -> str:
        text = true(self, source)
        return text + "\n[a](usage.md#none) [b](#nothing)\n" if source.name == "index.md" else text

    monkeypatch.setattr(Assembly, "within_site", planted)
    said = "\n".join(site.build(tmp_path / "site"))
    assert said.count("anchor does not exist") >= 2
    assert "index.md" in said
    assert not (tmp_path / "site").exists()


@needs_zensical
def test_the_site_works_from_a_folder(built: Path) -> None:
    """In a browser without a network each page asks for nothing elsewhere, and the search finds a
    word of the guides."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("no chromium")
    program = f"""
import json, sys
from playwright.sync_api import sync_playwright
asked, errors = [], []
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path={chromium!r}, args=["--no-sandbox"])
    page = browser.new_page()
    page.on("request", lambda each: asked.append(each.url))
    page.on("pageerror", lambda each: errors.append(str(each)))
    for name in ("index", "storage", "life_of_a_task", "api/queue", "cli/work"):
        page.goto("file://{built}/" + name + ".html")
    page.keyboard.press("Control+k")
    box = page.locator("input[placeholder='Search']").last
    box.wait_for(state="visible")
    box.fill("five minutes")
    page.wait_for_selector("a[href*='five_minutes.html']:has-text('first look')", timeout=60_000)
    browser.close()
outside = [each for each in asked if not each.startswith(("file:", "data:", "blob:"))]
print(json.dumps([outside, errors]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], []]
