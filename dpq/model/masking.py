"""URLs for logs, errors and metrics: without their secrets. No I/O."""

import re

SCHEMES = "redis://[user:password@]host[:port][/db], rediss://..., unix:///path/to.sock[?db=0], \
redis+cluster://host:port[,host:port...], redis+sentinel://host:port[,host:port...]/service[/db], \
rediss+..., embedded: or embedded:DIR"
_HOST = r"(?:[\w.-]+|\[[\w:.%-]+\])(?::\d{1,5})?"
_USER = r"(?:(?P<user>[^\s:/?#]*)(?P<password>:[^\s/?#]*)?@)?"  # the password ends at the last "@"
_PAIR = r"[^\s?#&=]+=[^\s?#&]*"
_QUERY = rf"(?:\?(?P<query>(?:{_PAIR}(?:&{_PAIR})*)?))?"
_WELL_FORMED = [
    re.compile(f"(?P<scheme>{scheme}://){_USER}(?P<server>{server}){_QUERY}", re.IGNORECASE)
    for scheme, server in (
        ("rediss?", rf"(?:{_HOST})?(?:/\d*)?"),
        (r"rediss?\+cluster", rf"{_HOST}(?:,{_HOST})*/?"),
        (r"rediss?\+sentinel", rf"{_HOST}(?:,{_HOST})*/[\w.%~+-]+(?:/\d*)?"),
        ("unix", r"/[\w.%~+/-]+"),
    )
]
_SCHEME = re.compile(r"(?:rediss?(?:\+cluster|\+sentinel)?|unix|embedded):(?://)?", re.IGNORECASE)
_DIRECTORY = re.compile(r"embedded:[^@:?#]*")
_SHOWN = re.compile(
    r"(?:db|protocol|max_connections|health_check_interval|(?:socket_(?:connect_)?)?timeout|"
    r"ssl_min_version)=[\d.]*|(?:socket_keepalive|retry_on_timeout|decode_responses|client_name|"
    r"ssl_(?:ca_certs|ca_path|certfile|keyfile|cert_reqs|check_hostname))=[\w./~+-]*"
)
"""Parameters of a URL that hold no secret, with the form of their values."""
_SECRET_NAMES = frozenset({"password", "ssl_password", "sentinel_password"})


def mask(url: object) -> str:
    """Return `url` with its password and secret parameters as `***`; accepts anything.

    Only parts that cannot be a secret are shown. If a URL is not well-formed, only its scheme is
    shown, since a password may stand anywhere in it. A user without a password may be a password
    without its colon, so it is masked; so is a parameter with an unknown name or a strange value.
    """
    if not isinstance(url, str):
        return f"<{type(url).__name__}>"
    if not url or _DIRECTORY.fullmatch(url):
        return url
    parts = next(filter(None, (form.fullmatch(url) for form in _WELL_FORMED)), None)
    if parts is None:
        scheme = _SCHEME.match(url)
        return f"{scheme[0] if scheme else ''}***"
    shown = parts["scheme"]
    if parts["user"] is not None:
        named = parts["password"] not in (None, ":")
        shown += f"{parts['user']}:***@" if named else "***@"
    shown += parts["server"]
    if parts["query"] is not None:
        shown += "?" + "&".join(map(_mask_parameter, parts["query"].split("&")))
    return shown


def server_name(url: str) -> str:
    """Return the short name of a server, without secrets: `localhost:6379/0`, or a socket's path.

    A text that is no URL is a name already.
    """
    parts = next(filter(None, (form.fullmatch(url) for form in _WELL_FORMED)), None)
    if parts is None:
        return mask(url) if "://" in url else url
    server, chosen = parts["server"], re.search(r"\bdb=(\d+)", parts["query"] or "")
    if parts["scheme"].lower() == "unix://":
        return server + (f"?{chosen[0]}" if chosen and int(chosen[1]) else "")
    if "+" in parts["scheme"]:
        return server.rstrip("/")
    host, _, database = server.partition("/")
    port = "" if re.search(r":\d+$", host) else ":6379"
    return f"{host or 'localhost'}{port}/{chosen[1] if chosen else database or 0}"


def _mask_parameter(text: str) -> str:
    if _SHOWN.fullmatch(text):
        return text
    name = text.partition("=")[0]
    return f"{name}=***" if name in _SECRET_NAMES else "***"
