"""What screens show of queues: readings, verdicts, words, and the data of charts.

The command line, the dashboard, `dpq top` and the metrics draw it. Nothing here draws: no HTML, no
terminal, and no format of a reader.
"""
