"""The first comparison: tasks that do nothing, pushed and consumed.

Each peer does four things in turn, each in a fresh process: it pushes all tasks one by one,
consumes them one at a time, pushes them in bulk (or one by one, if it has no bulk), and consumes
them ten at a time in one process. redis-py does the same right before each peer, so a ratio
compares what ran within seconds of each other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from statistics import median
from types import MappingProxyType
from typing import Any

from benchmarks.peers.catalog import BY_NAME, Peer
from benchmarks.peers.environments import PLACE, NotInstalledError, command, install
from benchmarks.peers.servers import Place, ProgramError, a_beanstalkd, figures_of, resident

PATIENCE = 180  # seconds for a program: on a busy machine RQ handles 50 tasks in one
STEPS = {"push": 1, "consume": 1, "push_many": 1, "consume_10": 10}
"""Each step, and how many tasks run at once in it."""

Round = dict[str, dict[str, float]]


def compare(
    place: Place, peers: Sequence[Peer], tasks: int, rounds: int, talk: Callable[[str], object]
) -> Iterator[dict[str, Any]]:
    """Measure peers one after the other; yield a row of results for each.

    Args:
        place: The server.
        peers: Which.
        tasks: How many, in each step.
        rounds: How often; results are medians.
        talk: Gets a line at the beginning of each peer.
    """
    for peer in peers:
        talk(peer.title)
        try:
            version = install(peer)
            pairs = [
                (do_steps(place, BY_NAME["raw"], tasks), do_steps(place, peer, tasks))
                for _ in range(rounds)
            ]
        except (NotInstalledError, ProgramError) as error:
            yield {"name": peer.name, "title": peer.title, "failed": str(error)}
            continue
        yield {
            **{"name": peer.name, "title": peer.title, "version": version, "note": peer.note},
            "steps": {
                step: {
                    **{
                        key: median(its[step][key] for _, its in pairs) for key in pairs[0][1][step]
                    },
                    "ratio": median(its[step]["rate"] / raw[step]["rate"] for raw, its in pairs),
                    "ratios": [its[step]["rate"] / raw[step]["rate"] for raw, its in pairs],
                }
                for step in pairs[0][1]
            },
        }


def do_steps(
    place: Place, peer: Peer, tasks: int, steps: Mapping[str, int] = MappingProxyType(STEPS)
) -> Round:
    """Let a peer do all steps, or some, once."""
    place.empty()
    found: Round = {}
    program, *more = peer.tasks
    if peer.kind == "node":
        more = [str(PLACE / peer.name)]
    with ExitStack() as stack:
        url, pid = place.url, 0
        if peer.kind == "debian":
            url, pid = stack.enter_context(a_beanstalkd(place.pid))
        for step, at_once in steps.items():
            what = step.removesuffix("_10")
            doing = "push" if what == "push_many" and not peer.bulk else what
            words = [*command(peer, program), doing, url, str(tasks), str(at_once), *more]
            before, used = place.counted(), resident(pid) if pid else 0
            figures = figures_of(words, PATIENCE)
            after = place.counted()
            if doing != what:
                continue  # its tasks are for the next step
            row = {"rate": float(figures["rate"])}
            if pid:
                row |= {"memory": (resident(pid) - used) / tasks} if what == "push" else {}
            else:
                row |= {
                    "commands": (after.commands - before.commands) / tasks,
                    "network": (after.network - before.network) / tasks,
                    "server_us": (after.processor - before.processor) / tasks,
                }
                if what == "push":
                    row["memory"] = (after.memory - before.memory) / tasks
            found[step] = row
    return found
