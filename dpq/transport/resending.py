"""Decides how a command without a reply is sent again. It sends nothing itself.

The blocking and the asyncio connections call it:

    again = Resending(reply, mark)
    while (attempt := again.next_try()) is not None:
        again.reply = send(command, attempt)
    again.result

A command is sent again if its reply is missing, or if the server holds other keys or does not know
the script. The client itself sends it, with its own retries and redirections. But the text of a
script goes over DPQ's own connection first, since the client's pool swallows an OSError of a signal
handler. So does a change that is to be confirmed: only there WAIT is on the same connection.
"""

from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from dpq.protocol.durability import Unconfirmed, error_in
from dpq.transport.cluster import MISSING, refused
from dpq.transport.script_loading import may_not_eval

OWN_TRIES = 2
"""Tries over DPQ's own connections for a change that is to be confirmed; then the client sends it.
Two, since the first one may find that the server does not know the script."""

FAILED = (Exception, Unconfirmed)
"""The kinds of replies that may not stand: errors, and replies that are not confirmed."""


def resendable(error: object) -> bool:
    """Return True if a command may be sent again as it is: no reply, or the wrong server."""
    return error is MISSING or refused(error)


class Try(NamedTuple):
    """One more try to get a reply.

    Attributes:
        own: Send over a connection of DPQ's own, else through the client.
        as_text: Send the text of the script (EVAL), else its hash.
        load: Load all scripts before.
    """

    own: bool
    as_text: bool
    load: bool


class Resending:
    """The tries of one command.

    Args:
        reply: The first reply.
        mark: The mark for a reply that the client gets; None if nothing is to be confirmed.

    Attributes:
        reply: The last reply, or its error.
    """

    def __init__(self, reply: Any, mark: Unconfirmed | None) -> None:
        self.reply = reply
        self._mark = mark
        self._own_tries = OWN_TRIES if mark else 0
        self._as_text = False
        self._loaded = False
        self._by_client = False

    def next_try(self) -> Try | None:
        """Decide on the next try; None if the last reply stands."""
        error = error_in(self.reply)
        load = False
        if isinstance(error, NoScriptError) and not self._loaded:
            self._as_text = True
            # The call has used up its wait for a confirmation.
            if isinstance(self.reply, Unconfirmed):
                self._own_tries, self._mark = 0, self.reply
            elif self._mark is None and not self._by_client:
                self._own_tries = 1
        elif self._as_text and may_not_eval(error):
            self._as_text, self._loaded, load = False, True, True
        elif self._by_client or not resendable(error):
            return None
        self._by_client = self._own_tries == 0
        self._own_tries -= not self._by_client
        return Try(not self._by_client, self._as_text, load)

    @property
    def result(self) -> Any:
        """The reply or its error; an `Unconfirmed` if the script has run without confirmation."""
        error = error_in(self.reply)
        if error is None and self._by_client and self._mark is not None:
            return self._mark.mark(self.reply)
        return error or self.reply
