"""tenacity: no limiter; random exponential waits after a 429. What was done is nowhere kept."""

import asyncio

from asking import AT_ONCE, WHAT, ask_async, filled, mine
from tenacity import retry, retry_if_result, wait_random_exponential

LONGEST_S = 10


@retry(
    wait=wait_random_exponential(multiplier=1, max=LONGEST_S),
    retry=retry_if_result(lambda done: not done),
)
async def ask_again(number: int) -> bool:
    return await ask_async(number)


async def main() -> None:
    numbers = iter(mine)

    async def work() -> None:
        for number in numbers:
            await ask_again(number)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


if WHAT == "fill":
    filled()
else:
    asyncio.run(main())
