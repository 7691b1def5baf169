"""Answers about a queue: why it stands still, how fast it moves, when it will be empty. No I/O."""
