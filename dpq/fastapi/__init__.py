"""DPQ inside a FastAPI or Starlette application.

    pages = WebQueue("redis://localhost", "pages")
    app = FastAPI(lifespan=pages.lifespan(fetch, concurrency=20))

    @app.post("/pages")
    async def push(url: str, request: Request) -> Response:
        task_id = await pages.queue.push({"url": url})
        return pages.accepted(task_id, request.url_for("show", task_id=task_id))

    @app.get("/pages/{task_id}")
    async def show(task_id: str) -> Response:
        return await pages.result(task_id)

    @app.get("/pages/{task_id}/events")
    async def events(task_id: str) -> Response:
        return pages.events(task_id)

`web_queue` has the queue of a process, `streams` the server-sent events. Only Starlette is needed.

Source: docs/guides/fastapi.md.
"""

from dpq.http.wire import missing_extra

try:
    import starlette  # noqa: F401 - the error names the way out
except ImportError as error:  # a test hides the library
    raise missing_extra("fastapi", error, "starlette") from error

from dpq.fastapi.web_queue import WebQueue

__all__ = ["WebQueue"]
