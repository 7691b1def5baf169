"""The program `dpq`. It stands beside the package, since Ctrl-C may come while that is loaded."""

import os
import sys


def main() -> None:
    """Run the command line; Ctrl-C is 130 and one word, also while it is loaded."""
    try:
        import signal

        default = signal.default_int_handler
        if ours := signal.getsignal(signal.SIGINT) is default:  # else the shell ignores it
            signal.signal(signal.SIGINT, _leave)  # an exception may get lost in an import
        from dpq.cli import main as run

        if ours:
            signal.signal(signal.SIGINT, default)
        run()
    except KeyboardInterrupt:
        _leave()


def _leave(*_: object) -> None:
    sys.stdout.flush()
    os.write(2, b"interrupted\n")
    os._exit(130)
