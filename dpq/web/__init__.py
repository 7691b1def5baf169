"""The dashboard: an ASGI application that shows queues, and changes them if it may.

`dpq web` serves it, and FastAPI, Starlette or Django mount it:

    application.mount("/queues", dpq.web.app([q], access=Access(write=True)))

It needs the extra `web`. It reads and changes queues through `DPQ`, and through the read-only
operations of `dpq.verbs.browse`.
"""

from dpq.web.access import Access
from dpq.web.routes import app

__all__ = ["Access", "app"]
