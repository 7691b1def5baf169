"""The rule of lib/limits/refunds.lua in exact fractions: it keeps what a gate stores, no more."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

PAIRS = 3
"""As in lua/lib/limits/refunds.lua."""


@dataclass
class Window:
    """What a window has granted, and what of it may be given back."""

    paid: Fraction = Fraction(0)
    pairs: list[tuple[int, Fraction]] = field(default_factory=list)

    def grant(self, token: int, now: Fraction, ms: Fraction, floor: Fraction = Fraction(0)) -> None:
        """A task is charged `ms`; `floor` is what a 429 makes the window owe."""
        slack = max(Fraction(0), self.paid - max(now, floor)) if self.pairs else Fraction(0)
        self.add(self.pairs, token, slack)
        self.paid = max(self.paid, now, floor) + ms

    def add(self, pairs: list[tuple[int, Fraction]], token: int, slack: Fraction) -> None:
        """Keep the suffix minima, and of these only so many."""
        while pairs and (pairs[-1][1] >= slack or pairs[-1][0] >= token):
            last = pairs.pop()
            token, slack = max(token, last[0]), min(slack, last[1])
        pairs.append((token, slack))
        if len(pairs) > PAIRS:
            steps = [b[1] - a[1] for a, b in pairwise(pairs)]
            closest = steps.index(min(steps))
            pairs[closest + 1] = (pairs[closest + 1][0], pairs[closest][1])
            del pairs[closest]

    def give_back(self, token: int, ms: Fraction) -> Fraction:
        """A task has spent so much less; return what is given back of it."""
        back = min([ms, self.paid, *(slack for later, slack in self.pairs if later > token)])
        if not self.pairs or back <= 0:
            return Fraction(0)
        left: list[tuple[int, Fraction]] = []
        for later, slack in self.pairs:
            self.add(left, later, slack - back if later > token else slack)
        self.pairs, self.paid = left, self.paid - back
        return back

    def owe(self, token: int, since: Fraction, ms: Fraction) -> None:
        """A task has spent so much more than it was charged; `since`: the least that was paid."""
        self.paid = max(self.paid, since) + ms
