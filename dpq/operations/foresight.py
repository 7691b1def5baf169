"""The operations that look ahead, on one partition: forecast and drain. No I/O."""

from dpq.model.drain import DrainLook
from dpq.model.forecast import PREVIEW_CHARACTERS, Forecasting, Foreseen
from dpq.protocol.command import CommandMaker, Steps
from dpq.protocol.foresight import read_drain, read_view

MORE = 20
"""Heads, delayed tasks, leases and closed groups that are read beyond the tasks of a forecast:
some of them give way."""

BEHIND = 1000
"""Waiting tasks in one read of a forecast, of all groups together. Source: docs/design.md,
"Forecast"."""

PREVIEW_BYTES = 4 * PREVIEW_CHARACTERS

NAMED, LARGEST, LAST_TO_OPEN = 100, 50, 50
"""Groups that a drain time is computed from: with a limit of their own; the largest; closed."""


class ForesightOperations(CommandMaker):
    """Every operation that looks ahead, on one partition."""

    _visibility_ms: int

    def foresee(self, count: int, run_ms: float | None) -> Steps[Foreseen]:
        """Foresee the next starts."""
        args = [self._now(), count + MORE, BEHIND, PREVIEW_BYTES]
        view = yield self._command("forecast", args, read_view)
        grain = 1.0 if self._clock else 0.001  # a given clock has whole ms, the server's us
        run = Forecasting(view, grain=grain, run_ms=run_ms, lease_ms=self._visibility_ms)
        return run.run(count)

    def drain_look(self) -> Steps[DrainLook]:
        """Read what the drain time depends on."""
        args = [self._now(), NAMED, LARGEST, LAST_TO_OPEN]
        return self._ask("drain", args, read_drain)
