"""`dpq web`: the dashboard in a browser."""

import os
import socket
from contextlib import closing
from typing import Any

import typer

from dpq import DPQ
from dpq.cli import _command as cmd
from dpq.cli._terminal import log_more, talk
from dpq.cli.daemon import LOCAL, Address, PortNumber, missing
from dpq.link.connect import open_url
from dpq.model.errors import ConfigurationError

TOKEN_VARIABLE = "DPQ_WEB_TOKEN"  # noqa: S105 - its name

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@cmd.command
def web(
    ctx: typer.Context,
    host: Address = LOCAL,
    port: PortNumber = 8321,
    write: bool = False,
    token_env: cmd.Name = TOKEN_VARIABLE,
    name: cmd.Names = None,
    badge: cmd.Text | None = None,
    no_payloads: bool = False,
    server_name: cmd.Name | None = None,
    queue: cmd.Queues = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Show queues in a browser until Ctrl-C: tasks, limits, dead letters, workers.

    It shows the named queues, or all that are known. It needs the packages of the extra `web`. By
    default it listens on this machine only, and changes nothing. Each action writes a line to the
    log. Programs that send the token in DPQ_PUSH_TOKEN may push tasks, and do nothing else.

    Args:
        host: The address to listen on; any but 127.0.0.1 needs a token.
        port: The port; 0 takes a free one.
        write: Allow changes. Without it, pages only show.
        token_env: The variable with the token to log in with: at least 32 characters.
        name: A name by which browsers reach it, beside the address and the names of this machine;
            repeat it for more.
        badge: The name of the environment, at the top of each page.
        no_payloads: Show no payloads.
        server_name: The server's name on each page, and the label `server` of /metrics; by default
            the URL without its password.
    """
    log_more()
    try:
        import uvicorn

        from dpq.views.sampler import Known, Named
        from dpq.web.access import LOOPBACK as NAMES
        from dpq.web.access import Access
        from dpq.web.routes import app
    except ImportError as error:
        way_out = "`pip install 'starlette>=0.45' 'jinja2>=3.1.5' 'uvicorn>=0.31'`"
        raise missing(error, "web", way_out) from error
    token = os.environ.get(token_env) or None
    if host not in LOOPBACK and token is None:
        raise ConfigurationError(
            f"--host {host} lets others reach it: put a token of at least 32 characters into the "
            f"variable {token_env}, as `python -c 'import secrets; print(secrets.token_urlsafe())'`"
            " prints it"
        )
    at = f"[{host}]" if ":" in host else host
    hosts = (*NAMES, at.lower(), *(each.lower() for each in name or ()))
    pushes = os.environ.get("DPQ_PUSH_TOKEN") or None
    payloads = not no_payloads
    access = Access(write=write, token=token, hosts=hosts, payloads=payloads, push_token=pushes)
    opened = open_url(url)
    with closing(opened):
        known: Any = Known(opened.client)
        if names := cmd.named_queues(ctx, queue, also=False):
            known = Named([DPQ(opened.client, each) for each in names])
        site = app(known, access=access, badge=badge or "", server=server_name or opened.label)
        server = uvicorn.Server(uvicorn.Config(site, log_level="warning", lifespan="off"))
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=512) as listening:
            may = "may change queues" if write else "read only"
            talk(f"http://{at}:{listening.getsockname()[1]}/ ({may}); Ctrl-C ends it")
            server.run([listening])
