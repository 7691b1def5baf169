"""Which names are queues: what is asked for each name, without a server."""

from typing import Any

import pytest
from redis.exceptions import NoPermissionError

from dpq.registry.all_queues import Sieve

ABSENT, THERE = 1, 0


def asked(sieve: Sieve, name: str, *answers: Any) -> tuple[list[str], bool]:
    """The scripts that are asked for, given what they answer, and the verdict on the name."""
    steps = sieve.is_queue(name)
    scripts = [next(steps).script.name]
    try:
        for answer in answers:
            refused = isinstance(answer, Exception)
            command = steps.throw(answer) if refused else steps.send(answer)
            scripts.append(command.script.name)
    except StopIteration as end:
        return scripts, end.value
    pytest.fail(f"asks for more than {scripts}")


def test_who_may_not_remove_names_tries_once() -> None:
    """After the first refusal names are only looked at, and queues are found as before."""
    sieve = Sieve()
    refusal = NoPermissionError("no permission")
    assert asked(sieve, "a", ABSENT, refusal) == (["absent", "unregister"], False)
    for name in ("b", "c"):
        assert asked(sieve, name, ABSENT) == (["absent"], False)
    assert asked(sieve, "d", THERE) == (["absent"], True)
