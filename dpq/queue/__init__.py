"""The queues `DPQ` and `AsyncDPQ`, their dead letters, permits and leases."""
