"""`dpq.fastapi`: answers about tasks, and streams that end with their task, client or process.

Nothing but a call of the server tells of an end: looks come too late for these tests, unless a test
says otherwise. The application is called as a web server calls it; `test_examples.py` has uvicorn.
"""

import asyncio
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from kit.waiting import LONG
from starlette.requests import Request
from starlette.testclient import TestClient
from support import PATIENCE_S

import dpq
from dpq import AsyncDPQ, ConfigurationError, Context, Task
from dpq.fastapi import WebQueue, streams
from dpq.queue import waits_async
from dpq.server import Server

GUIDE = Path(dpq.__file__).parents[1] / "docs" / "guides" / "fastapi.md"

# A follower and a listener have no event of their own to wait for.


# ruff: noqa: ASYNC110
@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_async, "ASK_FOR_END_SECONDS", LONG)
    monkeypatch.setattr(streams, "LOOK_SECONDS", LONG)


@pytest.fixture
def pages(server: Server, queue_name: str) -> WebQueue:
    return WebQueue(server.url, queue_name, max_streams=2)


class Visitor:
    """A client of one response, on the other side of a web server."""

    def __init__(self, response: Any, **headers: str) -> None:
        pairs = [(name.replace("_", "-").encode(), to.encode()) for name, to in headers.items()]
        self.scope = {"type": "http", "method": "GET", "headers": pairs}
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.may = asyncio.Event()  # a slow client takes nothing before
        self.may.set()
        self.call = asyncio.create_task(response(self.scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.may.wait()
        self.got.put_nowait(message)

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.got.get(), PATIENCE_S)

    async def start(self) -> int:
        """The status; a stream has begun with how soon to connect again."""
        status: int = (await self.next())["status"]
        if status == 200:
            assert (await self.next())["body"] == b"retry: 2000\n\n"
        return status

    async def event(self) -> tuple[str, dict[str, Any]]:
        """The next event; comments are passed over."""
        text = ":"
        while text.startswith(":"):
            text = (await self.next())["body"].decode()
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
        return fields["event"], json.loads(fields["data"])

    async def over(self) -> None:
        await asyncio.wait_for(self.call, PATIENCE_S)


def said(response: Any) -> tuple[int, dict[str, Any]]:
    return response.status_code, json.loads(response.body)


async def popped(q: AsyncDPQ[Any]) -> Task[Any]:
    task = (await q.pop(timeout=PATIENCE_S)).task
    assert task
    return task


async def test_a_stream_tells_each_change_and_the_end(
    pages: WebQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams of one task share its looks; the end comes by a call of the server. A browser that
    connects again after it is told to stop, and one whose task is unknown is not told to."""
    looks = 0
    async with pages.opened() as q:
        examine = q._operations.examine

        def counted(*args: Any) -> Any:
            nonlocal looks
            looks += 1
            return examine(*args)

        monkeypatch.setattr(q._operations, "examine", counted)
        task_id = await q.push(1, delay=0.05)
        first, second, third = (Visitor(pages.events(task_id)) for _ in range(3))
        assert await third.start() == 503  # max_streams
        for visitor in (first, second):
            assert await visitor.start() == 200
            name, state = await visitor.event()
            assert (name, state["state"], state["attempt"]) == ("state", "delayed", 1)
        assert looks == 1
        await q.ack(await popped(q), result={"links": 7})
        for visitor in (first, second):
            assert await visitor.event() == (
                "done",
                {"id": task_id, "state": "done", "result": {"links": 7}},
            )
            await visitor.over()
            assert (await visitor.next())["more_body"] is False
        assert await Visitor(pages.events(task_id), last_event_id="end").start() == 204
        late = Visitor(pages.events(task_id))
        assert (await late.start(), (await late.event())[0]) == (200, "done")
        for nobody in ("unknown", "no id: é"):
            missing = Visitor(pages.events(nobody))
            assert await missing.start() == 404
            assert json.loads((await missing.next())["body"])["state"] == "unknown"
            await missing.over()
    assert not q._ends._ears


async def test_a_stream_ends_with_its_client_or_process(pages: WebQueue) -> None:
    """Nothing is followed for a client that has gone. At SIGTERM streams and waits end, and the
    handler that was there before hears the signal, too."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        async with pages.opened() as q:
            task_id = await q.push(1)
            visitor, stays = Visitor(pages.events(task_id)), Visitor(pages.events(task_id))
            followers = pages._parts()[1]
            for each in (visitor, stays):
                await each.start()
                await each.event()
            visitor.gone.set()
            await visitor.over()
            assert (followers._open, len(followers._followers)) == (1, 1)
            waiting = asyncio.create_task(pages.result(task_id, LONG))
            while len(q._ends._ears) < 2:
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            await stays.over()
            assert said(await asyncio.wait_for(waiting, PATIENCE_S))[0] == 202
            assert (followers._open, followers._followers) == (0, {})
            assert await Visitor(pages.events(task_id)).start() == 503
        assert heard == [signal.SIGTERM]
        assert not q._ends._ears
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_waits_end_with_their_clients_and_are_bounded(pages: WebQueue) -> None:
    """Waits and streams share `max_streams`: over it a wait is answered at once. A wait whose
    client has gone ends, and leaves its place."""
    gone = asyncio.Event()
    messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        if len(messages) == 1:
            await gone.wait()
        return messages.pop(0)

    async with pages.opened() as q:
        task_id, followers = await q.push(1), pages._parts()[1]
        request = Request({"type": "http"}, receive)
        leaves = asyncio.create_task(pages.result(task_id, LONG, request=request))
        stays = asyncio.create_task(pages.result(task_id, LONG))
        while followers._open < 2:
            await asyncio.sleep(0.001)
        busy = await asyncio.wait_for(pages.result(task_id, LONG), PATIENCE_S)
        assert (said(busy)[0], busy.headers["retry-after"]) == (202, "1")
        assert await Visitor(pages.events(task_id)).start() == 503
        gone.set()
        assert said(await asyncio.wait_for(leaves, PATIENCE_S))[0] == 202
        assert (followers._open, stays.done()) == (1, False)
        await q.ack(await popped(q), result=7)
        assert said(await asyncio.wait_for(stays, PATIENCE_S))[1]["result"] == 7
        assert followers._open == 0


async def test_the_answers(pages: WebQueue) -> None:
    """Done, dead with its reason, unknown, and not yet: each has its status and state."""
    async with pages.opened() as q:
        task_id = await q.push(1, max_attempts=1)
        accepted = pages.accepted(task_id, "/pages/1")
        assert (accepted.status_code, accepted.headers["location"]) == (202, "/pages/1")
        response = await pages.result(task_id, 0.01)
        assert (response.headers["retry-after"], said(response)) == (
            "1",
            (202, {"id": task_id, "state": "ready", "attempt": 1, "max_attempts": 1}),
        )
        wait = asyncio.create_task(pages.result(task_id, LONG))
        await q.fail(await popped(q), "the secret of the handler")
        dead = {"id": task_id, "state": "dead", "reason": "attempts spent"}
        assert said(await asyncio.wait_for(wait, PATIENCE_S)) == (200, dead)
        finite = await q.push(1)
        await q.ack(await popped(q), result=[1.5, None])
        done = {"id": finite, "state": "done", "result": [1.5, None]}
        assert said(await pages.result(finite)) == (200, done)
        for nobody in ("nothing", "no id: é"):
            assert said(await pages.result(nobody)) == (404, {"id": nobody, "state": "unknown"})
        with pytest.raises(ConfigurationError, match="timeout"):
            await pages.result(finite, -1)


async def test_the_life_of_an_application(pages: WebQueue) -> None:
    """A lifespan opens one client and a worker for the application, and closes both; the worker
    finishes what it runs. Outside of it the queue says how to open it."""
    begun, may = asyncio.Event(), asyncio.Event()

    async def handler(task: Task[Any], context: Context) -> int:
        begun.set()
        await may.wait()
        return 5

    with pytest.raises(ConfigurationError, match=r"is not open: .*pages\.lifespan\(\)"):
        _ = pages.queue
    with pytest.raises(ConfigurationError, match="max_streams"):
        WebQueue("embedded:", "q", max_streams=0)
    async with pages.lifespan(handler, keep_result=60)(None):
        q = pages.queue
        assert pages.worker
        with pytest.raises(ConfigurationError, match="is open already"):
            async with pages.opened():
                pass
        task_id = await q.push(1)
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        assert pages.worker.health().live
        asyncio.get_running_loop().call_later(0.01, may.set)
    with pytest.raises(ConfigurationError, match="closed"):
        await q.result(task_id)
    assert (pages.worker, pages._open) == (None, None)
    async with pages.opened() as q:
        assert await q.result(task_id) == 5


def test_the_guide_runs(server: Server, queue_name: str) -> None:
    """The program of the guide takes a text, tells its state, and streams its end to a client."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(  # noqa: S102 - our own document
            block.replace("redis://localhost", server.url).replace('pages"', f'{queue_name}"'),
            names,
        )
    with TestClient(names["app"]) as client:
        pushed = client.post("/texts", params={"text": "three short words"})
        task_id = pushed.json()["id"]
        assert pushed.status_code == 202
        assert pushed.headers["location"] == f"http://testserver/texts/{task_id}"
        ended = client.get(f"/texts/{task_id}", params={"wait": 30})
        assert ended.json() == {"id": task_id, "state": "done", "result": {"words": 3}}
        stream = client.get(f"/texts/{task_id}/events")
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.text.endswith(f"event: done\nid: end\ndata: {ended.text}\n\n")
