"""The OpenAPI document of the JSON API, made from its routes and the docstrings of its views."""

import re
from collections.abc import Sequence
from typing import Any

from dpq.web.site import View

ABOUT = (
    "What the pages show and do. Priorities, tokens and integers beyond 2^53 are texts. In a path, "
    "write `~` and two hex digits for `/`, `~` and `%`: `a~2Fb`. Calls that change something need, "
    "from a program, the header `Authorization: Bearer TOKEN` with the dashboard's token, or "
    "`Origin:` with its address if it has none. A dashboard without --write refuses them."
)

Row = tuple[str, str, View, str]
"""Method, path, view, and the names of what a call takes: in its query, or of POST in its body."""


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Make the document of some routes."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, view, takes in rows:
        names = [(name, "path") for name in re.findall(r"{(\w+)}", path)]
        names += [(name, "query") for name in takes.split() if method != "POST"]
        about: dict[str, Any] = {
            "summary": (view.__doc__ or "").split("\n")[0].rstrip("."),
            "parameters": [
                {
                    "name": name,
                    "in": where,
                    "required": where == "path",
                    "schema": {"type": "string"},
                }
                for name, where in names
            ],
            "responses": {"default": {"description": "JSON; of an error: its status and message."}},
        }
        if method == "POST" and takes:
            schema = {"type": "object", "properties": {name: {} for name in takes.split()}}
            about["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[method.lower()] = about
    return {
        "openapi": "3.1.0",
        "info": {"title": "DPQ", "version": "1", "description": ABOUT},
        "paths": paths,
    }
