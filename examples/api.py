"""Take pages over HTTP, and fetch them in the same process, under the limits of their hosts.

python examples/api.py      or: uvicorn --app-dir examples api:app

curl -i localhost:8000/pages --json '{"url": "https://example.com/best", "priority": 9}'
curl localhost:8000/pages/ID?wait=10     its end, once it has ended: done, dead, or unknown
curl -N localhost:8000/pages/ID/events      its state, each change of it, and its end
curl localhost:8000/pages/ID/why            why it is not being fetched

Ctrl-C and SIGTERM end the worker with uvicorn: pages under way are fetched, the others stay queued.
DPQ_URL=redis://localhost names a server; without it this program starts one, with ./pages as data.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from httpx import AsyncClient
from pydantic import BaseModel, HttpUrl

from dpq import Task
from dpq.fastapi import WebQueue

pages = WebQueue(os.environ.get("DPQ_URL", "embedded:./pages"), "pages")
WORKER = {"concurrency": 20, "grace": 8, "keep_result": 600}


class Page(BaseModel):
    url: HttpUrl
    priority: int = 0


async def fetch(http: AsyncClient, task: Task[dict[str, str]]) -> int:
    response = await http.get(task.payload["url"])
    print(response.raise_for_status().url, flush=True)
    return len(response.content)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient() as http, pages.opened(partial(fetch, http), **WORKER):
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/pages", status_code=202)
async def push(page: Page, request: Request) -> Response:
    url = str(page.url)
    task_id = await pages.queue.push({"url": url}, page.priority, group=page.url.host, key=url)
    return pages.accepted(task_id, request.url_for("show", task_id=task_id))


@app.get("/pages/{task_id}")
async def show(task_id: str, request: Request, wait: float = Query(0, ge=0, le=30)) -> Response:
    return await pages.result(task_id, wait, request=request)


@app.get("/pages/{task_id}/events")
async def events(task_id: str) -> Response:
    return pages.events(task_id)


@app.get("/pages/{task_id}/why")
async def why(task_id: str) -> dict[str, str]:
    return {"why": await pages.queue.why(task_id)}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # exit 0: uvicorn repeats its signal
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
