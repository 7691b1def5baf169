"""`python -m dpq` is `dpq`."""

from dpq.cli import main

if __name__ == "__main__":
    main()
