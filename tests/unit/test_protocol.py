"""What clients in other languages are made from is what `tools/protocol.py` makes of DPQ."""

import re
from typing import Any

import pytest
from kit.tools import load_tool

from dpq.protocol.refusals import Code
from dpq.protocol.scripts import script, script_names, sources

TOOL = load_tool("protocol")
STALE = "run `make protocol`"


def test_the_page_says_what_the_headers_say():
    """The made parts of the page are those of the scripts, options and refusals of today."""
    text = TOOL.PAGE.read_text("utf-8")
    assert TOOL.page(text) == text, STALE


def test_the_scripts_of_the_client_are_those_of_dpq():
    """The generated file has each script, byte by byte."""
    assert TOOL.SCRIPTS.read_text("utf-8") == TOOL.generated_scripts(), STALE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("the lease, ms", "the lease, s"),  # an argument
        ("The token is not the live token", "The token is too old"),  # a refusal
        ("Safe to send again, the second answer stands.", "Send it again."),  # a lost reply
        ("| `delay` | a number from 0", "| `delay` | a number from 1"),  # an option
        ("| `drain` | Read how many", "| `drain` | Count how many"),  # another script
        ("| 1 to 200, ASCII |", "| 1 to 201, ASCII |"),  # a bound
    ],
)
def test_a_page_that_says_another_thing_is_seen(old, new):
    """A change by hand in a made part does not stay."""
    text = TOOL.PAGE.read_text("utf-8")
    assert old in text
    assert TOOL.page(text.replace(old, new)) == TOOL.page(text)


def test_a_page_without_a_part_is_refused():
    """A part that is missing, or that has another name, is named."""
    text = TOOL.PAGE.read_text("utf-8")
    with pytest.raises(ValueError, match="the page has the parts"):
        TOOL.page(text.replace("<!-- made: bounds -->", "<!-- made: bound -->"))


def test_each_refusal_is_explained():
    """A new refusal needs its meaning."""
    assert set(TOOL.MEANINGS) == set(Code)


@pytest.mark.parametrize("name", script_names())
def test_each_header_is_read_whole(name):
    """No word of a header is lost; each argument has a place, the reply and a lost reply a text."""
    contract = TOOL.contract_of(name)
    assert contract.keys == script(name).parts
    source = sources().operations[name]
    assert [place for place, _, _ in contract.arguments] == re.findall(
        r"^-- ARGV\[(.*?)\]", source, re.M
    )
    assert contract.returns
    assert contract.lost.endswith(".")
    said: list[Any] = [contract.summary, contract.returns, contract.lost]
    said += [part for argument in contract.arguments for part in argument]
    lines = source.splitlines()
    top = next(n for n, line in enumerate(lines) if not line.startswith("--") or "Needs:" in line)
    wanted = re.sub(r"^-- Keys:.*(?:\n--  +.*)*", "", "\n".join(lines[:top]), flags=re.M)
    for label in ("ARGV[", "Lost reply:", f"{name}:"):
        wanted = wanted.replace(label, " ")
    assert words(wanted) == sorted(word for each in said for word in words(str(each)))


def words(text: str) -> list[str]:
    """The words of a text, sorted."""
    return sorted(re.findall(r"\w+", text.replace("\\n", " ")))
