"""Send a file of chat requests to OpenAI within its limits; save the answers; go on after a stop.

OPENAI_API_KEY=... python examples/openai_batch.py asks.jsonl answers.jsonl
python examples/openai_batch.py        30 requests to a simulated API, ten times as fast

Each line of the file is the body of a request. Stopped, killed, or refused for a wrong key, the
same command goes on and loses nothing. `dpq run` is the same as a command, with a bar.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from simulated_llm_api import serve, url_of

from dpq import RateLimit
from dpq.batch import BatchJob, run_batch_async

URL = "https://api.openai.com/v1/chat/completions"
KEY = os.environ.get("OPENAI_API_KEY", "none")
RPM, TPM = 500, 200_000  # of your account


async def main(asks: Path, answers: Path, url: str = URL, minute: float = 60) -> int:
    """Send what is left of a file; 0 if all answers are there."""
    limits = [RateLimit(RPM, minute), RateLimit(TPM, minute, unit="tokens")]
    headers = {"Authorization": f"Bearer {KEY}"}  # kept in this process alone
    job = BatchJob(asks, url, answers, limits=limits, headers=headers)  # server="redis://..."
    done = await run_batch_async(job)
    print(f"{done.saved} of {done.total} saved in {answers.name}, {done.left} left", flush=True)
    for refused in done.deaths:
        print(f"refused: {refused}", flush=True)
    if done.stopped:
        print(f"stopped: {done.stopped}", flush=True)
    return int(done.saved < done.total)


async def show() -> int:
    """Send 30 requests to a simulated API."""
    minute = 6  # seconds
    async with await serve(["--minute", str(minute)]) as server:
        with TemporaryDirectory() as folder:
            asks = Path(folder) / "asks.jsonl"
            said = [{"role": "user", "content": "Name a colour that rhymes."}]
            lines = (json.dumps({"messages": said, "max_tokens": 50 * n}) for n in range(1, 31))
            asks.write_text("\n".join(lines))
            return await main(asks, Path(folder) / "answers.jsonl", url_of(server), minute)


if __name__ == "__main__":
    files = [Path(word) for word in sys.argv[1:]]
    sys.exit(asyncio.run(main(files[0], files[1]) if files else show()))
