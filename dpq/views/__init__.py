"""The room of all that screens show: readings of queues, verdicts, words, and the data of charts.

The command line, the dashboard and the metrics draw it. Nothing here draws: no HTML, no
terminal, and no format of a reader.
"""
