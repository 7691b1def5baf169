"""Charts of the history, events, and the 429s of a limit: what they count, and what they show."""

import pytest
from kit.web import Browser

from dpq import DPQ, Push
from dpq.testing import Clock
from dpq.views.charts import SPANS, last_of, story
from dpq.views.used import hour_chart, used_by


def remember(q: DPQ) -> None:
    """Store a slot of the history, as a worker does."""
    q._session.run(q._session.operations.remember)


def test_a_story_has_rates_and_percentiles_of_each_bin(q: DPQ, clock: Clock) -> None:
    """What waited and ran in a minute stands in its bin, whatever was long before."""
    q.push("x")
    clock.advance(3000)
    q.ack(q.pop().task)  # waited for 3000 s
    clock.ms = clock.ms // 60_000 * 60_000 + 60_000
    remember(q)
    for n in range(3):
        q.push(n)
        clock.advance(20)
        q.ack(q.pop().task)  # waited for 20 s
    remember(q)
    clock.advance(1)
    told = story(q.admin.history(7200), SPANS["1h"], clock.ms)
    assert told.totals == {"in": 3, "out": 3, "rate limited": 0, "dead": 0}
    flows, backlog, failed, _, wait, run = told.charts
    assert flows.lines[0].values[-2:] == [pytest.approx(0.05), None]
    assert [value for value in backlog.lines[0].values if value is not None] == [0.0, 0.0]
    assert failed.lines[0].values[-2:] == [0.0, None]
    assert 10 < max(value or 0 for value in wait.lines[1].values) < 50  # p95: not the 3000 s
    assert [line.name for line in run.lines] == ["p50", "p95"]
    empty = story(q.admin.history(7200)[:1], SPANS["1h"], clock.ms)
    assert empty.charts == []
    assert last_of([], [], [0.0, 1.0]) == [None]


def test_runs_stand_beside_those_of_an_hour_before(q: DPQ, clock: Clock) -> None:
    """The p95 of a minute has that of an hour ago beside it; what failed or expired is a share."""
    clock.ms = clock.ms // 60_000 * 60_000
    for seconds, fails in ((2, 0), (20, 1)):
        q.push_many([Push(n, max_attempts=9) for n in range(4)])
        remember(q)
        tasks = q.pop_many(4, visibility=30)
        clock.advance(seconds)
        for task in tasks[:fails]:
            q.fail(task, "no", delay=9)
        q.ack_many(tasks[fails:])
        clock.advance(60 - seconds)
        remember(q)
        clock.advance(3540)
    told = story(q.admin.history(9999), SPANS["1h"], clock.ms - 3_540_000 + 59_000)
    _, _, failed, _, _, run = told.charts
    assert [round(value) for value in failed.lines[0].values if value is not None] == [25]
    assert [line.name for line in run.lines] == ["p50", "p95", "p95 an hour before"]
    now, before = run.lines[1].values[-2], run.lines[2].values[-2]
    assert 10 < (now or 0) < 50
    assert 1 < (before or 0) < 5


def test_a_limit_stands_as_steps_over_its_use(
    look: Browser, q: DPQ, path: str, clock: Clock
) -> None:
    """The chart has what was granted in each minute, below the rate that stood then."""
    clock.ms = clock.ms // 60_000 * 60_000
    q.set_limit(60, 60, 60, group="a")
    for n in range(4):
        if n == 2:
            q.set_limit(30, 60, 60, group="a")
        remember(q)
        q.push_many([Push(n, group="a") for n in range(6)])
        q.ack_many(q.pop_many(6))
        clock.advance(60)
    remember(q)
    state, granted = q.admin.group("a"), q._session.run(q._session.operations.granted)
    [used] = used_by(granted, state, clock.ms)
    chart = hour_chart(used, state, q.admin.events(), clock.ms)
    use, limit = (line.values for line in chart.lines)
    assert [value for value in use if value] == [0.1] * 3  # its first minute is not known
    assert limit[-5:] == [1, 1, 0.5, 0.5, 0.5]
    assert 'class="limit"' in look.page(f"{path}/limit?group=a")


def test_the_charts_of_a_page(
    change: Browser, look: Browser, q: DPQ, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page with `--write` stores slots while it is seen, one that only shows does not."""
    monkeypatch.setattr("dpq.web.pages.STORY_SECONDS", 0.0)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("dpq.views.sampler.REMEMBER_SECONDS", 0.0)
    path = f"/q/{q.queue_name}"
    for n in range(2):
        q.push(n)
        assert "No history of the last 1 h" in look.page(path)
        assert len(q.admin.history()) == n
        change.page(path)
        clock.advance(61)
    assert "Rate limited" in look.page(f"{path}?span=no such span")
    assert "1 in, 0 out" in look.page(path)  # between the two slots
    assert look.get(path).headers["content-encoding"] == "gzip"
    assert "No history of the last 14 days" in look.page(f"{path}?span=14d")  # one quarter
    slots = look.api(f"/queues/{q.queue_name}/history?seconds=7200")["slots"]
    assert [slot["pushed"] for slot in slots] == [1, 2]
    q.pop()
    clock.advance(61)
    change.page(path)
    at = f"/queues/{q.queue_name}/history"
    assert "buckets" not in look.api(at)["slots"][-1]["wait"]
    assert look.api(f"{at}?buckets=1")["slots"][-1]["wait"]["buckets"][0] == [0.001, 0]
    assert look.get(f"/api/queues/{q.queue_name}/history?seconds=0").status_code == 400
