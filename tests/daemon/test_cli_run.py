"""`dpq run` against a server that counts: in this process, or killed or interrupted as one."""

# ruff: noqa: RUF001 - texts in other scripts

import asyncio
import importlib
import json
import os
import re
import signal
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from kit.beside import beside
from kit.programs import Start, programs
from support import PATIENCE_S, wait_for
from typer.testing import CliRunner

import dpq
from dpq import DPQ, known_queues
from dpq.batch import BatchError, BatchOutcome
from dpq.batch.reader import Batch
from dpq.batch.results import Results
from dpq.batch.tokens import estimate
from dpq.cli import app
from dpq.cli.run import RunMeter, exit_code, tell_outcome
from dpq.types import LimitState, QueueStats

pytestmark = pytest.mark.usefixtures("clean_environment")

EXAMPLES = Path(dpq.__file__).parents[1] / "examples"
SECRET = "sk-never-to-be-seen-4711"  # noqa: S105 - of no host

Lines = list[dict[str, Any]]

O200K = {
    "All human beings are born free and equal in dignity and rights. ": 13,
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności. ": 22,
    "Все люди рождаются свободными и равными в достоинстве. ": 13,
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. ": 18,
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में समानता प्राप्त है। ": 18,
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ": 21, "人人生而自由，在尊严和权利上一律平等。": 15,
    "すべての人間は、生まれながらにして自由である。": 18,
    "모든 인간은 태어날 때부터 자유로우며 동등하다. ": 16,
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና እኩልነት ያለው ነው። ": 58,
    '{"id": 4711, "price": 12.50, "tags": ["new", "sale"]}\n': 24,
    "2024-01-03,17:22:05,4711.25,0.0032,881290\n": 26, "Great 😀🎉 thanks 🙏🏽 ": 9,
}  # fmt: skip
"""Texts, and their tokens by OpenAI's `o200k_base`."""


class Api:
    """The simulated API in a thread of this process."""

    def __init__(self, programs: Any, stack: ExitStack, *options: object) -> None:
        async def start() -> list[asyncio.Server]:
            servers.append(await programs.serve([*map(str, options)]))
            return servers

        servers: list[asyncio.Server] = []
        stack.enter_context(beside(start))
        self.url = programs.url_of(servers[0])

    def told(self, path: str) -> Any:
        """What it answers to a GET."""
        return httpx.get(self.url.replace("/v1/chat/completions", path), trust_env=False).json()

    @property
    def counts(self) -> dict[str, Any]:
        return dict(self.told("/counts"))

    @property
    def answered(self) -> list[str]:
        """Whose requests it has answered, in order."""
        return [user for user, *_ in self.told("/answers")]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked directly, whatever the machine's proxies."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Api]]:
    """Starts simulated APIs; by default they refuse nothing and answer at once."""
    monkeypatch.syspath_prepend(EXAMPLES)
    programs = importlib.import_module("simulated_llm_api")
    with ExitStack() as stack:

        def start(*options: object, latency: float = 0.05) -> Api:
            wide = ("--rpm", 1e6, "--tpm", 1e9, "--latency", latency)
            return Api(programs, stack, *wide, *options)

        yield start


@pytest.fixture
def start(url: str, name: str, tmp_path: Path) -> Iterator[Start]:
    """Starts `dpq run` in a directory of its own; whatever is left at the end is killed."""
    with programs("run", tmp_path, ("--redis", url, "--queue", name)) as begin:
        yield begin
    with DPQ.from_url(url, name) as queue, DPQ.from_url(url, f"{name}.batch") as batches:
        queue.admin.drop()
        batches.admin.drop()


@pytest.fixture
def run(
    start: Start, url: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs `dpq run` to its end in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def to_end(
        *words: object, where: bool = True, env: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        line = ["run", *map(str, words), *(("--redis", url, "--queue", name) if where else ())]
        done = CliRunner().invoke(app, line, env=env)
        return done.exit_code, done.stdout, done.stderr

    return to_end


def body(n: int, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"question {n}"}]
    return {"messages": messages, "max_tokens": 50, "user": f"u{n}", **more}


def write(path: Path, lines: Lines) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def results(path: Path) -> Lines:
    """The whole lines of a file of results."""
    data = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in data.split("\n")[:-1] if line]


def lines_of(path: Path) -> list[int]:
    return [each["line"] for each in results(path)]


def test_answers_are_saved_in_order(api, run, tmp_path):
    """Bodies are sent in any batch form, the better priority first; results name line and id, hold
    the answer, and stand in the order of the input on request."""
    where = {"method": "POST", "url": "/v1/chat/completions", "priority": 5}
    lines = [
        {"custom_id": "openai", "body": body(0), **where},
        {"custom_id": "anthropic", "params": body(1)},
        {"key": "google", "request": body(2)},
        {"recordId": "amazon", "modelInput": body(3), "priority": 9},
        {"request": body(4)},
        body(5, params={}, key="of its own"),
    ]
    file = write(tmp_path / "asks.jsonl", lines)
    host = api()
    code, out, err = run(file, "--url", host.url, "--workers", 1, "--ordered")
    assert (code, out) == (0, ""), err
    assert host.answered == ["u3", "u0", "u1", "u2", "u4", "u5"]
    found = results(tmp_path / "asks.results.jsonl")
    ids = ["openai", "anthropic", "google", "amazon", None, None]
    assert [(each["line"], each.get("custom_id")) for each in found] == [*enumerate(ids, 1)]
    assert found[0]["response"]["status_code"] == 200
    assert "question 0" in str(found[0]["response"]["body"]["choices"])
    assert "6 of 6 saved" in err
    assert "\x1b" not in err


def test_a_run_that_is_killed_goes_on(api, start, run, tmp_path):
    """After kill -9 and a torn last line the same command sends what is left: nothing is missing,
    nothing stands there twice, and what was saved is not sent again."""
    file = write(tmp_path / "asks.jsonl", [body(n) for n in range(60)])
    saved = tmp_path / "answers.jsonl"
    host = api(latency=0.2)
    words = (file, "--url", host.url, "--save", saved, "--workers", 4, "--visibility", 1)
    process = start(*words)
    wait_for(lambda: len(results(saved)) >= 10, lambda: f"{results(saved)}")
    process.kill()
    process.wait()
    before = lines_of(saved)
    assert len(before) < 60
    with saved.open("ab") as stream:
        stream.write(b'{"line":59,"request":"0')
    code, _, err = run(*words, "--ordered")
    assert code == 0, err
    assert lines_of(saved) == list(range(1, 61))
    asked = Counter(host.answered)
    assert set(asked) == {f"u{n}" for n in range(60)}
    assert {asked[f"u{line - 1}"] for line in before} == {1}
    code, _, err = run(*words)
    assert (code, host.counts["answered"]) == (0, asked.total()), err


def test_two_machines_have_a_file_each(api, start, run, tmp_path):
    """Each saves its own answers, and has done well if it came while there was work; a third run
    merges them."""
    file = write(tmp_path / "asks.jsonl", [body(n) for n in range(60)])
    host = api(latency=0.2)
    files = [tmp_path / f"machine-{n}.jsonl" for n in range(2)]
    words = (file, "--url", host.url, "--workers", 4)
    process = start(*words, "--save", files[0])
    wait_for(lambda: lines_of(files[0]), lambda: "nothing is saved")
    code, _, err = run(*words, "--save", files[1])
    assert (code, "--also" in err) == (0, True), err
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "--also" in err) == (0, True), err
    ours, theirs = map(lines_of, files)
    assert sorted(ours + theirs) == list(range(1, 61))
    code, _, err = run(*words, "--save", files[0], "--also", files[1], "--ordered")
    assert code == 0, err
    assert lines_of(files[0]) == list(range(1, 61))
    assert len(host.answered) == 60


def keys_of(queue: DPQ[Any]) -> list[Any]:
    return list(queue.redis.scan_iter(f"dpq:{{{queue.queue_name}}}:*"))


def test_a_finished_batch_leaves_no_queue(api, run, tmp_path, url, name):
    """Its queue goes with its settings and limits; for a day the server knows that the file was
    sent, so a machine that comes late sends nothing. With a dead letter, which is told with the
    answer's text and can be sent again, the queue stays."""
    file = write(tmp_path / "asks.jsonl", [body(0), {"model": "none"}])
    host = api()
    words = (file, "--url", host.url, "--limit", "6000/m")
    code, _, err = run(*words)
    assert (code, "dead: line 2: 400: " in err) == (1, True), err
    assert "'messages' is a required property" in err
    assert [run(*words)[0], host.counts["refused"]] == [1, 1]
    assert [run(*words, "--retry-dead")[0], host.counts["refused"]] == [1, 2]
    with DPQ.from_url(url, name) as queue, DPQ.from_url(url, f"{name}.batch") as marks:
        assert {name, f"{name}.batch"} <= set(known_queues(queue.redis))
        queue.dead.purge()
        _, _, err = run(*words)
        assert not {name, f"{name}.batch"} & set(known_queues(queue.redis)), err
        assert keys_of(queue) == []
        left = [queue.redis.ttl(key) for key in keys_of(marks)]
        assert left
        assert all(86_000 < seconds <= 86_400 for seconds in left)
        _, _, err = run(*words, "--save", "late.jsonl")
        assert "results missing in late.jsonl: 2;" in err
        assert (host.counts["answered"], host.counts["refused"]) == (1, 2)
        assert keys_of(queue) == []
        assert run(*words, "--again")[0] == 1  # sends the second line once more
        assert host.counts["refused"] == 3
        assert not any(0 < queue.redis.ttl(key) < 10**8 for key in keys_of(marks))


def test_a_queue_that_was_there_before_stays(api, run, tmp_path, url, name):
    """A batch in a queue of the user's own takes nothing of it, no setting and no limit."""
    file = write(tmp_path / "asks.jsonl", [body(0)])
    with DPQ.from_url(url, name, order="lifo") as queue:
        queue.set_limit(7, 1, group="mine")
        for _ in range(2):
            assert run(file, "--url", api().url)[0] == 0
        assert name in known_queues(queue.redis)
        assert [state.group for state in queue.admin.limits()] == [None, "mine"]
        assert queue.stats().acked == 1


def test_a_task_of_another_program_ends_no_run(api, run, tmp_path, url, name):
    """What another program has pushed goes to no other host, and its death is told like any."""
    file = write(tmp_path / "in.jsonl", [body(1)])
    host = api()
    with DPQ.from_url(url, name) as queue:
        for payload in ({"x": 1}, [1], {"line": 1, "path": "//other.example/", "body": {}}):
            queue.push(payload, max_attempts=1, priority=1)
        code, _, err = run(file, "--url", host.url)
        dead = queue.dead.list()
    assert (code, len(dead), len(results(tmp_path / "in.results.jsonl"))) == (1, 3, 1)
    assert f"task {dead[0].id}: attempts spent" in err
    assert "line 1: attempts spent: ValueError: url is '//other.example/'" in err


def test_the_meter_counts_from_its_begin(capsys):
    """Deferrals of earlier runs are not shown as its own; each answer is counted by its status."""
    stats = QueueStats(ready=1, delayed=0, invisible=0, waiting=0, dead=0, deferred=9)
    limited = iter((7, 9))

    class Queue:
        @property
        def admin(self) -> "Queue":
            return self

        async def stats(self) -> QueueStats:
            return stats.model_copy(update={"rate_limited": next(limited)})

        async def group(self, name: str) -> LimitState:
            return LimitState(group=name, windows=(), concurrency=None)

    async def show(meter: RunMeter) -> None:
        async with meter.showing(cast("Any", Queue()), "g"):
            meter.refused(503)
            meter.refused(429, limited=True)
            meter.refused(None)
        async with meter.showing(cast("Any", Queue()), "g"):
            pass

    asyncio.run(show(RunMeter(2, as_json=True)))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["rate_limited"], first["refused_here"]) == (0, {"429": 0})
    assert second["rate_limited"] == 2
    assert second["refused_here"] == {"429": 1, "503": 1, "no answer": 1}


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({}, 0, ""),
        ({"left": 1}, 130, "requests left: 1; run the same command again"),
        ({"refused_here": {"429": 1, "503": 2, "no answer": 1}}, 0, "429s 1, 503s 2, no answer 1,"),
        ({"left": 1, "stopped": "401"}, 1, "stopped: 401"),
        ({"dead": 1, "deaths": ("2: no",)}, 1, "dead: 2: no\ndead letters: 1; `dpq --url emb"),
        ({"missing": 1, "alone": True}, 1, "results missing in a"),
        ({"missing": 1}, 0, "results missing in a"),  # others have worked beside it
    ],
)
def test_how_a_run_ends(changes, code, said, capsys):
    """The exit code and the last lines say how it went, and what to do."""
    ended = outcome(**changes)
    assert exit_code(ended) == code
    tell_outcome(ended, Path("a"), "embedded:a.queue", as_json=False)
    assert said in capsys.readouterr().err


def outcome(**changes: Any) -> BatchOutcome:
    """The outcome of a run of two requests."""
    known = {"total": 2, "saved": 2, "dead": 0, "left": 0, "missing": 0, "deaths": ()}
    here = {"saved_here": 2, "limited_here": 0, "refused_here": {"429": 0}, "seconds": 1.0}
    how = {"stopped": "", "alone": False, "queue": "q"}
    return BatchOutcome(**{**known, **here, **how, **changes})


def test_a_wrong_key_loses_nothing_and_is_not_shown(api, run, tmp_path, url, name):
    """A 401 ends the run and kills no request; the key stands in no output and not in the queue,
    though the host repeats it. With the right one, the run goes on."""
    file = write(tmp_path / "asks.jsonl", [body(n) for n in range(3)])
    host = api("--key", "right")
    wrong = ("--header", f"Authorization: Bearer {SECRET}")
    code, out, err = run(file, "--url", host.url, *wrong)
    assert code == 1
    assert "the API refuses every request: 401: " in err
    assert "requests left: 3;" in err
    assert SECRET not in out + err
    with DPQ.from_url(url, name) as queue:
        assert SECRET not in "".join(map(repr, queue.peek(10)))
        assert queue.stats().dead == 0
    right = {**os.environ, "API_KEY": "right"}
    words = ("--header-env", "Authorization: Bearer API_KEY")
    code, _, err = run(file, "--url", host.url, *words, env=right)
    assert code == 0, err
    assert host.counts["answered"] == 3


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{broken", "line 2: it must be one JSON object: "),
        ("[1]", "line 2: it must be one JSON object"),
        ('{"body": {}, "colour": 1}', "line 2: 'colour' is not one of "),
        ('{"body": {}, "method": "GET"}', "line 2: method is 'GET': it must be POST"),
        ('{"body": {}, "url": "http://evil.example/"}', "on the host of --url"),
        ('{"body": {}, "priority": "high"}', "line 2: priority is 'high'"),
        ('{"body": {}, "cost": {"Tokens": 1}}', "line 2: a unit of cost is 'Tokens'"),
        ('{"body": {}, "custom_id": 7}', "line 2: custom_id must be"),
        ('{"custom_id": "a", "url": "/v1/x"}', "line 2: it has no body that is a JSON object"),
        ('{"custom_id": "a", "body": "{}"}', "line 2: it has no body that is a JSON object"),
        ('{"id": "1", "custom_id": "a", "response": {}, "error": null}', "it is an answer"),
        ('{"line": 1, "request": "00", "response": {}}', "it is an answer"),
        ('{"request": {"contents": []}, "response": {}, "status": ""}', "it is an answer"),
        ('{"recordId": "a", "modelInput": {}, "modelOutput": {}}', "'modelOutput' is not one of"),
        ('{"custom_id": "a", "params": {"stream": true}}', "line 2: stream is set"),
        ('{"custom_id": "a", "body": {}}\n{"key": "a", "request": {}}', "is that of line 2"),
    ],
)
def test_a_broken_line_stops_everything_first(line, fault, tmp_path):
    """Before anything is sent, each line is checked; the error names the line and its fault."""
    file = tmp_path / "asks.jsonl"
    file.write_text(f"{json.dumps(body(0))}\n{line}\n\n{json.dumps(body(2))}\n")
    with pytest.raises(BatchError, match=re.escape(fault)) as refused:
        Batch(file, "http://api.example/v1/chat/completions")
    assert "Nothing of the file was queued or sent" in str(refused.value)


def test_an_interrupt_finishes_what_runs(api, start, run, tmp_path):
    """At Ctrl-C open requests are answered and saved, the others stay; the program says how to go
    on, and the exit code is 130."""
    file = write(tmp_path / "asks.jsonl", [body(n) for n in range(40)])
    saved = tmp_path / "asks.results.jsonl"
    host = api(latency=0.3)
    process = start(file, "--url", host.url, "--workers", 2)
    wait_for(lambda: len(results(saved)) >= 2, lambda: f"{results(saved)}")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "run the same command again" in err
    assert host.counts["answered"] == host.counts["requests"] == len(results(saved)) < 40
    assert run(file, "--url", host.url)[0] == 0
    assert len(host.answered) == 40


def test_it_says_when_nothing_works(api, run, tmp_path, monkeypatch):
    """After a minute without an answer it says so once, and the reason."""
    monkeypatch.setattr("dpq.batch.run.TROUBLE_SECONDS", 0.05)
    file = write(tmp_path / "asks.jsonl", [body(0)])
    code, _, err = run(file, "--url", api(latency=0.5).url)
    assert (code, err.count("nothing worked for a minute: no answer has come yet")) == (0, 1), err


def test_it_needs_no_server(api, run, tmp_path, monkeypatch):
    """Without --redis a private server keeps the queue beside the results, for the next run. If
    their file lost a line, which no other process can have, the exit code says so, too."""
    tidy = Results.tidy

    def lose_one(results: Results, *, ordered: bool) -> int:
        lines = results.path.read_bytes().splitlines(keepends=True)
        results.path.write_bytes(b"".join(lines[1:]))
        return tidy(results, ordered=ordered)

    file = write(tmp_path / "what?.jsonl", [body(n) for n in range(3)])
    host = api()
    assert [run(file, "--url", host.url, where=False)[0] for _ in range(2)] == [0, 0]
    assert (tmp_path / "what?.results.jsonl.queue").is_dir()
    assert host.counts["answered"] == 3
    monkeypatch.setattr(Results, "tidy", lose_one)
    code, _, err = run(file, "--url", host.url, where=False)
    assert (code, "2 of 3 saved" in err, "results missing in" in err) == (1, True, True), err


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        ((), {"ALL_PROXY": "socks5://127.0.0.1:9"}, "NO_PROXY cannot be used: Using SOCKS proxy"),
        ((), {"ALL_PROXY": "socks4://u:pw@a.example"}, "NO_PROXY cannot be used: Unknown scheme"),
        ((), {"HTTP_PROXY": "http://u:pw/x@a.example"}, "cannot be used: one is no URL or host"),
        ((), {"NO_PROXY": "::1/128"}, "NO_PROXY cannot be used: one is no URL or host"),
        (("--header-env", "Authorization: Bearer KEY"), {"KEY": " "}, "'KEY', or it is empty"),
        (("--header", "Authorization: Bearer "), {}, "header Authorization has no key"),
        (("--header", "X-Key: schlüssel"), {}, "header X-Key is empty, or no printable ASCII"),
        (("--header", "Authorization Bearer x: 1"), {}, "write it as 'NAME: VALUE'"),
        (("--url", "http://a.example/#v1"), {}, "url has a #, which is not sent"),
        (("--url", "http://a.example:x/v1"), {}, "url must begin with http"),
    ],
)
def test_what_cannot_work_ends_before_anything_is_queued(
    words, env, said, run, tmp_path, monkeypatch
):
    """A proxy of the environment, a key or an address: told in one sentence, without a secret."""
    monkeypatch.setitem(sys.modules, "socksio", None)
    file = write(tmp_path / "asks.jsonl", [body(0)])
    code, _, err = run(file, "--url", "http://127.0.0.1:9/", *words, where=False, env=env)
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert (code in (1, 2), said in text, "pw" in text) == (True, True, False), err
    assert [each.name for each in tmp_path.iterdir()] == ["asks.jsonl"]


JPEG = "/9j/4AAQSkZJRgABAQ" + "Ab0/" * 9999
WAV = b64encode(b"RIFF....WAVEfmt ....\1\0\1\0....%s...." % (32_000).to_bytes(4, "little"))
SOUND = WAV.decode() + "AAAA" * 106_666  # 10 s of 32 000 bytes


def part(kind: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"content": [{"type": kind, **more}]}], "max_tokens": 0}


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        *(({"prompt": text * 20, "max_tokens": 0}, 20 * count) for text, count in O200K.items()),
        ({"prompt": "", "max_completion_tokens": 100, "n": 3}, 300),
        ({"contents": [], "generationConfig": {"maxOutputTokens": 70, "candidateCount": 2}}, 140),
        *(({"prompt": "", **bound}, 100) for bound in (
            {"max_tokens": 100}, {"max_gen_len": 100, "metadata": {"n": 9}},
            {"options": {"num_predict": 100}}, {"textGenerationConfig": {"maxTokenCount": 100}},
            {"inferenceConfig": {"maxTokens": 100}}, {"parameters": {"max_new_tokens": 100}},
        )),
        ({"prompt": "", "max_tokens": True}, 500),
        ({"model": "text-embedding-3-small", "input": [[1, 2, 3] * 100, [4] * 100]}, 400),
        (part("image", source={"type": "base64", "data": JPEG}), 1100),
        (part("image", source={"type": "url", "url": "https://a.example/a.png"}), 1100),
        (part("image_url", image_url={"url": f"data:image/jpeg;base64,{JPEG}"}), 1100),
        (part("image_url", image_url={"url": "https://a.example/", "detail": "low"}), 85),
        (part("input_image", image_url="https://a.example/a.png"), 1100),
        (part("", inline_data={"mime_type": "image/jpeg", "data": JPEG}), 1100),
        (part("", fileData={"mimeType": "image/png", "fileUri": "gs://a/b.png"}), 1100),
        (part("input_audio", input_audio={"data": SOUND, "format": "wav"}), 100),
        (part("", inlineData={"mimeType": "audio/wav", "data": SOUND}), 320),
        ({"prompt": "ab12" * 500, "max_tokens": 0}, 1000),  # a text all the same
    ],
)  # fmt: skip
def test_estimate(asked, tokens):
    """A request is estimated by its texts in any script, its images and sound, and the longest
    answer that it allows, within a factor of 1.5."""
    assert tokens / 1.5 <= estimate(asked) <= tokens * 1.5
