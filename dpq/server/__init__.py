"""The embedded server: a private Redis or Valkey on a unix socket, for programs and tests."""

from dpq.server.embedded import (
    MARKER,
    Binary,
    Server,
    find_all_binaries,
    find_binary,
    open_embedded,
)

__all__ = ["MARKER", "Binary", "Server", "find_all_binaries", "find_binary", "open_embedded"]
