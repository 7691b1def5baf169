"""Metrics: true to the queue, bounded, and no traceback where the server is away."""

import math
from collections import Counter
from itertools import count
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from dpq import DPQ, Push, Quota, RateLimit
from dpq.metrics import COUNTERS, GAUGES, TOTALS, Exporter
from dpq.views.sampler import Named


class Scrape:
    """The samples of a text, by name and labels; each has the label of the same server."""

    def __init__(self, text: str, server: str = "prod") -> None:
        self.samples: dict[tuple[str, frozenset[Any]], float] = {}
        for family in text_string_to_metric_families(text):
            for each in family.samples:
                assert each.labels.pop("server") == server
                key = (each.name, frozenset(each.labels.items()))
                assert key not in self.samples, f"twice: {each}"
                self.samples[key] = each.value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))


def scrape(*queues: DPQ) -> Scrape:
    return Scrape(Exporter(Named(queues), server="prod").text().decode())


def test_it_tells_what_the_queue_holds(live: DPQ) -> None:
    """States, totals, times, groups and limits are the server's own numbers."""
    name = live.queue_name
    windows = [RateLimit(1, 3600), RateLimit(2, 3600), RateLimit(90, 60, unit="tokens")]
    live.set_limit([*windows, Quota(100, "day", timezone="UTC")], group="a")
    live.set_limit(60, 60, group="pool", members=["k1", "k2"])
    live.set_limit(5, 1, group='odd " \\')
    live.push_many([Push(n, group="a") for n in range(3)])
    live.push_many([Push(n, group="b") for n in range(4)])
    live.push("later", delay=60)
    first = live.pop().task
    assert first
    live.ack(first)
    live.delay_group('odd " \\', None)
    live.push("closed", group="c")
    live.delay_group("c", 60)
    told = scrape(live)
    assert told("dpq_up") == told("dpq_queue_up", queue=name) == 1
    stats = live.stats()
    for state in ("ready", "delayed", "invisible", "waiting", "dead"):
        assert told("dpq_tasks", queue=name, state=state) == getattr(stats, state)
    for metric, (total, _) in TOTALS.items():
        assert told(f"{metric}_total", queue=name) == getattr(stats, total)
    assert told("dpq_wait_seconds_bucket", queue=name, le="+Inf") == 1
    assert told("dpq_run_seconds_count", queue=name) == 1
    assert told("dpq_group_waiting", queue=name, group="a") == 2
    assert told("dpq_group_waiting", queue=name, group="_other") == 5
    assert told("dpq_group_waiting", queue=name, group="b") is None
    assert told("dpq_group_open", queue=name, group="a") == 0
    assert told("dpq_group_closed", queue=name, group="a", why="spent") == 1
    assert told("dpq_groups_closed", queue=name) == 3  # "c" has no labels of its own
    assert 3000 < (told("dpq_group_opens_in_seconds", queue=name, group="a") or 0) <= 3600
    odd = {"queue": name, "group": 'odd " \\'}
    assert told("dpq_group_opens_in_seconds", **odd) == math.inf
    assert told("dpq_group_closed", **odd, why="closed by hand") == 1
    hour = {"queue": name, "group": "a", "window": "3600s", "unit": ""}
    assert told("dpq_limit_rate", **hour) == pytest.approx(1 / 3600)  # the slower of two
    assert (told("dpq_limit_units_left", **hour) or 0) < 0.1
    assert told("dpq_limit_granted_units_total", **hour) == 1
    assert told("dpq_limit_units_left", **(hour | {"window": "day"})) == 99
    assert told("dpq_limit_rate", **(hour | {"window": "60s", "unit": "tokens"})) == 1.5
    pool = {"queue": name, "group": "pool", "window": "60s", "unit": ""}
    assert told("dpq_limit_burst", **pool) == told("dpq_limit_units_left", **pool) == 2
    assert told("dpq_limit_granted_units_total", **pool) == 0
    assert (told("dpq_server_evicts"), told("dpq_server_aof")) == (0, 0)
    told_names = {name for name, _ in told.samples}
    assert set(GAUGES) - told_names <= {"dpq_drain_seconds", "dpq_worker_longest_run_seconds"}
    assert all(f"{metric}_total" in told_names for metric in (TOTALS | COUNTERS))


def test_counters_of_groups_and_deaths(live: DPQ) -> None:
    """429s by group, dead letters by reason, units by window: no counter falls."""
    live.set_limit(100, 10, burst=9, group="a")
    live.set_limit(100, 10, burst=9, group="p", members=["k", "l"])
    live.push_many([Push(n, group="apb"[n % 3], max_attempts=1, cost=n % 2 + 1) for n in range(9)])
    now = [0.0]
    exporter = Exporter(Named([live]), clock=lambda: now[0], server="prod")

    def counters(name: str, *names: str) -> dict[str, float]:
        told = Scrape(exporter.text().decode())
        now[0] += 2
        return {
            "/".join(filter(None, map(dict(labels).get, names))): value
            for (found, labels), value in told.samples.items()
            if found == f"dpq_{name}_total"
        }

    tasks = live.pop_many(9)
    costs: Counter[str] = Counter()
    for task in tasks:
        costs[str(task.group)] += task.cost
    assert counters("limit_granted_units", "group") == {"a": costs["a"], "p": costs["p"]}
    statuses = iter((429, 503, 999))
    for task, group in [(task, task.group) for task in tasks]:
        if group == "b":
            live.fail(task, "no")
        elif task.payload < 4:
            live.rate_limited(task, 600, scope="task", status=next(statuses))
        else:
            live.bury(task, "too odd")
    by_member = {"a": 2, "p": 0, "p/k": 1, "p/l": 0, "_other": 0}
    assert counters("rate_limited", "group", "member") == by_member
    answers = {"429": 1, "403": 0, "503": 1, "529": 0, "other": 1}
    assert counters("limit_answers", "status") == answers
    assert counters("buried", "reason") == {
        **{"attempts spent": 3, "lease expired": 0, "expired": 0, "payload missing": 0},
        "lapses spent": 0,
        "other": 3,
    }
    live.push("c", group="c")
    live.rate_limited(live.pop().task, 600, scope="task")
    assert counters("rate_limited", "group", "member") == by_member | {"_other": 1}


def test_no_server_no_traceback(
    live: DPQ, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that is away is `dpq_up 0`; a queue that cannot be read leaves the others."""
    nobody = DPQ(Redis(unix_socket_path="/nowhere/x.sock"), "gone")
    assert scrape(nobody)("dpq_up") == 0
    broken = DPQ(live.redis, f"{queue_name}-2")
    broken.push("x")
    live.push("x")
    key = next(iter(live.redis.scan_iter(match=f"*{queue_name}-2*:ready")))
    live.redis.set(key, "no set")
    exporter = Exporter(Named([broken, live]), clock=count(0, 0.4).__next__, server="prod")
    exporter.text()
    told = Scrape(exporter.text().decode())
    assert caplog.text.count("cannot be read: ") == 1
    assert (told("dpq_up"), told("dpq_queue_up", queue=broken.queue_name)) == (1, 0)
    assert told("dpq_tasks", queue=live.queue_name, state="ready") == 1
    live.redis.delete(key)
    broken.admin.drop()
