"""The program `dpq`, also as `python -m dpq`. It loads the command line last: Ctrl-C may come."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C is 130 and one word, also while it is loaded."""
    try:
        from dpq.cli import main as run

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
