"""Every verb as data: which scripts it sends, in which order. No I/O."""
