"""A file of requests for an API: sent within its limits, each answer saved before it is done.

    limits = [RateLimit(500, 60), RateLimit(200_000, 60, unit="tokens")]
    job = BatchJob(Path("asks.jsonl"), "https://api.openai.com/v1/chat/completions", limits=limits)
    outcome = run_batch(job)

The command `dpq run` does the same. Run again, also after a kill, it goes on. Needs httpx. The
guide is docs/llm_batches.md.
"""

from dpq.batch.job import BatchJob
from dpq.batch.reader import BatchError
from dpq.batch.run import BatchOutcome, run_batch, run_batch_async
from dpq.batch.sender import Progress

__all__ = ["BatchError", "BatchJob", "BatchOutcome", "Progress", "run_batch", "run_batch_async"]
