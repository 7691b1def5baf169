"""`dpq top`: queues on the terminal, read once a second, and keys to act on them.

`reader` asks the server in a thread of its own, `columns` chooses what fits, `screens` and `app`
show it with textual, in the words of `dpq.views`. Only the last two import textual.
"""
