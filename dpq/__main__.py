"""`python -m dpq`: the program `dpq`."""

from _dpq import main

if __name__ == "__main__":
    main()
