"""`dpq top`: queues on the terminal, read once a second, and keys to act on them.

`reader` asks the server in a thread of its own, `words` says in words what it has read, `screens`
and `app` show it with textual. Only the last two import textual.
"""
