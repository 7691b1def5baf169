"""Run the scheduler daemon: the same as `dpq scheduler`; `--help` shows the options."""

import sys

from dpq.cli import main

if __name__ == "__main__":
    main(["scheduler", *sys.argv[1:]])
