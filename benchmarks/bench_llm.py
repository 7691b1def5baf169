"""How much of an LLM API's limits does a batch use, and how often is it refused?

The API is `examples/simulated_llm_api.py`, over HTTP on loopback: 500 requests and 200 000 tokens a
minute, of which it tells nothing before the first answer, and an answer after 3 s. Tokens are the
tighter limit; answers use 59 % of what is reserved for them. All times are a fifth: a minute of the
API takes 12 s, for every way. Two hosts: a bucket that holds a minute of the limits, and one that
holds a second of them, since OpenAI may enforce a limit over less than its minute.

The same 800 requests go each way, in one run: `dpq run`, and the way of the script that OpenAI's
cookbook shows, re-written in `peers/cookbook_way.py`. Both know the limits. A share of 1 is the
rate of the limit from the first request to the last one: a full bucket at the beginning may add to
it. If litellm is installed beside the other peers, its Router goes, too: 64 at once, as `dpq run`.
Its minutes cannot be made shorter, so it is given the limits of a real minute. A way that takes
longer than 48 s, four minutes of the API, is ended.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks._harness import REPOSITORY, SEED, Bench, Result, Target, run_one
from benchmarks.peers.environments import PROGRAMS, python_of

REQUESTS, BEST = 800, 25
RPM, TPM = 500, 200_000
MINUTE = 12  # seconds
PATIENCE = 48  # seconds of one way
HOSTS = {"a minute": (60, ""), "a second": (1, ",burst=1500")}
"""What the buckets of the host hold -> seconds of its own time, and the option of the limit that
says so to `dpq run`: a burst of the largest request."""

PYTHON = python_of("litellm")
"""The Python that has litellm, if it is there: benchmarks/README.md, "Peers"."""

Way = Callable[[Path, Path, str], Sequence[str]]
"""Makes a command for the requests, the file of answers, and the API's address."""


def _write_requests(path: Path) -> set[str]:
    """Write the requests; return who sends the best ones, which stand anywhere."""
    chance = random.Random(SEED)
    best = {f"u{n}" for n in chance.sample(range(REQUESTS), BEST)}
    with path.open("w") as out:
        for n in range(REQUESTS):
            content = "word " * chance.randrange(20, 300)
            body = {
                "model": "simulated",
                "messages": [{"role": "user", "content": f"u{n}: {content}"}],
                "max_tokens": chance.choice([200, 500, 800, 1200]),
                "user": f"u{n}",
            }
            priority = {"priority": 1} if f"u{n}" in best else {}
            out.write(json.dumps({"body": body, **priority}) + "\n")
    return best


@contextmanager
def _api(quantum: float) -> Iterator[str]:
    options = {"rpm": RPM, "tpm": TPM, "minute": MINUTE, "quantum": quantum}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(REPOSITORY / "examples" / "simulated_llm_api.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _run(way: Way, quantum: float) -> tuple[dict[str, Any], float | None]:
    """Go one way; return what the API counted, and the time to the best, or None."""
    with tempfile.TemporaryDirectory(prefix="dpq-llm-") as folder, _api(quantum) as url:
        asks, out = Path(folder) / "asks.jsonl", Path(folder) / "out.jsonl"
        best = _write_requests(asks)
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_PROXY": "127.0.0.1"}
        with subprocess.Popen(
            way(asks, out, url), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            try:
                _, said = process.communicate(timeout=PATIENCE)
                if process.returncode:
                    raise RuntimeError(said.decode()[-2000:])
            except subprocess.TimeoutExpired:
                process.kill()
        answers, counts = (
            httpx.get(url.replace("/v1/chat/completions", path), trust_env=False).json()
            for path in ("/answers", "/counts")
        )
    moments = [moment for user, moment, _ in answers if user in best]
    return counts, max(moments) * 60 / MINUTE if len(moments) == BEST else None


def _ways(bench: Bench, burst: str) -> dict[str, Way]:
    queue = bench.queue().queue_name

    def dpq(asks: Path, out: Path, url: str) -> Sequence[str]:
        words = [str(asks), "--url", url, "--save", str(out), "--json"]
        words += ["--redis", bench.server.url, "--queue", f"{queue}-{asks.parent.name}"]
        words += ["--limit", f"{RPM}/{MINUTE}", "--limit", f"tokens={TPM}/{MINUTE}{burst}"]
        return [sys.executable, "-m", "dpq", "run", *words]

    def cookbook(asks: Path, out: Path, url: str) -> Sequence[str]:
        program = str(PROGRAMS / "cookbook_way.py")
        return [sys.executable, program, str(asks), str(out), url, *map(str, (RPM, TPM, MINUTE))]

    def litellm(asks: Path, _: Path, url: str) -> Sequence[str]:
        limits = [str(number * 60 / MINUTE) for number in (RPM, TPM)]
        return [str(PYTHON), str(PROGRAMS / "litellm_router.py"), str(asks), url, *limits]

    ways: dict[str, Way] = {"dpq run": dpq, "the cookbook's way": cookbook}
    return {**ways, "litellm's Router": litellm} if _has_litellm() else ways


def _has_litellm() -> bool:
    if not PYTHON.exists():
        return False
    command = [str(PYTHON), "-c", "import importlib.util as u; assert u.find_spec('litellm')"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def measure(bench: Bench) -> Iterator[Result]:
    for holds, (quantum, burst) in HOSTS.items():
        theirs = 0.0
        rows: list[Result] = []
        for name, way in reversed(_ways(bench, burst).items()):
            counts, seconds = _run(way, quantum)
            refused = counts["limited"] / counts["requests"] * 1000
            took = counts["seconds"] / MINUTE
            ours = name == "dpq run"
            where = f"{name}, the bucket holds {holds}"
            shares = counts["shares"]
            detail = f"{shares['requests']:.2f} of the requests; "
            detail += f"{counts['answered']} answered in {took:.1f} minutes"
            least = Target("at least", 0.93) if ours and quantum == 60 else None
            most = Target("at most", theirs / 10) if ours else None
            rows[:0] = [
                Result(f"{where}: share of the tokens", "", least, [shares["tokens"]], detail),
                Result(f"{where}: 429s in 1000 requests", "", most, [refused]),
                Result(
                    f"{where}: time to the best {BEST}",
                    "s",
                    None,
                    [seconds or 0],
                    "" if seconds else "not all of them were answered",
                ),
            ]
            if name == "the cookbook's way":
                theirs = refused
        yield from rows
    if not _has_litellm():
        yield Result("litellm's Router: not installed", "", None, [0])


if __name__ == "__main__":
    run_one("llm")
