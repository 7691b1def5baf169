"""How fast DPQ is, as ratios to the raw Redis command on the same server. See README.md."""
