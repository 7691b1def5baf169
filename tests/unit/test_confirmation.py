"""What is sent to have changes confirmed, what the answers mean, and what is sent again."""

from collections.abc import Callable
from typing import Any

import pytest
from dpq.transport.resending import Try
from redis.exceptions import AskError, MovedError, NoPermissionError, NoScriptError, ResponseError

from dpq.protocol.command import Command, same
from dpq.protocol.confirmation import Confirmation, confirmation_of
from dpq.protocol.durability import Unconfirmed
from dpq.protocol.keys import key_of
from dpq.protocol.scripts import script
from dpq.transport.cluster import MISSING

UNKNOWN = NoScriptError("No matching script")
NO_EVAL = NoPermissionError("this user has no permissions to run the 'eval' command")
MARK = Unconfirmed(None, "replica", reason="by the client")
LATE = Unconfirmed(None, "replica")


def call(name: str, tag: str = "emails") -> Command[Any]:
    """A call of a script."""
    called = script(name)
    return Command(called, tuple(key_of(tag, part) for part in called.parts), [], same)


# What is sent, and what is answered


@pytest.mark.parametrize(
    ("names", "before", "behind"),
    [
        (["push", "ack"], [], ["HINCRBY", "WAIT"]),
        (["drop"], ["HINCRBY"], ["WAIT"]),
        (["drop", "push"], ["HINCRBY"], ["HINCRBY", "WAIT"]),
        (["pop", "push"], [], ["HINCRBY", "WAIT"]),
    ],
)
def test_a_write_without_effect_goes_along(
    names: list[str], before: list[str], behind: list[str]
) -> None:
    """It goes behind changes and before a drop, once for each; WAIT is the last of all."""
    exchange = Confirmation("replica").exchange([call(name) for name in names], None)
    assert [words[0] for words in exchange.before] == before
    assert [words[0] for words in exchange.behind] == behind
    assert exchange.size == len(names) + len(before) + len(behind)


@pytest.mark.parametrize(("timeout", "wait"), [(None, 3000), (10, 3000), (1, 700), (0.001, 1)])
def test_it_waits_for_a_share_of_the_clients_timeout(timeout: float | None, wait: int) -> None:
    """The timeout would end the connection, and with it the confirmation."""
    for durability, words in (("replica", ("WAIT", 1, wait)), ("fsync", ("WAITAOF", 1, 0, wait))):
        confirmation = confirmation_of(durability)  # type: ignore[arg-type]
        assert confirmation
        assert confirmation.exchange([call("push")], timeout).behind[-1] == words
    assert confirmation_of("async") is None


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([0, 1], None),
        ([0, 0], ""),
        ([0, MISSING], "the connection was cut"),
        ([ResponseError("no hincrby"), 1], "no hincrby"),
    ],
)
def test_the_answers(answers: list[Any], reason: str | None) -> None:
    """All replies of changes are marked unless all answers are good; those of others never are."""
    exchange = Confirmation("replica").exchange([call("push"), call("pop")], None)
    pushed, popped = exchange.read([b"id", b"task", *answers])
    assert popped == b"task"
    assert pushed == (
        b"id" if reason is None else Unconfirmed(b"id", "replica", confirmed=0, reason=reason)
    )


def test_a_disk_answers_for_itself() -> None:
    """Of WAITAOF's two numbers that of the server's own disk counts."""
    exchange = Confirmation("fsync").exchange([call("push")], None)
    assert exchange.read([b"id", 0, [1, 0]]) == [b"id"]
    assert exchange.read([b"id", 0, [0, 1]]) == [Unconfirmed(b"id", "fsync")]


SETTINGS_FOUND = [b"format", b"1"]


def test_settings_are_read_until_they_are_confirmed() -> None:
    """Beside a change in another than the first partition; once more when they may have changed."""
    confirmation = Confirmation("replica")
    elsewhere = [call("push", "emails{1")]

    def sent(commands: list[Command[Any]]) -> tuple[int, Callable[[list[Any]], list[Any]]]:
        every, judge = confirmation.with_settings(commands)
        return len(every) - len(commands), judge

    assert sent([call("push")])[0] == 0
    assert sent([call("pop", "emails{1")])[0] == 0
    for answer, marked in (
        (LATE, True),
        (ResponseError("no"), True),
        (SETTINGS_FOUND, False),
    ):
        count, judge = sent(elsewhere)
        assert count == 1
        (reply,) = judge([b"id", answer])
        assert isinstance(reply, Unconfirmed) is marked
    assert sent(elsewhere)[0] == 0
    sent([call("configure")])
    assert sent(elsewhere)[0] == 1


def test_an_error_of_a_change_is_not_hidden() -> None:
    """A script that was refused stays so, whether or not the settings are confirmed."""
    refusal = ResponseError("OOM")
    _, judge = Confirmation("replica").with_settings([call("push", "emails{1")])
    assert judge([refusal, LATE]) == [refusal]


# What is sent again


OWN, OWN_TEXT, OWN_LOADED = (
    Try(own=True, as_text=False, load=False),
    Try(own=True, as_text=True, load=False),
    Try(own=True, as_text=False, load=True),
)
CLIENT, TEXT, LOADED = (each._replace(own=False) for each in (OWN, OWN_TEXT, OWN_LOADED))
MOVED = MovedError("1 127.0.0.1:6379")
ASK = AskError("1 127.0.0.1:6379")
GOOD = b"reply"


