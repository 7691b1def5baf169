"""The queues `DPQ` and `AsyncDPQ`, their dead letters, leases and registry."""
