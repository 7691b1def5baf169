"""The workers `Worker` and `AsyncWorker`: threads or tasks that run handlers."""
