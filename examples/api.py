"""Take pages over HTTP, and fetch them in the same process, under the limits of their hosts.

python examples/api.py      or: uvicorn --app-dir examples api:app

curl localhost:8000/pages --json '{"url": "https://example.com/best", "priority": 9}'
curl localhost:8000/pages/ID

The first answers with the page's ID, the second with its state and why it is not being fetched.
Ctrl-C and SIGTERM end the worker with uvicorn: pages under way are fetched, the others stay queued.
DPQ_URL=redis://localhost names a server; without it this program starts one, with ./pages as data.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from httpx import AsyncClient
from pydantic import BaseModel, HttpUrl

from dpq import AsyncDPQ, AsyncWorker, RateLimited, Task, TaskNotFoundError

URL = os.environ.get("DPQ_URL", "embedded:./pages")


class Page(BaseModel):
    url: HttpUrl
    priority: int = 0


async def fetch(http: AsyncClient, task: Task[dict[str, str]]) -> None:
    response = await http.get(task.payload["url"])
    if limited := RateLimited.from_response(response):
        raise limited
    print(response.raise_for_status().url, flush=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, AsyncDPQ]]:
    async with AsyncDPQ.from_url(URL, "pages") as q, AsyncClient() as http:
        worker = AsyncWorker(q, partial(fetch, http), concurrency=20, grace=8)
        async with worker.running():
            yield {"q": q}  # what every request finds in its state


app = FastAPI(lifespan=lifespan)


@app.post("/pages", status_code=202)
async def push(page: Page, request: Request) -> dict[str, str]:
    url, q = str(page.url), request.state.q
    return {"id": await q.push({"url": url}, page.priority, group=page.url.host, key=url)}


@app.get("/pages/{task_id}")
async def show(task_id: str, request: Request) -> dict[str, str]:
    try:
        task, why = await request.state.q.get(task_id), await request.state.q.why(task_id)
    except TaskNotFoundError:
        raise HTTPException(404, "fetched already, given up, or never pushed") from None
    return {"state": task.state, "why": why}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # exit 0: uvicorn repeats its signal
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
