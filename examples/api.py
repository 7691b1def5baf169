"""Take pages over HTTP and push them, each in the group of its host; scraper.py fetches them.

python examples/api.py [redis://localhost:6379]
python examples/scraper.py embedded:./pages     the same server: without a URL it is this one

curl localhost:8000/pages --json '{"url": "https://example.com/best", "priority": 9}'
curl localhost:8000/pages/ID

The first answers with the page's ID, the second with its state and why it is not being fetched.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, HttpUrl

from dpq import AsyncDPQ, TaskNotFoundError

URL = (sys.argv[1:] or ["embedded:./pages"])[0]


class Page(BaseModel):
    url: HttpUrl
    priority: int = 0


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, AsyncDPQ]]:
    async with AsyncDPQ.from_url(URL, "pages") as q:
        yield {"q": q}  # what every request finds in its state


def queue(request: Request) -> AsyncDPQ:
    q: AsyncDPQ = request.state.q
    return q


Queue = Annotated[AsyncDPQ, Depends(queue)]
app = FastAPI(lifespan=lifespan)


@app.post("/pages", status_code=202)
async def push(page: Page, q: Queue) -> dict[str, str]:
    url = str(page.url)
    task_id = await q.push(
        {"url": url}, page.priority, group=page.url.host, key=url, on_duplicate="raise_priority"
    )
    return {"id": task_id}


@app.get("/pages/{task_id}")
async def show(task_id: str, q: Queue) -> dict[str, str]:
    try:
        task, why = await q.get(task_id), await q.why(task_id)
    except TaskNotFoundError:
        raise HTTPException(404, "fetched already, given up, or never pushed") from None
    return {"state": task.state, "why": why}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")))
