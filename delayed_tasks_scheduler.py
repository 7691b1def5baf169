"""Run the scheduler daemon: the same as `dpq admin scheduler`; `--help` shows the options."""

import sys

from dpq.cli import main

if __name__ == "__main__":
    main(["admin", "scheduler", *sys.argv[1:]])
