"""The results as tables of Markdown: on the terminal, and in docs/comparison.md.

`python -m benchmarks.peers.tables TASKS.json REQUESTS.json` puts both into the page, between marks.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks._harness import REPOSITORY

PAGE = REPOSITORY / "docs" / "comparison.md"
RESULTS = Path(__file__).parent / "results"
"""Where the results are that the page shows: `tasks.json` and `requests.json`."""

Report = dict[str, Any]


def about(report: Report) -> str:
    """Say when, where and with which versions this was measured."""
    versions = ", ".join(
        f"{row['title']} {row['version']}" for row in report["rows"] if "version" in row
    )
    load = f", load {report['load']}" if "load" in report else ""
    rounds = f"{report['rounds']} round{'s' * (report['rounds'] != 1)}"
    what = f"{report['tasks']} tasks" if "tasks" in report else f"{report['requests']} requests"
    return (
        f"{report['when']}, commit {report['commit']}, {report['machine']}{load}, Python "
        f"{report['python']}, {report['server']}; {what}, medians of {rounds}. "
        f"{versions}."
    )


def table(report: Report) -> str:
    """Make the table of either comparison."""
    return _tasks(report["rows"]) if "tasks" in report else _requests(report)


def _tasks(rows: Sequence[Report]) -> str:
    steps = ("push", "push_many", "consume", "consume_10")
    head = (
        *("queue", "push", "push, 100s", "consume, 1", "consume, 10"),
        *("commands a task", "network bytes", "server us", "stored bytes", "set-up"),
    )
    lines = [*_head(head)]
    for row in rows:
        if "failed" in row:
            lines.append(_line([row["title"], *["-"] * 8, _plain(row["failed"])]))
            continue
        found = row["steps"]
        ratios = [_ratio(found.get(step)) for step in steps]
        sums = [
            _sum(found, "commands", "{:.1f}"),
            _sum(found, "network", "{:.0f}"),
            _sum(found, "server_us", "{:.0f}"),
            "{:.0f}".format(found["push"]["memory"]),
        ]
        lines.append(_line([f"{row['title']} {row['version']}", *ratios, *sums, row["note"]]))
    return "\n".join(lines)


def _ratio(step: Report | None) -> str:
    return f"{step['ratio']:.2f} ({step['rate']:.0f}/s)" if step else "-"


def _sum(steps: Report, figure: str, form: str) -> str:
    """Add what a task costs when it is pushed alone and what it costs when it is consumed alone."""
    if figure not in steps["push"]:
        return "-"
    return form.format(steps["push"][figure] + steps["consume"][figure])


def _requests(report: Report) -> str:
    head = (
        *("way", "time / least", "requests sent", "429s in 1000 sent", "asked twice"),
        *("after a SIGKILL: not done", "asked twice", "time / least", "set-up"),
    )
    lines = [*_head(head)]
    for row in report["rows"]:
        if "failed" in row:
            lines.append(_line([row["title"], *["-"] * 7, _plain(row["failed"])]))
            continue
        calm, killed = row["calm"], row["killed"]
        lines.append(
            _line(
                [
                    f"{row['title']} {row['version']}",
                    _time(calm),
                    f"{calm['sent']:.0f}",
                    f"{calm['refused'] / calm['sent'] * 1000:.0f}",
                    f"{calm['repeated']:.0f}",
                    f"{killed['lost']:.0f}",
                    f"{killed['repeated']:.0f}",
                    _time(killed),
                    row["note"],
                ]
            )
        )
    return "\n".join(lines)


def _time(run: Report) -> str:
    return f"{run['time']:.2f}" if not run["lost"] else f"> {run['time']:.1f}"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[-160:]


def _head(cells: Sequence[str]) -> Iterable[str]:
    yield _line(cells)
    yield _line(["---"] * len(cells), space="")


def _line(cells: Sequence[str], space: str = " ") -> str:
    return "|" + "|".join(f"{space}{cell}{space}" for cell in cells) + "|"


def put(page: str, reports: dict[str, Report]) -> str:
    """Return the page with its tables made anew."""
    for name, report in reports.items():
        text = f"\n{about(report)}\n\n{table(report)}\n"
        mark = re.compile(rf"(<!-- {name} -->)(.*?)(<!-- end of {name} -->)", re.DOTALL)
        parts = mark.split(page)
        if (count := len(parts) // 4) != 1:
            raise ValueError(f"the page has {count} places for {name}, not one")
        before, begin, _, end, after = parts
        page = "".join((before, begin, text, end, after))
    return page


def read() -> dict[str, Report]:
    """Read the results that the page shows."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RESULTS.glob("*.json"))
    }


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    for source in map(Path, sys.argv[1:]):
        found = json.loads(source.read_text(encoding="utf-8"))
        name = "tasks" if "tasks" in found else "requests"
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
