"""Measurements of any server, beside its raw commands: `dpq bench` calls `run.measured`.

The benchmarks of the repository use `distance` as well. A measurement works in a queue of its own,
which it drops in the end.
"""
