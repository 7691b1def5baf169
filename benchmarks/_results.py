"""The file RESULTS.md: what `make bench` has measured, on the code as it stands.

Each section is of one benchmark on one server, and names the code that it measured. A run replaces
the sections of its benchmarks. Sections of other code go, so that no old figure stays.
"""

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FILE = ROOT / "benchmarks" / "RESULTS.md"

HEAD = """\
# What was measured

`make bench` writes this file; nobody edits it. Each section names the code that it measured: the
ids of `dpq/` and of the benchmark's file. `git rev-parse HEAD:dpq HEAD:benchmarks/bench_push.py`
prints such ids. What was measured on other code is not here. [README.md](README.md) says how to
read a row. Bold: the target is missed.
"""

_MARK = re.compile(r"^<!-- (\w+) \| ([^|]+) \| (\w+) (\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """The rows of one benchmark on one server.

    Attributes:
        name: The benchmark.
        server: The family and the version of the server.
        code: The ids of `dpq/` and of the benchmark's file.
        text: Its heading and its lines of Markdown.
    """

    name: str
    server: str
    code: tuple[str, str]
    text: str


def code_of(name: str) -> tuple[str, str]:
    """Return the ids of the code that a benchmark measures.

    Raises:
        ValueError: Something there is not committed, so no id names it.
    """
    paths = ["dpq", f"benchmarks/bench_{name}.py"]
    if changed := _git("status", "--porcelain", "--", "dpq", "benchmarks/*.py"):
        raise ValueError(f"commit first, so that the figures have a commit:\n{changed}")
    first, second = _git("rev-parse", *(f"HEAD:{path}" for path in paths)).split()
    return first[:12], second[:12]


def _git(*words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def section(name: str, about: str, report: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """Write the rows of one benchmark."""
    heading = f"## {name}, {report['server']}\n\n{about}\n"
    return "\n".join([heading, head_of(report), *map(line_of, rows)])


def head_of(report: dict[str, Any]) -> str:
    """Write where and when it was measured, and the head of the table."""
    return """\
{server}, {machine}, Python {python}, commit {commit}, {when}.

| measure | target | reached | spread | detail |
|---|---|---|---|---|""".format_map(report)


def line_of(row: dict[str, Any]) -> str:
    """Write one row of the table."""
    cells = [row["measure"], *_figures(row)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _figures(row: dict[str, Any]) -> tuple[str, str, str, str]:
    if "failed" in row:
        return "-", "**failed**", "-", row["failed"]
    unit, target = row["unit"], row["target"]
    reached = f"{row['reached']:.3g} {unit}".strip()
    return (
        f"{target['kind']} {target['bound']:g} {unit}".strip() if target else "-",
        reached if row["ok"] else f"**{reached}**",
        f"{row['least']:.3g} - {row['most']:.3g}",
        row["detail"] or "-",
    )


def read(text: str) -> list[Section]:
    """Read the sections of the file."""
    _, *parts = _MARK.split(text)
    marks = zip(*[iter(parts)] * 5, strict=True)
    return [Section(name, server, (ours, its), text) for name, server, ours, its, text in marks]


def merged(
    known: Iterable[Section],
    new: Iterable[Section],
    order: Sequence[str],
    code: Callable[[str], tuple[str, str]],
) -> list[Section]:
    """Put new sections in the place of old ones; leave out those of other code."""
    by_place = {(each.name, each.server): each for each in (*known, *new)}
    kept = [each for each in by_place.values() if each.name in order]
    kept = [each for each in kept if each.code == code(each.name)]
    return sorted(kept, key=lambda each: (order.index(each.name), each.server))


def write(sections: Iterable[Section]) -> str:
    """Write the text of the file."""
    parts = [HEAD]
    for each in sections:
        mark = f"<!-- {each.name} | {each.server} | {' '.join(each.code)} -->"
        parts.append(f"\n{mark}\n{each.text.strip()}\n")
    return "".join(parts)


def put(new: Section, order: Sequence[str]) -> None:
    """Put a section into the file; what was measured on other code goes."""
    known = read(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    FILE.write_text(write(merged(known, [new], order, code_of)), encoding="utf-8")
