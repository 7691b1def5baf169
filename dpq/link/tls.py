"""The certificates that a URL names: checked when the URL is read, not at the first call.

redis-py reads the files again for each connection, so a certificate may be renewed in its file.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpq.model.errors import ConfigurationError

_CHECKS = ("none", "optional", "required")
_PATHS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")


def check_certificates(options: Mapping[str, Any]) -> None:
    """Check the `ssl_` parameters of a URL."""
    wanted = options.get("ssl_cert_reqs", "required")
    if isinstance(wanted, str) and wanted not in _CHECKS:
        raise ConfigurationError(f"ssl_cert_reqs must be one of {', '.join(_CHECKS)}")
    for name in _PATHS:
        if name in options and not Path(options[name]).exists():
            raise ConfigurationError(f"{name}: there is no such file")
    authorities, certificate, key = map(
        options.get, ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
    )
    if key and not certificate:
        raise ConfigurationError("ssl_keyfile needs ssl_certfile")
    context, reading = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "ssl_ca_certs holds no certificates"
    try:
        if authorities:
            context.load_verify_locations(authorities)
        reading = "ssl_certfile and ssl_keyfile do not belong together, or ssl_password is wrong"
        if certificate:  # with None as password OpenSSL would ask at the terminal, and wait
            context.load_cert_chain(certificate, key, options.get("ssl_password") or "")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
        raise ConfigurationError(f"{reading}: {reason}") from None
