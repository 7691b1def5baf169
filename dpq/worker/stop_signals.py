"""The signals that end a worker or a daemon."""

import signal
from contextlib import suppress


def stop_signals() -> list[signal.Signals]:
    """List the signals that end a process; SIGHUP is none under `nohup`, which has it ignored."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    with suppress(AttributeError):  # Windows has none
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
    return numbers
