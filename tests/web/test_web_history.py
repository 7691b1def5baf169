"""Charts of the history, events, and the 429s of a limit: what they count, and what they show."""

import re
from collections import Counter
from datetime import UTC, datetime

import pytest
from kit.web import Browser

from dpq import DPQ, Adaptive, Event, LimitState, Push, RateLimit
from dpq.model.history import Granted
from dpq.testing import Clock
from dpq.views.charts import SPANS, counted, last_of, limited_by, read_learned, story
from dpq.views.sampler import Watch
from dpq.views.used import by_group, hour_text, used_by

MINUTE = 60_000.0


def remember(q: DPQ) -> None:
    """Store a slot of the history, as a worker does."""
    q._session.run(q._session.operations.remember)


def test_bins_count_what_totals_grew_by() -> None:
    """Nothing is lost by a slot that is missing, a queue that was made anew, or a moved slot."""
    edges = [MINUTE * n for n in range(7)]
    at = [MINUTE * n + 5_000 for n in range(6)]
    totals = [0, 4, 10, 2, 2, 7]  # made anew before the fourth
    for whole in (True, False):
        counts = counted(at, totals, edges, whole=whole)
        assert sum(n or 0 for n in counts) == pytest.approx(17)
    assert counted(at, totals, edges, whole=True) == [0, 4, 6, 2, 0, 5]
    gap = counted([at[0], at[5]], [0, 10], edges, whole=True)
    assert [round(n or 0, 2) for n in gap] == [1.83, 2, 2, 2, 2, 0.17]  # spread evenly
    assert counted(at[:2], [0, 1], edges)[3:] == [None] * 3
    assert counted(at[:1], [3], edges) == [None] * 6


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
    told = story(q.history(7200), SPANS["1h"], clock.ms)
    assert told.totals == {"in": 3, "out": 3, "rate limited": 0, "dead": 0}
    flows, backlog, _, _, wait, run = told.charts
    assert flows.lines[0].values[-2:] == [pytest.approx(0.05), None]
    assert [value for value in backlog.lines[0].values if value is not None] == [0.0, 0.0]
    assert 10 < max(value or 0 for value in wait.lines[2].values) < 50  # p99: not the 3000 s
    assert [line.name for line in run.lines] == ["p50", "p95", "p99"]
    empty = story(q.history(7200)[:1], SPANS["1h"], clock.ms)
    assert empty.charts == []
    assert last_of([], [], [0.0, 1.0]) == [None]


def test_the_charts_of_a_page(
    change: Browser, look: Browser, q: DPQ, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page with `--write` stores slots while it is seen, one that only shows does not."""
    monkeypatch.setattr("dpq.web.site.STORY_SECONDS", 0.0)
    monkeypatch.setattr("dpq.web.site.STORY_SHARE", 0.0)
    monkeypatch.setattr("dpq.views.shared.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("dpq.views.sampler.REMEMBER_SECONDS", 0.0)
    path = f"/q/{q.queue_name}"
    for n in range(2):
        q.push(n)
        assert "No history of the last 1 h" in look.page(path)
        assert len(q.history()) == n
        change.page(path)
        clock.advance(61)
    assert "Rate limited in a minute" in look.page(f"{path}?span=no such span")
    assert "1 in, 0 out" in look.page(path)  # between the two slots
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


def test_429s_by_status_and_deaths_by_reason(look: Browser, q: DPQ, clock: Clock) -> None:
    """Bars stand one upon the other: each status and reason that occurs has its name and colour."""
    q.push_many([Push(n, max_attempts=1) for n in range(6)])
    remember(q)
    clock.advance(60)
    for status in (429, 503, 503):
        q.rate_limited(q.pop().task, 0, status=status)
    q.bury(q.pop().task, "no")
    for _ in range(2):
        q.fail(q.pop().task, "oh")
    remember(q)
    clock.advance(1)
    _, _, limited, died, *_ = story(q.history(7200), SPANS["1h"], clock.ms).charts
    assert {line.name: max(n or 0 for n in line.values) for line in limited.lines} == {
        "429": 1,
        "503": 2,
    }
    assert {line.name: max(n or 0 for n in line.values) for line in died.lines} == {
        "buried": 1,
        "attempts spent": 2,
    }
    page = look.page(f"/q/{q.queue_name}")
    chart = page[page.index('data-key="Dead letters') : page.index('data-key="Wait for')]
    bars = re.findall(
        r'<rect class="(k\d)" x="[\d.]+" y="([\d.]+)" \w+="[\d.]+" \w+="([\d.]+)"', chart
    )
    assert [kind for kind, _, _ in bars] == ["k0", "k1"]
    (_, foot, _), (_, top, height) = bars
    assert float(top) + float(height) == pytest.approx(float(foot), abs=0.11)
    assert '<span class="legend k1">attempts spent</span>' in chart
    assert "attempts spent: at most 2" in chart


def test_events_on_their_page(look: Browser, q: DPQ) -> None:
    """The newest stand first, by kind and by group; what is stored is text, moments are times."""
    q.push("x", group="<b>")
    q.bury(q.pop().task, "<script>alert(1)</script>")
    q.push("y", group="a")
    q.rate_limited(q.pop().task, 30)
    q.pause(60)
    path = f"/q/{q.queue_name}/events"
    html = look.page(path)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    kinds = re.findall(r'class="tag[^"]*">([^<]+)</span>', html)
    assert kinds.index("paused") < kinds.index("429") < kinds.index("dead")
    assert re.search(r"closed until <time", html)
    assert "paused" not in re.findall(r'class="tag[^"]*">([^<]+)<', look.page(f"{path}?kind=dead"))
    assert "limit?group=a" in look.page(f"{path}?group=a")
    assert "Nothing of that" in look.page(f"{path}?group=none")
    api = look.api(f"/queues/{q.queue_name}/events?limit=1000")["events"]
    assert api[-1]["kind"] == "paused"
    behind = look.api(f"/queues/{q.queue_name}/events?after={api[-2]['id']}")["events"]
    assert behind == api[-1:]
    assert look.get(f"/api/queues/{q.queue_name}/events?after=x").status_code == 400


def test_events_are_read_once(q: DPQ) -> None:
    """A watch reads what is new, and knows what it has read."""
    watch = Watch(q)
    q.pause()
    assert [event.kind for event in watch.events()] == ["paused"]
    q.resume()
    asked: list[str] = []
    seen, events = watch.queue, watch.queue.events
    seen.events = lambda after, limit, **_: asked.append(after) or events(after, limit)  # type: ignore[method-assign]
    assert [event.kind for event in watch.events()] == ["paused", "resumed"]
    paused, resumed = watch.events()
    assert asked == [paused.id, resumed.id]


def test_the_429s_and_the_learned_rate_of_a_day(look: Browser, q: DPQ, clock: Clock) -> None:
    """A limit's page marks each 429 of the last day, and draws how its rate was learned."""
    q.set_limit(64, 60, group="a", adaptive=Adaptive(1, 64))
    for status in (None, 503, 429):
        q.push("x", group="a")
        clock.advance(70)
        q.rate_limited(q.pop().task, 5, status=status)
    page = look.page(f"/q/{q.queue_name}/limit?group=a")
    assert "2 × 429, 1 × 503" in page  # noqa: RUF001
    assert page.count('class="limited"') == 3
    rate = next(state.rate for state in q.limits() if state.group == "a")
    assert f"The learned rate is {rate:.3g}; it was {rate:.3g} to 64" in page
    assert "2 × 429, 1 × 503" in look.page(f"/q/{q.queue_name}/limits")  # noqa: RUF001
    day = limited_by(q.events(), rate, "a", clock.ms + 86_460_000)
    assert day.hits == ""  # they are older
    assert read_learned("4.5, was 9") == (4.5, 9.0)
    assert read_learned("something else") == (None, None)


def test_a_day_has_events_of_its_group_alone() -> None:
    """Those of other groups, and what is no rate, leave no mark."""
    now = datetime(2026, 11, 23, tzinfo=UTC)
    named = {"at": now, "member": "", "task_id": "", "detail": "?"}
    events = [
        Event(id="1-0", kind="rate_limited", group="b", **named),  # type: ignore[arg-type]
        Event(id="2-0", kind="learned", group="a", **named),  # type: ignore[arg-type]
    ]
    day = limited_by(events, 5.0, "a", now.timestamp() * 1000)
    assert (day.hits, day.rates) == ("", (5.0, 5.0))


def test_the_used_share_of_the_last_hour(look: Browser, q: DPQ, clock: Clock) -> None:
    """A limit's page draws what was used in each minute, of a pool each member, and its 429s."""
    q.set_limit(6, 60, group="pool", burst=6, members=["one", "two"])
    q.push_many([Push(n, group="pool") for n in range(90)])
    remember(q)
    hits: list[str] = []
    for minute in range(4):
        for task in q.pop_many(12 if minute else 6):
            if minute == 1 and not hits:
                hits.append(task.id)
                q.rate_limited(task, 1)
            else:
                q.ack(task)
        clock.advance(60)
        remember(q)
    [used] = [state for state in q.limits() if state.group == "pool"]
    granted = q._session.run(Watch(q).browser.granted)
    members = used_by(granted, used, clock.ms)
    assert [each.name for each in members] == ["one", "two"]
    assert sum(sum(each.hits) for each in members) == 1
    shares = [[share for share in each.shares if share is not None] for each in members]
    assert [share[-1] for share in shares] == [pytest.approx(1), pytest.approx(1)]
    page = look.page(f"/q/{q.queue_name}/limit?group=pool")
    picture = page[page.index('id="hour"') : page.index('id="day"')]
    assert picture.count('role="img"') == 2
    assert picture.count('class="limited"') == 1
    assert re.findall(r"<title>(one|two): \d+ % used(.*?)</title>", picture)
    assert "of 6 in 1 m in each minute of the last hour" in picture
    row = look.page(f"/q/{q.queue_name}/limits")
    assert re.search(r"last hour: \d+ % used, 1 × rate limited<", row)  # noqa: RUF001
    assert 'id="hour"' not in look.page(f"/q/{q.queue_name}/limit?group=none")


def test_shares_add_up_over_partitions_and_windows() -> None:
    """The window that is used most counts; each partition adds what it has granted."""
    state = LimitState(
        group=None, windows=(RateLimit(60, 60), RateLimit(1200, 3600)), concurrency=None
    )
    part = [
        Granted(round(MINUTE * n), {"": (n, {"60000": 5 * n, "3600000": 5 * n})}) for n in range(4)
    ]
    [used] = used_by([part, part], state, MINUTE * 3)
    assert used.share == pytest.approx(0.5)  # 10 of 20 a minute, and of 60
    assert used.window == "1 200 in 1 h".replace(" 2", "\u202f2")
    assert used.hits[-4:] == [2, 2, 2, 0]
    anew = [*part, Granted(round(MINUTE * 4), {"": (0, {"3600000": 3})})]  # set anew
    [used] = used_by([anew], state, MINUTE * 4)
    assert used.shares[-2] == pytest.approx(3 / 20)
    assert used_by([[]], state, 0.0) == []
    assert hour_text([]) == ""


def test_the_last_hour_by_group(look: Browser, q: DPQ, clock: Clock) -> None:
    """The page of a queue draws what each limited group was granted, and what its host refused."""
    q.set_limit(6, 60, group="pool", burst=6, members=["one", "two"])
    q.set_limit([RateLimit(60, 60, burst=3), RateLimit(9, 60, 9, unit="tokens")], group="plain")
    q.set_limit(RateLimit(9, 60, unit="tokens"), group="never used")
    q.set_limit(60, 60, group="first")
    q.push(0, group="first")
    assert q.ack(q.pop().task)
    remember(q)
    clock.advance(60)
    q.push_many([Push(n, group=group) for n in range(5) for group in ("pool", "plain")])
    taken = q.pop_many(20)
    of = Counter(task.group for task in taken)
    assert min(of.values()) >= 3
    q.rate_limited(next(task for task in taken if task.member), 1)
    remember(q)
    clock.advance(60)
    remember(q)
    granted, met = by_group(q._session.run(Watch(q).browser.granted), clock.ms)
    sums = {line.name: sum(n or 0 for n in line.values) for line in granted.lines}
    assert sums == of
    assert [(line.name, sum(n or 0 for n in line.values)) for line in met.lines] == [("pool", 1)]
    page = look.page(f"/q/{q.queue_name}")
    assert "Requests granted in a minute, by group: " in page
    assert "Rate limited in a minute, by group: pool: at most 1" in page
    assert "by group" not in look.page(f"/q/{q.queue_name}?span=24h")


def test_the_busiest_groups_have_a_colour() -> None:
    """All others are one more part, so nothing is lost; of two windows none counts twice."""
    part = [
        Granted(
            round(MINUTE * n),
            {
                f"g{g}": (n * g, {"1000": 3 * n * g, "60000_": 2 * n * g, "1000tokens": 900 * n})
                for g in range(7)
            },
        )
        for n in range(3)
    ]
    granted, met = by_group([part, part], MINUTE * 3)
    for chart, factor in ((granted, 3), (met, 1)):
        assert [line.name for line in chart.lines] == ["g6", "g5", "g4", "g3", "2 others"]
        assert [line.kind for line in chart.lines] == ["k2", "k3", "k1", "k0", "k4"]
        sums = [sum(n or 0 for n in line.values) for line in chart.lines]
        assert sums == [2 * 2 * factor * g for g in (6, 5, 4, 3, 1 + 2)]
    assert by_group([[]], 0.0) == []
