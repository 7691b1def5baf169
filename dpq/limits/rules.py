"""The rules of one limit: the arguments of `set_limit`, checked once. No I/O, no clock.

`set_limit` of a queue makes the value, and `operations` sends it as it is:

    LimitRules.checked(10, 1, group="a").text()  ->  "0|10 1000 1"
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpq.limits.limits import (
    EVERY_GROUP,
    Adaptive,
    RateLimit,
    Reserve,
    in_order_of_one,
    is_in_order,
    limit_rules,
    read_rules,
    write_rules,
)
from dpq.limits.pools import add_pool, group_weight, pool_members, split_pool
from dpq.limits.quota import Quota, read_quotas, split_quotas, write_quotas
from dpq.model.errors import ConfigurationError
from dpq.model.validation import label

_CLOCK_CHANGES = re.compile(r" -?[0-9]+:-?[0-9][0-9:,-]*")


def plain_rules(text: str) -> str:
    """Leave out of rules the days on which a zone's clock changes, as `plain_rules.lua` does."""
    windows, tab, members = text.partition("\t")
    return _CLOCK_CHANGES.sub(" 0:0", windows) + tab + members


@dataclass(frozen=True, kw_only=True)
class LimitRules:
    """A limit that is checked; only `checked` makes one.

    Attributes:
        group: A group, `"*"` for every group without a limit of its own, or None for the queue.
        windows: Its windows, the shortest first.
        quotas: Its quotas.
        concurrency: Leases that exist at once, or None.
        members: The names of a pool.
        weight: Turns of its group, or None.
        reset: Forget what was granted and counted.
        in_order: A task that waits for its retry keeps its place before all others of its group.
    """

    group: str | None
    windows: tuple[RateLimit, ...]
    quotas: tuple[Quota, ...]
    concurrency: int | None
    members: tuple[str, ...]
    weight: float | None
    reset: bool
    in_order: bool

    @classmethod
    def checked(
        cls,
        rate: float | str | Quota | Sequence[RateLimit | Quota] | None = None,
        per: float | None = None,
        burst: int = 1,
        *,
        group: str | None = None,
        concurrency: int | None = None,
        adaptive: Adaptive | None = None,
        reserve: Reserve | None = None,
        slack: float | None = None,
        members: Sequence[str] | None = None,
        weight: float | None = None,
        reset: bool = False,
        in_order: bool = False,
    ) -> "LimitRules":
        """Check the arguments of `set_limit`.

        Raises:
            ConfigurationError: An argument is out of its bounds, or two exclude each other.
        """
        rest, quotas = split_quotas(rate)
        concurrency = in_order_of_one(in_order, group, concurrency)
        if in_order and members is not None:
            raise ConfigurationError(
                f"in_order is given with members {members!r:.200}: a pool runs several tasks"
                " at once; leave one of them out"
            )
        windows = limit_rules(
            rest, per, burst, concurrency, adaptive, reserve, slack, quotas, weight
        )
        return cls(
            group=group if group in (None, EVERY_GROUP) else label("group", group),
            windows=windows,
            quotas=quotas,
            concurrency=concurrency,
            members=pool_members(members, group),
            weight=group_weight(weight, group),
            reset=reset,
            in_order=in_order,
        )

    @classmethod
    def read(cls, text: str, group: str | None) -> "LimitRules":
        """Read a stored text, whole or as `plain_rules`; `text` writes it again.

        Raises:
            ConfigurationError: It is no such text, or out of the bounds of `set_limit`.
        """
        try:
            rules, members, weight = split_pool(text)
            windows, concurrency = read_rules(rules)
            quotas = read_quotas(rules)
        except (ValueError, TypeError, LookupError):
            raise ConfigurationError(
                f"the limit {text!r:.200} is not what this DPQ stores: set another one"
            ) from None
        return cls.checked(
            [*windows, *quotas] or None,
            group=group,
            concurrency=concurrency,
            members=members or None,
            weight=weight if "*" in text.partition("|")[0].partition("\t")[0] else None,
            in_order=is_in_order(text),
        )

    @property
    def _limits(self) -> list[RateLimit | Quota]:
        return [*self.windows, *self.quotas]

    @property
    def units(self) -> list[str]:
        """The units that it counts."""
        return [each.unit for each in self._limits]

    @property
    def reserves(self) -> bool:
        """True if it keeps units for better priorities."""
        return any(each.reserve for each in self._limits)

    def text(self, now_ms: int = 0) -> str:
        """Write the text of the hash `limits`; quotas carry the clock changes after `now_ms`."""
        rules = write_rules(self.windows, self.concurrency, in_order=self.in_order)
        if self.quotas:
            rules += write_quotas(self.quotas, now_ms)
        return add_pool(rules, self.members, self.weight)
