"""Parts that the transports share: `dpq.httpx`, `dpq.httpx2`, `dpq.requests` and `dpq.aiohttp`."""
