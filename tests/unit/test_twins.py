"""The twins are what `tools/twins.py` makes of their sources."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

TOOL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "tools" / "twins.py")))


@pytest.mark.parametrize("twin", TOOL.TWINS)
def test_a_twin_says_what_its_source_says(twin: str) -> None:
    """The file of each twin has the code, the docstrings and the comments of its source."""
    assert TOOL.is_current(twin), f"dpq/{twin}.py is not what its source makes: run `make twins`"


@pytest.mark.parametrize("twin", TOOL.BLOCKING)
def test_a_source_has_nothing_that_only_asyncio_has(twin: str) -> None:
    """A source does not use the module asyncio, and no word of asyncio is left in its twin."""
    assert not re.search(r"^\s*(import|from) asyncio", TOOL.source_of(twin).read_text(), re.M)
    made = TOOL.file_of(twin).read_text(encoding="utf-8").partition("\n")[2]
    assert re.findall(r"\basync\b(?!\")|await\b|Async|_async\b", made) == []
