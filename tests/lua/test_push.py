"""push: add tasks, all or none, ready or delayed."""

import pytest

from dpq import DPQ, ConfigurationError, DuplicateTaskError, LeaseLostError, Push

MODES = ["keep", "update", "raise_priority", "rerun", "error"]
STATES = ["ready", "delayed", "waiting", "invisible", "dead"]


def hold(q, clock, state, priority=5):
    """A task with key k in group g and in this state."""
    if state == "waiting":
        q.push("head", group="g", priority=priority + 10)
    task_id = q.push(
        "old", priority, 60 if state == "delayed" else 0, group="g", key="k", max_attempts=3
    )
    if state in ("invisible", "dead"):
        task = q.pop().task
        if state == "dead":
            q.bury(task, "gave up")
    assert q.get(task_id).state == state
    clock.advance(1)
    return task_id


# New tasks


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("aging", [None, 1.0])
def test_ready(q, clock, probe, group, aging):
    """A push without a delay is ready at once and wakes, in a group and with aging too."""
    queue = DPQ(q.redis, q.queue_name, aging=aging, clock=clock)
    task_id = queue.push("x", group=group)
    assert probe.state(task_id) == "ready"
    assert probe.woken()


@pytest.mark.parametrize("options", [{}, {"delay": 5}, {"group": "g"}, {"key": "k"}])
def test_sent_again(q, clock, probe, options):
    """An id that is stored already is left alone, before and after it was popped."""
    q.push("before")
    command = next(q._operations.push_many([Push(payload="x", **options)]))
    probe.call("push", *command.args)
    before = probe.stored()
    probe.call("push", *command.args)
    assert probe.stored() == before
    clock.advance(5)
    q.pop_many(5)
    before = probe.stored()
    probe.call("push", *command.args)
    assert probe.stored() == before


@pytest.mark.parametrize("refused", ["error", "other group"])
def test_batch_is_atomic(q, probe, refused):
    """When one push of a batch is refused, nothing of that batch is written."""
    holder = q.push("old", key="k", group="g")
    probe.woken()
    before = probe.stored()
    pushes = [Push(payload=i, group="g", delay=i) for i in range(3)]
    bad = {"error": Push(payload=9, key="k", on_duplicate="error", group="g")}
    bad["other group"] = Push(payload=9, key="k", on_duplicate="update", group="h")
    errors = {"error": DuplicateTaskError, "other group": ConfigurationError}
    with pytest.raises(errors[refused], match=holder):
        q.push_many([*pushes, bad[refused], *pushes])
    assert probe.stored() == before


# Keys


@pytest.mark.parametrize("state", STATES)
def test_keep(q, clock, probe, state):
    """`keep` leaves the holder of the key exactly as it is, in every state."""
    holder = hold(q, clock, state)
    before = probe.stored()
    assert q.push("new", 9, 3, key="k", group="g", on_duplicate="keep") == holder
    assert probe.stored() == before


@pytest.mark.parametrize("state", STATES)
def test_error(q, clock, probe, state):
    """`error` refuses with key and holder, in every state, and changes nothing."""
    holder = hold(q, clock, state)
    before = probe.stored()
    with pytest.raises(DuplicateTaskError) as caught:
        q.push("new", 9, 3, key="k", group="g", on_duplicate="error")
    assert (caught.value.key, caught.value.task_id) == ("k", holder)
    assert probe.stored() == before


@pytest.mark.parametrize("mode", MODES)
def test_free_key(q, mode):
    """With a free key every mode adds the task; the key is free again after the ack."""
    first = q.push("x", key="k", on_duplicate=mode)
    q.pop().on_success()
    second = q.push("y", key="k", on_duplicate=mode)
    assert first != second
    assert q.pop().task.payload == "y"


@pytest.mark.parametrize("mode", MODES[:4])
@pytest.mark.parametrize("state", ["invisible", "dead"])
@pytest.mark.parametrize("group", ["h"])
def test_other_group(q, clock, probe, mode, state, group):
    """A push to a key whose holder is in another group changes nothing; `keep` is not refused."""
    holder = hold(q, clock, state)
    before = probe.stored()
    if mode == "keep":
        assert q.push("new", key="k", group=group) == holder
        assert probe.stored() == before
        return
    with pytest.raises(ConfigurationError, match=f"'k' belongs to task {holder} of another group"):
        q.push("new", key="k", group=group, on_duplicate=mode)
    assert probe.stored() == before


@pytest.mark.parametrize("mode", ["update", "rerun"])
@pytest.mark.parametrize("state", ["ready", "delayed", "waiting"])
def test_update_in_place(q, clock, probe, mode, state):
    """`update` gives a task that does not run payload, priority and delay; its place stays."""
    holder = hold(q, clock, state)
    order = probe.record(holder)["order"]
    assert q.push("new", 7, 0, key="k", group="g", on_duplicate=mode) == holder
    task = q.get(holder)
    assert (task.payload, task.priority, task.max_attempts) == ("new", 7, 3)
    assert task.state == ("waiting" if state == "waiting" else "ready")
    assert probe.record(holder)["order"] == order
    q.push("newer", 8, 20, key="k", group="g", on_duplicate=mode)
    task = q.get(holder)
    assert (task.payload, task.priority, task.state) == ("newer", 8, "delayed")
    assert task.visible_until.timestamp() * 1000 == clock.ms + 20_000
    assert q.stats().pushed == 1 + (state == "waiting")


def test_update_running(q, clock, probe):
    """`update` of a running task changes payload and priority for its return, not its lease."""
    holder = hold(q, clock, "invisible")
    until = q.get(holder).visible_until
    q.push("new", 9, 40, key="k", group="g", on_duplicate="update")
    task = q.get(holder)
    assert (task.payload, task.priority, task.state) == ("new", 9, "invisible")
    assert task.visible_until == until
    q.push("better than before", 8, group="g")
    clock.advance(29)
    assert probe.pop().payload == "new"


@pytest.mark.parametrize("mode", ["update", "rerun"])
def test_revive(q, clock, probe, mode):
    """A dead holder comes back with all its attempts, new data and no reason."""
    holder = hold(q, clock, "dead")
    options = {"max_attempts": 8, "expires_in": 50, "on_duplicate": mode}
    assert q.push("new", 9, 2, key="k", group="g", **options) == holder
    task = q.get(holder)
    assert (task.state, task.payload, task.priority, task.max_attempts) == ("delayed", "new", 9, 8)
    assert (task.attempt, task.deliveries, task.token, task.last_error) == (1, 0, 0, None)
    assert task.enqueued_at.timestamp() * 1000 == clock.ms
    assert probe.record(holder)["expires"] == str(clock.ms + 50_000)
    assert (q.stats().dead, probe.record(holder)["reason"]) == (0, "")
    clock.advance(2)
    assert probe.pop().id == holder


def test_revive_fences_the_old_holder(q, clock, probe):
    """Who held the task before it died and was revived has no lease any more."""
    q.push("x", key="k")
    task = probe.pop()
    q.bury(task, "r")
    q.push("y", key="k", on_duplicate="update")
    for verb in (q.extend, q.release, q.set_visibility):
        with pytest.raises(LeaseLostError):
            verb(task, 1)
    assert q.ack(task) is False
    assert probe.pop().payload == "y"


@pytest.mark.parametrize("state", ["ready", "delayed", "waiting", "invisible"])
def test_raise_priority(q, clock, probe, state):
    """`raise_priority` raises to a higher priority and changes nothing else, whatever the state."""
    holder = hold(q, clock, state)
    before = q.get(holder)
    q.push("new", 9, 77, key="k", group="g", on_duplicate="raise_priority", max_attempts=9)
    assert q.get(holder) == before.model_copy(update={"priority": 9})


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("priority", [5, 4])
def test_raise_priority_not(q, clock, probe, state, priority):
    """A lower or equal priority changes nothing."""
    hold(q, clock, state)
    before = probe.stored()
    q.push("new", priority, key="k", group="g", on_duplicate="raise_priority")
    assert probe.stored() == before


def test_rerun_of_a_running_task(q, clock, probe):
    """`rerun` leaves the lease alone; what runs after the crash of the run is what was ordered."""
    holder = hold(q, clock, "invisible")
    until = q.get(holder).visible_until
    q.push("new", 9, key="k", group="g", on_duplicate="rerun")
    q.push("newer", 9, key="k", group="g", on_duplicate="rerun")
    assert q.get(holder).visible_until == until
    clock.advance(29)
    task = probe.pop()  # a crash in between does not lose the wish
    assert (task.payload, task.attempt) == ("newer", 2)
    q.ack(task)
    assert (q.size(), q.stats().acked) == (0, 1)


@pytest.mark.parametrize("end", ["bury", "spent", "lease", "fail", "release", "ack"])
def test_rerun_outlives_the_run(q, clock, probe, end):
    """However the run ends, what was ordered meanwhile runs once, and then the task is gone."""
    q.push("old", key="k", max_attempts=3)
    task = probe.pop()
    q.push("new", key="k", on_duplicate="rerun", max_attempts=3 if end == "fail" else 1)
    ends = {
        "bury": lambda: q.bury(task, "no"),
        "spent": lambda: q.fail(task, "no"),
        "lease": lambda: clock.advance(31),
        "fail": lambda: q.fail(task, "no", delay=0),
        "release": lambda: q.release(task),
        "ack": lambda: q.ack(task),
    }
    for _ in range(2):  # sent again after a lost reply, it changes nothing
        ends[end]()
    assert q.check() == []
    again = probe.pop()
    assert (again.payload, again.attempt) == ("new", 2 if end == "fail" else 1)
    assert q.ack(again)
    assert (q.size(), q.stats().dead) == (0, 0)


def test_wakes_only_with_news(q, probe):
    """A push into the middle of a group wakes nobody; an update that makes a task ready does."""
    q.push("head", 5, group="g")
    probe.woken()
    q.push("behind", group="g")
    q.push("x", delay=60, key="k")
    assert not probe.woken()
    q.push("x", key="k", on_duplicate="update")
    assert probe.woken()


@pytest.mark.parametrize("how", ["lease ran out", "deferred"])
def test_a_rerun_is_not_lost_with_a_late_ack(q, clock, how):
    """A rerun ends the token of a holder who is late: its ack does not take the new payload."""
    q.push("a", key="k")
    task = q.pop(visibility=1).task
    if how == "deferred":
        q.set_visibility(task, 5)
    else:
        clock.advance(2)
        q.promote()
    q.push("b", key="k", on_duplicate="rerun")
    assert q.ack(task) is False
    assert q.pop().task.payload == "b"
