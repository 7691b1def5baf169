"""The JSON API: what it answers, exact numbers, actions, and that its document is true."""

import re
from typing import Any

from kit.web import Browser
from support import wait_for

from dpq import DPQ, Push
from dpq.web.routes import API


def test_the_document_has_each_route_and_no_other(look: Browser) -> None:
    """Paths and methods of the OpenAPI document are those of the routes, with their parameters."""
    document = look.api("/openapi.json")
    said = {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs}
    assert said == {(method, path) for method, path, *_ in API}
    for path, verbs in document["paths"].items():
        for verb, about in verbs.items():
            named = {each["name"] for each in about.get("parameters", []) if each["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), (verb, path)
            assert about["summary"]
    assert "/api/queues/{queue}" in look.page("/api")


def test_64_bit_integers_are_texts(look: Browser, q: DPQ) -> None:
    """Priorities, tokens and large integers in payloads come out exactly."""
    large = 2**63 - 1
    q.push({"n": large, "list": [-large, 2**53, True, 1.5]}, large)
    task = q.pop().task
    assert task
    q.extend(task, 60)
    said = look.api(f"/queues/{q.queue_name}/tasks/{task.id}")
    assert said["priority"] == str(large)
    assert said["token"] == str(task.token)
    assert said["payload"] == {"n": str(large), "list": [str(-large), 2**53, True, 1.5]}


def test_an_action_on_a_filter_is_counted_then_confirmed(change: Browser, q: DPQ) -> None:
    """It answers with an action to confirm by the number that was counted."""
    q.push_many([Push(n, n) for n in range(30)])
    path = f"/queues/{q.queue_name}/tasks:action"
    chosen = {"state": "ready", "least": 20}
    job = change.call(path, {"action": "cancel", "filter": chosen}, 202)

    def now() -> Any:
        return change.api(f"/actions/{job['id']}")

    wait_for(lambda: now()["state"] == "counted", now)
    assert now()["count"] == 10
    change.call(f"/actions/{job['id']}:run", {"expected": 9}, 400)
    change.call(f"/actions/{job['id']}:run", {"expected": True}, 400)
    assert len(q) == 30
    change.call(f"/actions/{job['id']}:run", {"expected": 10})
    wait_for(lambda: now()["state"] == "done", now)
    assert (now()["done"], len(q)) == (10, 20)
    change.call(path, {"action": "purge", "filter": chosen}, 400)  # not the dead ones instead
    other = change.call(path, {"action": "cancel", "filter": chosen}, 202)["id"]
    assert change.call(f"/actions/{other}", method="DELETE")["id"] == other


def test_queue_groups_and_limits(change: Browser, q: DPQ) -> None:
    """Pause, resume, close, open, set and clear do what the queue's own verbs do."""
    q.push("x", group="a/b")
    base = f"/queues/{q.queue_name}"
    assert change.call(f"{base}:pause", {"seconds": 60}) == {"paused": True}
    assert change.api(base)["paused_until_ms"]
    assert change.call(f"{base}:resume") == {"paused": False}
    change.call(f"{base}/groups/a~2Fb:close", {"seconds": 60})
    assert not q.admin.group("a/b").open
    change.call(f"{base}/groups/a~2Fb:open")
    assert q.admin.group("a/b").open
    change.call(f"{base}/groups/a~2Fb:close", {"seconds": "soon"}, 400)
    windows = ["10/s", "tokens=5000/h,burst=9"]
    for scope, group in (("", None), ("/~2A", "*"), ("/a~2Fb", "a/b")):
        url = f"{base}/limits{scope}"
        said = change.call(url, {"windows": windows, "concurrency": 3})
        assert said["group"] == group
        assert [each["rate"] for each in said["windows"]] == [10, 5000]
        assert [s.concurrency for s in q.admin.limits() if s.group == group] == [3]
        change.call(url, method="DELETE")
        assert not [s for s in q.admin.limits() if s.group == group and s.windows]
    kinds = ["10/s,burst=4,reserve=2:7", "500/day@UTC,spread"]
    said = change.call(f"{base}/limits/g", {"windows": kinds, "members": ["a", "b"], "weight": 2})
    assert (said["weight"], [each["name"] for each in said["members"]]) == (2, ["a", "b"])
    stands = q.admin.group("g").rules
    assert said["rules"] == stands
    late = {"windows": ["5/s"], "expected": "0|9 1000 1"}
    assert "changed meanwhile" in change.call(f"{base}/limits/g", late, 409)["error"]["message"]
    change.call(f"{base}/limits/g?expected=x", None, 409, "DELETE")
    change.call(f"{base}/limits/g", {"windows": ["5/s"], "expected": 7}, 400)
    assert q.admin.group("g").rules == stands
    change.call(f"{base}/limits/g", late | {"expected": stands})
    assert (q.admin.events()[-1].before, q.admin.events()[-1].by) == (
        stands,
        "testclient (dashboard)",
    )
    for name, wrong in (("windows", ["often"]), ("windows", [7]), ("windows", 7), ("rules", ["x"])):
        change.call(f"{base}/limits", {name: wrong}, 400)
    change.call(f"{base}/limits", {"windows": ["1/s"], "concurrency": 0}, 400)


def test_a_push(change: Browser, q: DPQ) -> None:
    """A program in any language adds a task, with the options of `push`; a wrong one is named."""
    path = f"/queues/{q.queue_name}/tasks"
    q.push("first")
    said = change.call(path, {"payload": {"n": 1}, "priority": 9, "group": "g"}, 201)
    task = q.get(said["id"])
    assert (task.payload, task.priority, task.group) == ({"n": 1}, 9, "g")
    for wrong in ({"priority": 1}, {"payload": 1, "odd": 2}, {"payload": 1, "delay": -1}):
        change.call(path, wrong, 400)
