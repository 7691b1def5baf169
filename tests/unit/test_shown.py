"""Whatever is stored or raised, what reaches a person cannot steer a terminal or forge a line."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import steers

from dpq.model.display import shown, shown_json

texts = st.text(st.characters() | st.sampled_from("\x1b\x9b\x7f\u202e\u2028\n\t\ud800é"))


def test_every_character_that_steers_is_escaped() -> None:
    """Of all code points exactly those are escaped; in lines, tab and line feed stay."""
    for c in map(chr, range(0x110000)):
        assert (shown(c) != c) == bool(steers(c)), hex(ord(c))
    assert shown("\x1b[31m\u202e\n\t") == r"\x1b[31m\u202e\n\t"
    assert shown("a\n\tb\r\x85", lines=True) == "a\n\tb\\r\\x85"


@given(texts)
def test_what_is_shown_is_safe_and_says_what_it_was(text: str) -> None:
    """The rest is as it was, and it can be written in UTF-8."""
    safe = shown(text)
    assert not steers(safe)
    assert safe.encode().decode() == safe
    assert steers(text) or safe == text


@given(st.recursive(st.none() | texts, lambda x: st.lists(x) | st.dictionaries(texts, x)))
def test_json_at_a_terminal_means_the_same(value: object) -> None:
    """It is read back as what it was, and has no character that steers."""
    line = shown_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(line) == value
    assert not steers(line)


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What a program's own handler at the root writes, by the usual formatter."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_logs_and_their_tracebacks_are_clean(written: io.StringIO) -> None:
    """Whatever handlers a program has, a record of DPQ steers no terminal and forges no line."""
    log = logging.getLogger("dpq.worker.worker")
    evil = "\x1b[2J\u202e\u2028\x9b\ud800"
    try:
        raise ValueError(evil)  # noqa: TRY301 - to be logged
    except ValueError:
        log.exception("handler of %s failed: %s", "id\n2026 INFO forged", evil)
    log.warning("quiet %d", 5)
    said = written.getvalue()
    assert not steers(said.replace("\n", ""))
    assert "\n2026" not in said
    assert r"ValueError: \x1b[2J\u202e\u2028\x9b\ud800" in said
    assert "Traceback (most recent call last):\n" in said
    assert said.endswith("quiet 5\n")


def test_no_line_of_an_error_is_taken_for_a_record(written: io.StringIO) -> None:
    """The lines of a traceback are indented, in causes and groups too."""
    forged = "a\n\n  b\n2026-01-01 INFO forged"
    noted = KeyError("k")
    noted.add_note(forged)
    group = ExceptionGroup("g", [ValueError("plain"), ValueError(forged)])
    for error in (ValueError(forged), noted, group):
        logging.getLogger("dpq.worker.worker").warning("first", exc_info=error)
        try:
            raise RuntimeError("plain") from error  # noqa: TRY301 - to be logged
        except RuntimeError:
            logging.getLogger("dpq.worker.worker").exception("second")
    said = written.getvalue()
    assert said.count("2026-01-01 INFO forged") == 6
    assert "\n2026" not in said
