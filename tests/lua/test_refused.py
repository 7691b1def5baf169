"""What every verb of a holder refuses: a delivery that is over, whatever has ended it."""

import pytest

from dpq import LeaseLostError

VERBS = {
    "ack": lambda q, task: q.ack(task),
    "extend": lambda q, task: q.extend(task, 5),
    "set_visibility": lambda q, task: q.set_visibility(task, 45),
    "release": lambda q, task: q.release(task),
    "fail": lambda q, task: q.fail(task),
    "bury": lambda q, task: q.bury(task, "r"),
    "rate_limited": lambda q, task: q.rate_limited(task, 5),
}


def taken_over(q, clock, probe):
    """The lease ran out, and somebody else has the task."""
    task = probe.pop()
    clock.advance(30)
    again = probe.pop()
    assert again.token > task.token
    return task


def dead_by_its_lease(q, clock, probe):
    """The lease of the last attempt ran out: the holder may still finish the task."""
    q.cancel(q.peek()[0].id)
    q.push("x", group="g", key="k", max_attempts=1)
    task = probe.pop()
    clock.advance(30)
    q.promote()
    assert probe.state(task.id) == "dead"
    return task


def replayed(q, clock, probe):
    """The task was dead, and somebody else has it after a replay."""
    task = probe.pop()
    q.bury(task, "no")
    q.dead.replay()
    probe.pop()
    return task


def gone_by(remove):
    """Somebody has removed the task; an ack then says that nothing is left."""

    def gone(q, clock, probe):
        task = probe.pop()
        remove(q, task)
        return task

    return gone


def settled_by(verb):
    """The holder itself has ended the delivery; to say the same again is no error."""

    def settled(q, clock, probe):
        task = probe.pop()
        VERBS[verb](q, task)
        return task

    return settled


ENDS = {
    "taken over": (taken_over, set()),
    "dead by its lease": (dead_by_its_lease, {"ack"}),
    "never popped": (lambda q, clock, probe: q.peek()[0], {"ack"}),
    "acked": (settled_by("ack"), {"ack"}),
    "released": (settled_by("release"), {"ack", "release"}),
    "failed": (settled_by("fail"), {"ack", "fail"}),
    "buried": (settled_by("bury"), {"ack", "bury"}),
    "replayed": (replayed, set()),
    "cancelled": (gone_by(lambda q, task: q.cancel(task.id)), {"ack"}),
    "purged": (gone_by(lambda q, task: q.purge("invisible")), {"ack"}),
}
"""How a delivery is over, and what may be said of it all the same: see the tests of those verbs."""


def answer(verb, q, task):
    """What a verb says of a task: of which it was refused, and as what; or what it returned."""
    try:
        return VERBS[verb](q, task)
    except LeaseLostError as error:
        return error.task_id, error.action


@pytest.mark.fakeredis
@pytest.mark.parametrize("end", ENDS)
def test_a_delivery_that_is_over(q, clock, probe, end):
    """Every verb is refused by its name, and changes nothing: neither the task nor its group."""
    q.push("x", group="g", key="k")
    q.push("worse", priority=-1, group="g")
    over, may = ENDS[end]
    task = over(q, clock, probe)
    before = probe.stored()
    for verb in sorted(VERBS.keys() - may):
        said = f"{verb} of" if verb in ("set_visibility", "rate_limited") else verb
        assert (verb, answer(verb, q, task)) == (verb, (task.id, said))
        assert (verb, probe.stored()) == (verb, before)


def test_the_holder_keeps_what_another_delivery_was_refused(q, clock, probe):
    """After all those refusals the task is still its new holder's."""
    q.push("x")
    old = probe.pop()
    clock.advance(30)
    holder = probe.pop()
    for verb in VERBS:
        answer(verb, q, old)
    assert q.ack(holder) is True


def test_an_ack_of_what_was_never_popped(q, probe):
    """Who only looked at a task finishes nothing."""
    task = q.get(q.push("x"))
    before = probe.stored()
    assert answer("ack", q, task) in (False, (task.id, "ack"))
    assert probe.stored() == before
