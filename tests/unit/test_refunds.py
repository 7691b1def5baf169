"""The rule of refunds, against exact bookkeeping, in many random runs."""

import random
from fractions import Fraction

import pytest
from kit.refunds import PAIRS, Grant, History, Window


def run(
    seed: int, most_pairs: int, running: int, over: bool = False
) -> tuple[Window, History, int]:
    """Tasks of random costs, as many at once as may; return also the units that were spent."""
    chance = random.Random(seed)
    burst = chance.choice([1, 3, 20])
    window, history = Window(most_pairs=most_pairs), History()
    out: list[tuple[Fraction, int, int, int]] = []  # when it ends, token, reserved, spent
    now, spent, granted = Fraction(0), 0, 0
    while granted < 120 or out:
        units = chance.randint(1, 2 * burst)
        at = max(now, window.paid + (units - burst))
        at += chance.choice([0, 0, 0, chance.randint(0, 3 * burst)])
        ends = min(out, default=None)
        if granted < 120 and len(out) < running and (ends is None or at < ends[0]):
            now = at
            granted += 1
            window.grant(granted, now, Fraction(units))
            history.grants.append(Grant(now, Fraction(units), Fraction(units)))
            final = chance.randint(0, 2 * units if over and chance.random() < 0.2 else units)
            out.append((now + chance.randint(0, 8 * burst), granted, units, final))
            continue
        assert ends is not None
        out.remove(ends)
        now, token, units, final = ends
        spent += final
        grant = history.grants[token - 1]
        if final < units:
            window.give_back(token, Fraction(units - final))
            grant.final = Fraction(final)
        elif final > units:
            window.owe(token, grant.at + grant.charged, Fraction(final - units))
            grant.final = Fraction(final)
        *_, exact = history.paid()
        assert window.paid >= exact
        assert len(window.pairs) <= most_pairs
        if most_pairs > 1000 and not over:
            assert window.paid == exact
    for i, first in enumerate(history.grants):  # any window of 10 bursts that begins with a grant
        per = 10 * burst
        seen = [g for g in history.grants[i:] if g.at < first.at + per]
        used = sum(min(grant.final, grant.charged) for grant in seen)
        assert used <= per + burst - 1 + (max(0, max(g.charged for g in seen) - burst))
    return window, history, int(spent * 1000 / now)


@pytest.mark.parametrize("most_pairs", [1, 2, PAIRS, 10_000])
@pytest.mark.parametrize("over", [False, True])
def test_never_less_than_by_final_costs(most_pairs: int, over: bool) -> None:
    """What is paid is never less than if each task had been charged what it spent; with all pairs
    it is exactly that. So no window holds more than its bound by final costs."""
    for seed in range(4):
        run(seed, most_pairs, running=1 + seed % 12, over=over)


def test_a_plain_refund_would_break_it() -> None:
    """Idle time that a reservation has used up must not be credited a second time."""

    class Plain(Window):
        def give_back(self, token: int, ms: Fraction) -> Fraction:
            self.paid -= ms
            return ms

    window, history = Plain(), History()
    for token, at in ((1, 0), (2, 100)):
        window.grant(token, Fraction(at), Fraction(50))
        history.grants.append(Grant(Fraction(at), Fraction(50), Fraction(50)))
    window.give_back(1, Fraction(50))
    history.grants[0].final = Fraction(0)
    assert window.paid < [*history.paid()][-1]
