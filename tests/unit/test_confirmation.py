"""What is sent to have changes confirmed, and what the answers mean."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from dpq.link.cluster import MISSING
from dpq.script.assembly import script
from dpq.script.command import Command, same
from dpq.script.durability import BY_CLIENT, Unconfirmed, confirming, judged, unconfirmed
from dpq.script.keys import key_of


def call(name: str) -> Command[Any]:
    """A call of a script."""
    called = script(name)
    return Command(called, tuple(key_of("emails", part) for part in called.parts), [], same)


@pytest.mark.parametrize(
    ("names", "behind"),
    [
        (["push", "ack"], ["HINCRBY", "WAIT"]),
        (["pop", "push"], ["HINCRBY", "WAIT"]),
        (["drop"], ["WAIT"]),
        (["pop", "extend"], []),
    ],
)
def test_a_write_without_effect_goes_along(names: list[str], behind: list[str]) -> None:
    """It goes behind changes, but not where it would store something again; WAIT is the last."""
    words = confirming([call(name) for name in names], "replica", None)
    assert [command[0] for command in words] == behind


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
    commands = [call("push"), call("pop"), call("ack")]
    refusal = ResponseError("OOM")
    pushed, popped, acked = judged(commands, "replica", [b"id", b"task", refusal, *answers])
    assert popped == b"task"
    assert acked is refusal
    assert pushed == (b"id" if reason is None else Unconfirmed(b"id", "replica", reason=reason))


def test_what_the_client_sends_is_not_confirmed() -> None:
    """A change is marked, a look is not."""
    marked = Unconfirmed(b"id", "replica", reason=BY_CLIENT)
    assert unconfirmed(call("push"), "replica", b"id", BY_CLIENT) == marked
    assert unconfirmed(call("pop"), "replica", b"id", BY_CLIENT) == b"id"
