"""The report of a soak, in Markdown."""

import platform
from collections import Counter
from datetime import UTC, datetime

import redis
from soak.conductor import Outcome
from soak.judge import Verdict
from soak.ledger import Books
from soak.plan import Plan

from dpq.server import Binary

EXPECTED = {
    "lost": "acknowledged pushes that were neither done nor are stored",
    "lost though confirmed": "pushes that the replica had confirmed, right before it took over",
    "never pushed": "tasks that nobody has pushed",
    "acknowledged, and delivered again": "deliveries of a task whose ack had been acknowledged",
    "a late ack was taken": "acks that were taken though another consumer had the task by then",
    "finished twice": "tasks whose ack was acknowledged twice",
    "token twice": "tokens that two deliveries had",
    "redelivered without a reason": "redeliveries without a kill, an expiry or a return",
    "too early": "deliveries before the delay, the return or the lease was over",
    "attempts counted wrong": "deliveries with another attempt than failures and expiries make",
    "deferrals counted wrong": "deliveries with another number of deferrals",
    "out of order": "pops that passed over a better task, where order is judged",
    "over the limit": "windows with more units than rate + burst - 1",
    "handed out though closed": "429s within whose closing something was handed out",
    "over the concurrency": "moments with more leases than a group may have",
}
"""Kinds of findings, in words; all of them are to be 0."""


def is_sound(outcome: Outcome, verdict: Verdict) -> bool:
    """Whether the run has found nothing that must not be."""
    clean = not (outcome.failed or outcome.left_keys or verdict.findings)
    return clean and not any(outcome.problems.values()) and not any(outcome.stored.values())


def report(binary: Binary, plan: Plan, outcome: Outcome, books: Books, verdict: Verdict) -> str:
    """All that was found, as Markdown."""
    return "\n\n".join(
        [
            _head(binary, plan, outcome),
            _verdict(outcome, verdict),
            _work(verdict),
            _faults(books),
            _loss(verdict),
            *_details(outcome, verdict),
        ]
    )


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _head(binary: Binary, plan: Plan, outcome: Outcome) -> str:
    minutes = (outcome.ended - outcome.began) / 60
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {minutes:.1f} minutes, {binary.family} {binary.version} "
        f"twice (AOF, `appendfsync always`), Python {platform.python_version()}, "
        f"redis-py {redis.__version__}, "
        f"seed {plan.seed}, at most {plan.rate:g} pushes a second, leases of {plan.visibility:g} s."
    )


def _verdict(outcome: Outcome, verdict: Verdict) -> str:
    found = Counter(finding.what for finding in verdict.findings)
    rows: list[tuple[object, ...]] = [
        (words, found[kind], verdict.checked[kind] or "") for kind, words in EXPECTED.items()
    ]
    rows += [
        ("tasks left when all was drained", sum(map(len, outcome.stored.values())), ""),
        ("problems that `check()` names", sum(map(len, outcome.problems.values())), ""),
        ("keys left but settings, totals and limits", len(outcome.left_keys), ""),
        ("processes that failed or did not leave in peace", len(outcome.failed), ""),
    ]
    title = "**Sound.**" if is_sound(outcome, verdict) else "**NOT SOUND.**"
    return f"{title}\n\n" + _table(("what must be 0", "found", "looked at"), rows)


def _work(verdict: Verdict) -> str:
    names = sorted({name for counts in verdict.counts.values() for name in counts})
    first = [name for name in ("pushed", "delivered", "acked", "dead") if name in names]
    rest = [name for name in names if name not in first]
    rows = [
        (queue, *(counts[name] for name in first), ", ".join(f"{counts[n]} {n}" for n in rest))
        for queue, counts in sorted(verdict.counts.items())
    ]
    again = _table(
        ("why a task was delivered again", "times"), list(verdict.redelivered.most_common())
    )
    table = _table(("queue", *first, "deliveries that ended otherwise"), rows)
    return f"{table}\n\n{again}"


def _faults(books: Books) -> str:
    kinds = Counter(f.kind for f in books.faults if f.kind not in ("late", "starved"))
    return _table(("fault", "times"), sorted(kinds.items()))


def _loss(verdict: Verdict) -> str:
    head = ("what failovers with asynchronous replication lost", "number")
    return _table(head, sorted(verdict.lossy.items()))


def _details(outcome: Outcome, verdict: Verdict) -> list[str]:
    lines = [f"{finding.what}: {finding.detail}" for finding in verdict.findings[:20]]
    lines += [f"left: {key}" for key in outcome.left_keys]
    lines += [f"{queue}: {each}" for queue, found in outcome.problems.items() for each in found]
    lines += outcome.failed[:20]
    return ["Findings:\n\n```\n" + "\n".join(lines) + "\n```"] if lines else []
