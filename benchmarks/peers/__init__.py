"""Other queues, and other ways to stay below a limit, measured with the work that DPQ does.

`python -m benchmarks.peers --help` says how. `catalog.py` names the peers, `programs/` has a
program for each. A peer runs in an environment of its own, which `environments.py` makes on demand.
DPQ imports none of them.
"""
