"""The twins are what `tools/twins.py` makes of their sources."""

import re
from pathlib import Path

import pytest
from kit.tools import load_tool

ROOT = Path(__file__).parents[2]


TOOL = load_tool("twins")


@pytest.mark.parametrize("twin", TOOL.TWINS)
def test_a_twin_says_what_its_source_says(twin: str) -> None:
    """The file of each twin has the code, the docstrings and the comments of its source."""
    assert TOOL.is_current(twin), f"dpq/{twin}.py is not what its source makes: run `make twins`"


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [
        ("priority: float = 0", "priority: float = 1"),  # a default
        ("return self._end(self._operations.ack, task, cost, line)", "return True"),  # a body
        ("Finish a task: it is", "Finish a task; it is"),  # a docstring
        ("# it works in any format", "# of any format"),  # a comment
        ("# Made from queue_async.py", "# From queue_async.py"),  # the first line
    ],
)
def test_a_change_in_a_twin_is_noticed(
    here: str, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written into a twin by hand differs from its source."""
    text = TOOL.file_of("queue/queue").read_text(encoding="utf-8")
    assert here in text
    changed = tmp_path / "queue.py"
    changed.write_text(text.replace(here, elsewhere), encoding="utf-8")
    monkeypatch.setattr(TOOL, "file_of", lambda _: changed)
    assert not TOOL.is_current("queue/queue")


@pytest.mark.parametrize("twin", TOOL.BLOCKING)
def test_a_source_has_nothing_that_only_asyncio_has(twin: str) -> None:
    """A source does not use the module asyncio, and no word of asyncio is left in its twin."""
    assert not re.search(r"^\s*(import|from) asyncio", TOOL.source_of(twin).read_text(), re.M)
    made = TOOL.file_of(twin).read_text(encoding="utf-8").partition("\n")[2]
    assert re.findall(r"\basync\b(?!\")|await\b|Async|_async\b", made) == []
