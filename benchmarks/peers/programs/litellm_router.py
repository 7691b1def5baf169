"""A file of requests through litellm's Router, 64 at once, with 5 retries.

python litellm_router.py FILE.jsonl URL RPM TPM

Router's minutes are those of the clock, so RPM and TPM are to be of a real minute. It checks them
in this process (`enforce_model_rate_limits`), counts tokens after the answer, and tries again after
a 429. It has no queue on a disk and no order: `gather` begins in the order of the file.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network

from litellm import Router

AT_ONCE, RETRIES = 64, 5


async def run(bodies: list[dict[str, Any]], url: str, rpm: float, tpm: float) -> int:
    """Send all; return how many were given up."""
    deployment = {
        "model": "openai/simulated",
        "api_base": url.removesuffix("/chat/completions"),
        "api_key": "none",
        "rpm": int(rpm),
        "tpm": int(tpm),
    }
    router = Router(
        model_list=[{"model_name": "simulated", "litellm_params": deployment}],
        num_retries=RETRIES,
        timeout=60,
        optional_pre_call_checks=["enforce_model_rate_limits"],
    )
    room = asyncio.Semaphore(AT_ONCE)

    async def ask(body: dict[str, Any]) -> bool:
        async with room:
            try:
                await router.acompletion(**body)
            except Exception:  # a batch goes on: the request is given up
                return False
            return True

    return (await asyncio.gather(*map(ask, bodies))).count(False)


def main(asks: str, url: str, *numbers: str) -> None:
    """Send a file, and say what was given up."""
    lines = map(json.loads, Path(asks).read_text().splitlines())
    bodies = [line.get("body", line) for line in lines]
    print(json.dumps({"given_up": asyncio.run(run(bodies, url, *map(float, numbers)))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
