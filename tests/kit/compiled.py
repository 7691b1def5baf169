"""fakeredis that compiles each script once in a process, as a server does.

fakeredis compiles the text at each call, and then collects all garbage of Lua: 2 to 4 ms, most of
the time of a test on it. Here a text is compiled once, and kept as Lua's own byte code; each fake
server loads that once, and calls what it has loaded. Lua runs the same instructions: byte code of
`string.dump` keeps lines and names for messages.
"""

from collections.abc import Callable
from typing import Any

from fakeredis.commands_mixins import scripting_mixin

_CODE: dict[bytes, bytes] = {}  # byte code by the script's text, for all fake servers


class Compiled:
    """The Lua of one fake server, which does not compile a script again."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._loaded: dict[bytes, Callable[[], Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def execute(self, text: bytes | str) -> Any:
        """Run a script; leave the garbage to Lua, which collects it as it grows."""
        if isinstance(text, str):
            assert text == "collectgarbage()", text  # else fakeredis has changed: look again
            return None
        if text not in self._loaded:
            if text not in _CODE:
                _CODE[text] = self._runtime.eval("string.dump")(self._runtime.compile(text))
            self._loaded[text] = self._runtime.compile(_CODE[text])
        return self._loaded[text]()


def compile_once() -> None:
    """Let every fake server of this process compile each script once."""
    mixin = scripting_mixin.ScriptingCommandsMixin
    made = mixin._get_server_runtime

    def runtime_of(self: Any, server: Any) -> Any:
        if not hasattr(server, "compiled"):
            server.compiled = Compiled(made(self, server))
        return server.compiled

    mixin._get_server_runtime = runtime_of
