"""What each peer does in `bench_peers`: a program of its own for each, run by the peer's Python.

These programs know nothing of DPQ but `dpq_worker.py`, and import nothing from the benchmarks.
"""
