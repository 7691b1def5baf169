"""Makes the pages of the reference: calls from their docstrings, commands from the command line.

The pages of calls only name what mkdocstrings is to read; `call_text` has the same as text, for
llms-full.txt.
"""

import ast
import inspect
import re
from typing import Any

import typer.main
from rich.markup import render

import dpq
from dpq.cli import app
from tools.docs_site.nav import ROOT

CALLABLE = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

CALLS = {
    "Queue": (
        "The queue. `AsyncDPQ` has every method of `DPQ`, with the same arguments, to be awaited.",
        "DPQ AsyncDPQ DeadLetters AsyncDeadLetters pop_first pop_first_async",
    ),
    "Tasks and their data": (
        "What is pushed, and what a pop, a look or an ack gives.",
        "Push Popped Task TaskState Cost DeadTask TaskFailure Result Progress NO_RESULT "
        "OnDuplicate OnDead Backoff",
    ),
    "Workers": (
        "Programs that run handlers, named tasks, and the signals that a handler raises.",
        "Worker AsyncWorker Context Tasks TaskFunction Signal RateLimited Retry Reject "
        "Release Scheduler",
    ),
    "Limits": (
        "What may run, how often and beside what.",
        "RateLimit Quota Budget Adaptive Reserve Permit AsyncPermit LimitState MemberState "
        "QuotaState",
    ),
    "Settings": (
        "Settings of a queue, and the queues of a server.",
        "Order Fairness Payloads Bounds known_queues",
    ),
    "What a queue tells": (
        "What the methods return that only look.",
        "QueueStats Verdict VerdictState Forecast Drain Slot Times Event BatchState "
        "WorkerInfo LeaseInfo Problem Health Filter BulkProgress Imported",
    ),
    "Errors": (
        "All errors and warnings. Redis errors pass through as they are.",
        "DPQError ConfigurationError PayloadError DuplicateTaskError QueueFullError "
        "TaskNotFoundError TaskDeadError LeaseLostError LimitTimeoutError "
        "ResultTimeoutError NotConfirmedError BatchNotFoundError BatchFinishedError "
        "ExportFileError ImportConflictError ServerWarning CostWarning",
    ),
}
"""Each page of calls: its title, what it says first, and the public names of `dpq` on it."""

MODULES = (
    *("requests", "httpx", "httpx2", "aiohttp", "fastapi", "django", "scrapy", "crawlee"),
    *("testing", "otel"),
)
"""Modules with a page of their own: what a user imports beside `dpq`."""

TWINS = {"AsyncDPQ": "DPQ", "AsyncWorker": "Worker", "AsyncPermit": "Permit"} | {
    "AsyncDeadLetters": "DeadLetters"
}
"""Classes whose methods are those of another one, but awaited."""


def call_pages() -> dict[str, tuple[str, str]]:
    """Return path -> title and text of each page of calls, for mkdocstrings."""
    pages = {}
    for title, (says, names) in CALLS.items():
        text = [f"# {title}\n\n{says}\n"]
        for name in names.split():
            text.append(f"::: dpq.{name}\n")
            if twin := TWINS.get(name):
                text.append(
                    "    options:\n      members: false\n\n"
                    f"`{name}` has the methods of [`{twin}`][dpq.{twin}]. They are awaited; "
                    "iterators are read by `async for`, and contexts entered by `async with`.\n"
                )
        pages[f"api/{title.lower().replace(' ', '_')}.md"] = title, "\n".join(text)
    for name in MODULES:
        pages[f"api/{name}.md"] = f"dpq.{name}", f"# dpq.{name}\n\n::: dpq.{name}\n"
    return pages


def signature(call: Any) -> str:
    """Return a call's arguments as text, or nothing if it takes none."""
    try:
        return str(inspect.signature(call))
    except (TypeError, ValueError):
        return ""


def module_text(name: str) -> list[str]:
    """Return what a module of `dpq` offers, read and not imported: its client may be missing."""
    path = ROOT / "dpq" / f"{name}.py"
    path = path if path.exists() else ROOT / "dpq" / name / "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [f"{ast.get_docstring(tree) or ''}\n"]
    for thing in tree.body:
        if not isinstance(thing, CALLABLE) or thing.name.startswith("_"):
            continue
        is_class = isinstance(thing, ast.ClassDef)
        lines.append(f"## {thing.name}\n" + (f"\n{ast.get_docstring(thing)}\n" if is_class else ""))
        for each in thing.body if is_class else [thing]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                told = ast.get_docstring(each)
                if told and (each.name == "__init__" or not each.name.startswith("_")):
                    call = f"{each.name}({ast.unparse(each.args)})"
                    lines.append(f"```python\n{call}\n```\n\n{told}\n")
    return lines


def call_text(path: str) -> str:
    """Return what a page of calls shows, as plain Markdown."""
    title, text = call_pages()[path]
    lines = [f"# {title}\n"]
    for name in re.findall(r"^::: dpq\.(\w+)$", text, re.MULTILINE):
        if name in MODULES:
            lines += module_text(name)
            continue
        thing = getattr(dpq, name)
        lines.append(f"## {name}\n\n{inspect.getdoc(thing) or ''}\n")
        if inspect.isclass(thing) and name not in TWINS:
            for method, value in inspect.getmembers(thing, inspect.isroutine):
                own = str(getattr(value, "__module__", "")).startswith("dpq.")  # not pydantic's
                if own and not method.startswith("_") and value.__doc__:
                    call = f"{name}.{method}{signature(value)}"
                    lines.append(f"### {call}\n\n{inspect.getdoc(value)}\n")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return a text of the command line for Markdown: one line, and no mark of either."""
    text = " ".join(render(text).plain.split()).replace("\\", "\\\\").replace("<", "&lt;")
    return re.sub(r"([|*_\[\]])", r"\\\1", text)


def paragraphs(told: str) -> str:
    """Return a command's help as Markdown; what it shows line by line becomes a block."""
    parts = []
    for part in inspect.cleandoc(told).split("\n\n"):
        if "\n  " in part or part.startswith("\b"):
            lines = render(part.replace("\b\n", "").replace("\b", "")).plain.strip()
            parts.append(f"```text\n{lines}\n```")
        elif part.strip():
            parts.append(cell(part))
    return "\n\n".join(parts) + "\n"


def command_text(name: str, command: Any, parent: Any) -> list[str]:
    """Return the part of a page that shows one command, with the commands below it.

    Options of the panel "Where" are the same everywhere: the page of `dpq` itself has them.
    """
    context = command.context_class(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    path = context.command_path.split(" [")[0]
    path = f"dpq {name}" if parent and parent.parent is None else path
    lines = [f"## {path}\n", f"```text\n{path} {usage}\n```\n", paragraphs(command.help or "")]
    rows = []
    for each in command.params:
        where = parent and getattr(each, "rich_help_panel", None) == "Where"
        if where or getattr(each, "hidden", False) or each.name == "help":
            continue
        names = ", ".join(f"`{option}`" for option in (*each.opts, *each.secondary_opts))
        if each.param_type_name == "argument":
            names = f"`{each.name.upper()}`"
        says = cell(getattr(each, "help", None) or "")
        if variable := getattr(each, "envvar", None):
            says += f" Environment: `{variable}`."
        rows.append(f"| {names} | {says} |")
    if rows:
        lines.append("\n".join(["| option | what it does |", "|---|---|", *rows]) + "\n")
    for below, part in getattr(command, "commands", {}).items():
        if parent and not part.hidden:
            lines += command_text(below, part, context)
    return lines


def cli_pages() -> dict[str, tuple[str, str]]:
    """Return path -> title and text of the page of `dpq`, and of one for each panel of its help."""
    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="dpq")
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():
        if not command.hidden:
            lines = panels.setdefault(command.rich_help_panel, [])
            lines += command_text(name, command, context)
    first = "\n".join(["# dpq\n", *command_text("dpq", root, None)[1:]])
    pages = {"cli/dpq.md": ("dpq", first)}
    for panel, lines in panels.items():
        says = "Each command takes [`--url` and `--queue`](dpq.md), too.\n"
        text = "\n".join([f"# dpq: {panel.lower()}\n", says, *lines])
        pages[f"cli/{panel.lower()}.md"] = f"dpq: {panel.lower()}", text
    return pages
