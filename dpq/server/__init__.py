"""The embedded server: a private Redis or Valkey on a unix socket, for programs and tests."""

from dpq.server.binaries import Binary, find_binary
from dpq.server.embedded import MARKER, Server, open_embedded

__all__ = ["MARKER", "Binary", "Server", "find_binary", "open_embedded"]
