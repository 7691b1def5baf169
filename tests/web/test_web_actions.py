"""The actions: on one task, on a selection, on all that match; on queues and groups."""

from typing import Any

import pytest
from kit.web import Browser, furnish
from support import wait_for

from dpq import DPQ, ConfigurationError, Push, TaskNotFoundError, TaskState
from dpq.model.filter import Filter
from dpq.verbs import bulk
from dpq.web.actions import Job, Jobs


def test_run_now_replay_bury_and_remove(change: Browser, q: DPQ, path: str) -> None:
    """Each action moves its task to the state that it names."""
    ids = furnish(q)

    def do(action: str, state: str) -> None:
        change.submit(f"{path}/tasks", 200, action=action, ids=ids[state], sure=1, reason="enough")

    do("run", "delayed")
    assert q.get(ids["delayed"]).state is TaskState.READY
    do("replay", "dead")
    assert q.get(ids["dead"]).state is TaskState.READY
    do("bury", "invisible")
    buried = q.get(ids["invisible"])
    assert buried.state is TaskState.DEAD
    assert buried.reason == "enough"  # type: ignore[attr-defined]
    do("purge", "invisible")
    with pytest.raises(TaskNotFoundError):
        q.get(ids["invisible"])
    do("cancel", "waiting")
    with pytest.raises(TaskNotFoundError):
        q.get(ids["waiting"])


def ended(q: DPQ, *job: Any, **more: Any) -> Job:
    """A job that was counted, confirmed and has ended."""
    jobs, made = Jobs(), Job(q, *job, **more)
    jobs.begin(made)
    wait_for(lambda: made.state == "counted", lambda: made.state)
    jobs.confirm(made, made.count)
    wait_for(lambda: made.ended, lambda: made.state)
    assert made.state == "done", made.error
    return made


@pytest.mark.parametrize(
    ("action", "chosen", "count"),
    [
        ("cancel", Filter(TaskState.READY), 450),
        ("cancel", Filter(TaskState.READY, text="odd"), 225),
        ("update", Filter(TaskState.READY, least=100), 350),
        ("cancel", Filter(TaskState.WAITING, group="a"), 29),
        ("run", Filter(TaskState.DELAYED), 20),
    ],
)
def test_all_that_match_and_nothing_else(q: DPQ, action: str, chosen: Filter, count: int) -> None:
    """An action on a filter reaches each task that matches, in steps, and no other."""
    q.push_many([Push(["even", "odd"][n % 2], n) for n in range(449)])
    q.push_many([Push("odd", -1)])
    q.push_many([Push(n, -9, group="a") for n in range(30)])
    q.push_many([Push(n, delay=60) for n in range(20)])
    q.cancel(q.peek(500)[-1].id)  # the head of the group: another follows
    q.push("head again", 99, group="a")
    before = {task.id: task for state in TaskState for task in q.peek(1000, state)}
    job = ended(q, action, chosen, 7 if action == "update" else None)
    extra = 1 if chosen.everything and chosen.state is TaskState.READY else 0
    if action == "update":
        count = sum(t.priority >= 100 for t in before.values())
    assert (job.count, job.done, job.missed) == (count + extra, count + extra, 0)
    after = {task.id: task for state in TaskState for task in q.peek(1000, state)}
    changed = [id_ for id_, task in before.items() if after.get(id_) != task]
    if action == "update":
        assert all(after[id_].priority == 7 for id_ in changed)
        assert not [task for task in after.values() if task.priority >= 100]
    else:
        assert len(changed) - job.done in (0, 1)  # the next head of the group
    assert q.check() == []


def test_a_job_acts_on_no_more_than_was_counted(q: DPQ) -> None:
    """What is pushed between the count and the confirmation stays."""
    q.push_many([Push(n, 5) for n in range(3)])
    jobs, job = Jobs(), Job(q, "cancel", Filter(TaskState.READY, text="0"))
    job = Job(q, "cancel", Filter(TaskState.READY, least=5))
    jobs.begin(job)
    wait_for(lambda: job.state == "counted", lambda: job.state)
    q.push_many([Push(n, 5) for n in range(4)])
    with pytest.raises(ConfigurationError, match="3 match"):
        jobs.confirm(job, 7)
    jobs.confirm(job, 3)
    wait_for(lambda: job.ended, lambda: job.state)
    assert (job.done, len(q)) == (3, 4)
    with pytest.raises(ConfigurationError, match="done"):
        jobs.confirm(job, 3)


def test_a_job_can_be_stopped(q: DPQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop no further step begins."""
    q.push_many([Push(n) for n in range(6)])
    for _ in range(6):
        q.bury(q.pop().task, "no")
    monkeypatch.setattr(bulk, "STEP", 1)
    jobs, job = Jobs(), Job(q, "replay", Filter(TaskState.DEAD))
    jobs.begin(job)
    wait_for(lambda: job.state == "counted", lambda: job.state)
    step = job._bulk.step
    job._bulk.step = lambda: job.stop() or step()  # during the first step
    jobs.confirm(job, 6)
    wait_for(lambda: job.ended, lambda: job.state)
    assert (job.state, job.done) == ("stopped", 1)
    assert q.stats().dead == 5


def test_too_many_jobs_and_wrong_ones_are_refused(q: DPQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few jobs run at once; an action that does not fit its state or value is refused at once."""
    with pytest.raises(ConfigurationError, match="takes no tasks"):
        Job(q, "bury", Filter(TaskState.READY))
    with pytest.raises(ConfigurationError, match="priority"):
        Job(q, "update", Filter(TaskState.READY), float("nan"))
    monkeypatch.setattr(Job, "start", lambda self: None)
    jobs = Jobs()
    for _ in range(4):
        jobs.begin(Job(q, "cancel", Filter()))
    with pytest.raises(ConfigurationError, match="4 actions are running"):
        jobs.begin(Job(q, "cancel", Filter()))


def test_pause_and_resume(change: Browser, q: DPQ, path: str) -> None:
    """A paused queue hands out nothing; the pages say so until it is resumed."""
    q.push("x")
    change.submit(f"{path}/pause")
    assert q.pop().task is None
    assert "is paused" in change.page(path)
    change.submit(f"{path}/resume")
    assert "is paused" not in change.page(path)
    change.submit(f"{path}/pause", seconds="60")
    assert "it is paused until 2" in change.page(path)
    change.submit(f"{path}/pause", 400, seconds="soon")
