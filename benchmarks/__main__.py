"""`python -m benchmarks [NAME ...]` runs all benchmarks, or those named, and prints one table."""

from benchmarks._harness import run_all

run_all()
