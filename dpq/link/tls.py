"""The certificates that a URL names: checked when the URL is read, not at the first call.

`url` calls it. redis-py reads the files again for each connection, so a certificate may be renewed
in its file. It must not connect to anything.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpq.model.errors import ConfigurationError

_CHECKS = ("none", "optional", "required")


def check_certificates(options: Mapping[str, Any]) -> None:
    """Check the `ssl_` parameters of a URL."""
    wanted = options.get("ssl_cert_reqs", "required")
    if isinstance(wanted, str) and wanted not in _CHECKS:
        raise ConfigurationError(f"ssl_cert_reqs must be one of {', '.join(_CHECKS)}")
    authorities, directory = options.get("ssl_ca_certs"), options.get("ssl_ca_path")
    certificate, key = options.get("ssl_certfile"), options.get("ssl_keyfile")
    for name, path in (("ssl_ca_certs", authorities), ("ssl_certfile", certificate)):
        _check_file(name, path)
    _check_file("ssl_keyfile", key)
    if directory is not None and not Path(directory).is_dir():
        raise ConfigurationError("ssl_ca_path is not a directory")
    if key and not certificate:
        raise ConfigurationError("ssl_keyfile needs ssl_certfile")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authorities:
        _try("ssl_ca_certs holds no certificates", context.load_verify_locations, authorities)
    if certificate:
        _try(
            "ssl_certfile and ssl_keyfile are no certificate and its key, or ssl_password is wrong",
            context.load_cert_chain,
            certificate,
            key,
            # With None OpenSSL would ask at the terminal, and wait.
            options.get("ssl_password") or "",
        )


def _check_file(name: str, path: Any) -> None:
    if path is not None and not Path(path).is_file():
        raise ConfigurationError(f"{name} is not a file")


def _try(otherwise: str, load: Any, *arguments: Any) -> None:
    try:
        load(*arguments)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
        raise ConfigurationError(f"{otherwise}: {reason}") from None
