"""aiolimiter: a limiter in each process, and a wait after a 429. What was done is nowhere kept."""

import asyncio

from aiolimiter import AsyncLimiter
from asking import AT_ONCE, RETRY_AFTER, SHARE, WHAT, ask_async, filled, mine


async def main() -> None:
    limiter = AsyncLimiter(1, 1 / SHARE)  # an even pace, without a burst
    numbers = iter(mine)

    async def work() -> None:
        for number in numbers:
            while True:
                async with limiter:
                    pass
                if await ask_async(number):
                    break
                await asyncio.sleep(RETRY_AFTER)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


if WHAT == "fill":
    filled()
else:
    asyncio.run(main())
