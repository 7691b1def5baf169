"""Builds the site of the documents: `python -m tools.docs_site [FOLDER]`, or `make docs`.

FOLDER is where the site is written, `site` if none is named. Exit codes: 0 built, 1 faults found.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.docs_site.assemble import Assembly, staged
from tools.docs_site.check import faults
from tools.docs_site.llms import SAYS, write_llms
from tools.docs_site.nav import ROOT, NavError, Section, read_nav
from tools.docs_site.reference import call_pages, call_text, cli_pages

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What Zensical loads so that the search runs from a folder, too; the site has its own."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")

UNREAD = re.compile(r"griffe: .*(Failed to get|does not appear)")
"""What is said of a docstring whose sections are not as Google's style has them."""

SETTINGS: dict[str, Any] = {
    "site_name": "DPQ",
    "site_description": SAYS,
    "use_directory_urls": False,  # pages open from a folder, and links are those of docs/
    "extra_css": ["dpq.css"],
    "extra": {"generator": False},
    "theme": {
        "language": "en",
        "font": False,  # none of another host
        "features": [
            *("content.code.copy", "navigation.footer", "navigation.path", "navigation.sections"),
            *("navigation.top", "search.highlight", "toc.follow"),
        ],
        "palette": [
            {
                "media": f"(prefers-color-scheme: {scheme})",
                "scheme": name,
                "toggle": {"icon": f"lucide/{icon}", "name": f"Switch to {other}"},
            }
            for scheme, name, icon, other in (
                ("light", "default", "sun", "dark"),
                ("dark", "slate", "moon", "light"),
            )
        ],
    },
    "plugins": {
        "search": {},
        "offline": {},
        "mkdocstrings": {
            "handlers": {
                "python": {
                    "paths": [str(ROOT)],
                    "options": {
                        "docstring_style": "google",
                        "docstring_section_style": "list",
                        "filters": ["!^_"],
                        "heading_level": 2,
                        "inherited_members": True,
                        "members_order": "source",
                        "merge_init_into_class": True,
                        "separate_signature": True,
                        "show_bases": False,
                        "show_overloads": False,
                        "show_root_heading": True,
                        "show_root_full_path": False,
                        "show_signature_annotations": True,
                        "show_source": False,
                    },
                }
            }
        },
    },
    "markdown_extensions": {
        "attr_list": {},
        "md_in_html": {},
        "tables": {},
        "toc": {"permalink": True},
        "pymdownx.superfences": {},
        "pymdownx.highlight": {"pygments_lang_class": True},
    },
}


def parts_of(sections: list[Section], work: Path) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Write the sources into `work`, and return path, title and text of all pages by section."""
    made = {"api": call_pages(), "cli": cli_pages()}
    assembly = Assembly(sections, work)
    assembly.run()
    parts = []
    for section in sections:
        pages = []
        for page in section.pages:
            path = staged(page.source).as_posix()
            pages.append((path, page.title, (work / path).read_text(encoding="utf-8")))
        for kind in section.made:
            for path, (title, text) in made.get(kind, {}).items():
                assembly.write(Path(path), text)
                pages.append((path, title, call_text(path) if kind == "api" else text))
            for program in assembly.programs if kind == "programs" else ():
                path = staged(program.source).as_posix()
                pages.append((path, program.title, (work / path).read_text(encoding="utf-8")))
        parts.append((section.title, pages))
    return parts


def nested(pages: list[tuple[str, str, str]]) -> list[Any]:
    """Return the nav of one section; what is made has a heading of its own."""
    names = {"api": "Calls", "cli": "Command line", "repository": "Programs"}
    entries: list[Any] = []
    folders: dict[str, list[Any]] = {}
    for path, title, _ in pages:
        folder, _, rest = path.partition("/")
        if folder not in names or (
            folder == "repository" and rest.removesuffix(".md") not in title
        ):
            entries.append({title: path})
            continue
        if folder not in folders:
            folders[folder] = []
            entries.append({names[folder]: folders[folder]})
        folders[folder].append({title: path})
    return entries


def build(site: Path) -> list[str]:
    """Build the site into a folder; return what is wrong, a line each."""
    with tempfile.TemporaryDirectory(prefix="dpq-site-") as folder:
        work = Path(folder) / "pages"
        parts = parts_of(read_nav(), work)
        for name in ("dpq.css", "worker.js"):
            shutil.copyfile(Path(__file__).with_name(name), work / name)
        built = Path(folder) / "site"
        settings = SETTINGS | {
            "docs_dir": "pages",
            "site_dir": "site",
            "nav": [{title: nested(pages)} for title, pages in parts],
        }
        config = Path(folder) / "mkdocs.yml"
        config.write_text(json.dumps(settings), encoding="utf-8")  # YAML takes JSON
        done = subprocess.run(
            [Path(sys.executable).with_name("zensical"), "build", "--strict", "-f", config],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = COLOURS.sub("", done.stdout + done.stderr).splitlines()
        if done.returncode:
            return said
        unread = [line for line in said if UNREAD.search(line)]
        for page in built.rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            up = "../" * len(page.relative_to(built).parent.parts)
            page.write_text(text.replace(SHIM, f"{up}worker.js"), encoding="utf-8")
        write_llms(built, parts)
        found = unread + faults(built)
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(built, site)
        return found


def main() -> int:
    """Build the site; print what is wrong, or where it is."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    try:
        found = build(site)
    except NavError as error:
        found = [str(error)]
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{site}/index.html: {len(list(site.rglob('*.html')))} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
