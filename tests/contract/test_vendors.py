"""The libraries of OpenAI and Anthropic over DPQ's transports: what they spend is charged.

Their own clients talk to a host on this machine, plain and in streams, blocking and with asyncio.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from kit.hosts import Answers, Host

import dpq.httpx2
from dpq import DPQ, RateLimit
from dpq.httpx2 import anthropic_usage, openai_usage

if TYPE_CHECKING:
    import anthropic
    import openai


@pytest.fixture(scope="module", autouse=True)
def vendors() -> None:
    """Import both libraries here: it takes a second, and each of pytest's processes reads this."""
    globals().update({name: import_module(name) for name in ("anthropic", "openai")})


GROUP = "127.0.0.1"
KEYS = {"a": "key-a", "b": "key-b"}
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
USAGE = {"prompt_tokens": 20, "completion_tokens": 30, "total_tokens": 50}
RESPONSE = {
    **{"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []},
    **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"},
}
RESPONSE_USAGE = {
    **{"input_tokens": 4, "output_tokens": 6, "total_tokens": 10},
    **{"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}},
    "output_tokens_details": {"reasoning_tokens": 0},
}
MESSAGE = {
    **{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []},
    **{"stop_reason": None, "stop_sequence": None},
}
TEXT = {"type": "text_delta", "text": "hello"}


class Vendors(Answers):
    """What both vendors answer, each by the form of its API."""

    def answer(self, name: str) -> None:
        asked = json.loads(self.body)
        name = name.rpartition("/")[2]
        documents: Any = getattr(self, f"of_{name}")(asked)
        if asked.get("stream"):
            self.stream(
                (f"event: {each.get('type')}\n" if "type" in each else "").encode()
                + b"data: "
                + json.dumps(each).encode()
                + b"\n\n"
                for each in documents
            )
        else:
            self.reply(json.dumps(documents[-1]).encode(), Content_Type="application/json")

    def stream(self, parts: Any, content_type: str = "text/event-stream") -> None:
        ends = [b"data: [DONE]\n\n"] if self.path.endswith("completions") else []
        super().stream([*parts, *ends], content_type)

    def of_completions(self, asked: dict[str, Any]) -> list[Any]:
        if not asked.get("stream"):
            return [{**CHAT, "usage": USAGE}]
        delta = {"index": 0, "delta": {"content": "hello"}, "finish_reason": None}
        chunk = {**CHAT, "object": "chat.completion.chunk"}
        said = [{**chunk, "choices": [delta]}] * 3
        told = asked.get("stream_options", {}).get("include_usage")
        return [*said, *([{**chunk, "usage": USAGE}] if told else [])]

    def of_responses(self, asked: dict[str, Any]) -> list[Any]:
        done = {**RESPONSE, "usage": RESPONSE_USAGE}
        event = {"type": "response.completed", "sequence_number": 1, "response": done}
        return [event if asked.get("stream") else done]

    def of_embeddings(self, _: dict[str, Any]) -> list[Any]:
        data = [{"object": "embedding", "index": 0, "embedding": [0.5] * 8}]
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        return [{"object": "list", "data": data, "model": "m", "usage": usage}]

    def of_messages(self, asked: dict[str, Any]) -> list[Any]:
        cached = {"cache_creation_input_tokens": 5, "cache_read_input_tokens": 1000}
        begin, end = {"input_tokens": 10, "output_tokens": 1, **cached}, {"output_tokens": 25}
        if not asked.get("stream"):
            return [{**MESSAGE, "usage": {**begin, **end}}]
        return [
            {"type": "message_start", "message": {**MESSAGE, "usage": begin}},
            {
                **{"type": "content_block_start", "index": 0},
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": TEXT},
            {"type": "content_block_stop", "index": 0},
            {
                **{"type": "message_delta", "usage": end},
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            },
            {"type": "message_stop"},
        ]


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(Vendors).serving() as host:
        yield host


LIMITS = [RateLimit(1, 3600, 1000, unit="tokens"), RateLimit(1, 3600, 1000, unit="output_tokens")]


def left(state: Any) -> list[int]:
    """The tokens that are left of 1000: of all, and of those that come out."""
    by_unit = {
        window.unit: units for window, units in zip(state.windows, state.units_left, strict=True)
    }
    return [round(by_unit["tokens"]), round(by_unit["output_tokens"])]


@pytest.fixture
def client(live: DPQ[Any]) -> Iterator[httpx2.Client]:
    """A client of httpx2, as both libraries take it."""
    live.set_limit(LIMITS, group=GROUP)
    cost = {"tokens": 500, "output_tokens": 500}
    with httpx2.Client(
        transport=dpq.httpx2.Transport(live, cost=cost, spent=either, timeout=60)
    ) as client:
        yield client


def either(answer: Any) -> Any:
    """The usage of the vendor that has answered."""
    ours = answer.response.request.url.path.endswith("messages")
    return (anthropic_usage if ours else openai_usage)(answer)


def test_openai(live, client, host):
    """Chat completions, responses and embeddings, plain and as streams."""
    vendor = openai.OpenAI(
        api_key="k", base_url=f"{host.url}/v1", http_client=client, max_retries=0
    )
    assert vendor.chat.completions.create(**ASK).usage.total_tokens == 50
    assert left(live.admin.group(GROUP)) == [950, 970]
    with vendor.chat.completions.create(
        **ASK, stream=True, stream_options={"include_usage": True}
    ) as chunks:
        *said, last = chunks
    assert [each.choices[0].delta.content for each in said] == ["hello"] * 3
    assert last.usage.total_tokens == 50
    assert left(live.admin.group(GROUP)) == [900, 940]
    assert vendor.responses.create(model="m", input="hi").usage.total_tokens == 10
    assert left(live.admin.group(GROUP)) == [890, 934]
    *_, done = vendor.responses.create(model="m", input="hi", stream=True)
    assert done.response.usage.total_tokens == 10
    assert left(live.admin.group(GROUP)) == [880, 928]
    assert vendor.embeddings.create(model="m", input="hi").usage.total_tokens == 8
    assert left(live.admin.group(GROUP)) == [872, 928]
    assert live.check() == []


def test_each_request_has_the_key_of_its_permit(live, host):
    """Both libraries set a key of their own: `prepare` sets that of the permit instead."""
    live.set_limit(100, 1, 100, group=GROUP, members=list(KEYS))

    def set_key(request: httpx2.Request, permit: Any) -> None:
        if "X-Api-Key" in request.headers:
            request.headers["X-Api-Key"] = KEYS[permit.member]
        else:
            request.headers["Authorization"] = f"Bearer {KEYS[permit.member]}"

    with httpx2.Client(transport=dpq.httpx2.Transport(live, prepare=set_key)) as client:
        ours = {"api_key": "none", "http_client": client, "max_retries": 0}
        for _ in range(2):
            openai.OpenAI(**ours, base_url=f"{host.url}/v1").chat.completions.create(**ASK)
        assert set(host.keys) == set(KEYS.values())
        host.came.clear()
        for _ in range(2):
            anthropic.Anthropic(**ours, base_url=host.url).messages.create(**ASK, max_tokens=9)
        assert set(host.keys) == set(KEYS.values())
