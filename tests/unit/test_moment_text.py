"""text_of: how Lua writes the moments of a gate."""

import random
from importlib import resources

import pytest
from lupa.lua51 import LuaRuntime


@pytest.fixture(scope="module")
def moment_text():
    """The function of the Lua file, without what it stands beside."""
    file = resources.files("dpq") / "protocol" / "lua" / "lib" / "limits" / "plain_text.lua"
    text = file.read_text(encoding="utf-8")
    start = text.index("local function moment_text")
    code = text[start : text.index("\nend\n", start) + 5]
    return LuaRuntime().execute(f"{code} return moment_text")


@pytest.mark.parametrize("least", [0, 2**40, 1_700_000_000_000, 2**41, 2**46])
def test_a_moment_is_read_as_it_was_written(moment_text, least):
    """What tonumber reads of the text is the same double, at each size of a time."""
    draw = random.Random(7)
    for _ in range(5000):
        moment = least + draw.choice([draw.random() * 1e6, draw.randrange(2**30) / 4096])
        assert float(moment_text(moment)) == moment


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0.0, "0"),
        (1_700_000_000_000.0, "1700000000000"),
        (1_700_000_000_000 + 1 / 4096, "1700000000000.0002"),
        (1_700_000_000_000 + 4095 / 4096, "1700000000000.9998"),
        (1000.5, "1000.5"),
    ],
)
def test_texts_are_short(moment_text, moment, text):
    """A whole moment has no point, and any other one four digits behind it."""
    assert moment_text(moment) == text
