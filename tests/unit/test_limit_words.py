"""Limits in words: what the command line, the dashboard's form and events say, there and back."""

import pytest

from dpq import Adaptive, ConfigurationError, Quota, RateLimit, Reserve
from dpq.limits.rules import LimitRules, limit_words, plain_rules, rules_words
from dpq.limits.words import read_word, write_word
from dpq.model.errors import MOST_QUOTED

WORDS = {
    "10/s": RateLimit(10, 1),
    "5000/h": RateLimit(5000, 3600),
    "300/15min": RateLimit(300, 900),
    "2.5/min": RateLimit(2.5, 60),
    "1/2d": RateLimit(1, 172_800),
    "3/500ms": RateLimit(3, 0.5),
    "1000000/90s": RateLimit(1_000_000, 90),
    "10/s,burst=5": RateLimit(10, 1, 5),
    "10/s,slack=0.05": RateLimit(10, 1, slack=0.05),
    "10/s,burst=5,slack=0": RateLimit(10, 1, 5, slack=0),
    "5/s,adaptive=1:20": RateLimit(5, 1, adaptive=Adaptive(1, 20)),
    "5/s,adaptive=0.5:20:2.5": RateLimit(5, 1, adaptive=Adaptive(0.5, 20, 2.5)),
    "300/15min,moving": RateLimit(300, 900, moving=True),
    "tokens=9000/min,estimate=150": RateLimit(9000, 60, unit="tokens", estimate=150),
    "10000/day@America/Los_Angeles": Quota(10_000, "day", "America/Los_Angeles"),
    "1000000000000/month@Etc/GMT+8": Quota(10**12, "month", "Etc/GMT+8"),
    "t=5/month@UTC,spread": Quota(5, "month", unit="t", spread=True),
    "5/hour@Asia/Kolkata,spread,reserve=4:-1.5": Quota(
        5, "hour", "Asia/Kolkata", "", Reserve(4, -1.5), spread=True
    ),
    "9/s,burst=5,reserve=4:-1.5": RateLimit(9, 1, 5, Reserve(4, -1.5)),
    "9/s,burst=5,reserve=4:9007199254740993": RateLimit(9, 1, 5, Reserve(4, 2**53 + 1)),
}


@pytest.mark.parametrize(("word", "window"), WORDS.items(), ids=WORDS)
def test_a_rate_is_read_as_it_is_shown(word: str, window: RateLimit | Quota) -> None:
    """The word of a window says all of it, there and back."""
    assert read_word(word) == window
    assert write_word(window) == word


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("300/15m 300/15minute 300/900 300/900s 300/0.25h", "300/15min"),
        ("100/60 100/min 100/m 100/minute", "100/min"),
        ("1/d 1/day 1/24h 1/hour,burst=1", None),
    ],
)
def test_a_rate_may_be_said_in_many_ways(words: str, shown: str | None) -> None:
    """Seconds are the unit that need not be said, and the others have their usual names."""
    texts = {write_word(read_word(word)) for word in words.split()}
    assert texts == ({shown} if shown else {"1/d", "1/h"})


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("10", "300/15m, 5000/h, 2.5/min, 100/60 (seconds), tokens=200000/m, 300/15m,moving;"),
        ("10/", "UNITS/TIME, as in 10/s"),
        ("", "UNITS/TIME, as in 10/s"),
        ("ten/s", "UNITS/TIME, as in 10/s"),
        ("1e3/s", "UNITS/TIME, as in 10/s"),
        ("10/week", "ms, s, m or min, h, d"),
        ("5/day@", "it must be an IANA name"),
        ("=5/day@UTC", "AMOUNT/PERIOD@ZONE, as in 10000/day"),
        ("@", "the periods are"),
        ("T=1/day@UTC", "unit is 'T'"),
        ("10/d@UTC", "the periods are hour, day, week, month"),
        ("10/day@Mars/Base", "knows no such zone"),
        ("10/day@UTC,burst=3", "'burst=3' is not one of spread, reserve=UNITS:PRIORITY"),
        ("10/day@UTC,reserve=10:3", "amount must be larger"),
        ("0/s", "from 0.001 to 1000000"),
        (f"{'9' * 5000}/s", "from 0.001 to 1000000"),
        ("10/0s", "from 0.001 to 315360000"),
        ("10/s,", "burst=N, reserve=UNITS:PRIORITY"),
        ("10/s,speed=5", "burst=N, reserve=UNITS:PRIORITY"),
        ("10/s,burst=many", "whole number of units, as in 5"),
        ("10/s,burst=0", "from 1 to 1000000"),
        ("10/s,reserve=5", "UNITS:PRIORITY, as in 500:10"),
        ("10/s,reserve=5:1", "burst must be larger"),
        ("10/s,burst=9,reserve=5:high", "the priority must be a number"),
        ("10/s,burst=9,reserve=5:nan", "a priority from"),
        ("10/s,adaptive=5", "FLOOR:CEILING[:STEP], as in 1:20"),
        ("10/s,adaptive=20:30", "from adaptive.floor 20"),
    ],
)
def test_a_rate_that_says_nothing_is_refused_by_name(word: str, reason: str) -> None:
    """What is wrong with a rate is said with the word and what it must look like."""
    with pytest.raises(ConfigurationError) as refused:
        read_word(word)
    assert reason in str(refused.value)
    parts = (f"{part!r}: "[:MOST_QUOTED] for part in (word, word.rpartition("=")[2]))
    assert any(part in str(refused.value) for part in parts)


@pytest.mark.parametrize("window", WORDS.values(), ids=WORDS)
def test_rules_are_read_as_they_are_stored(window: RateLimit | Quota) -> None:
    """Each kind of limit comes back from its stored text, and from what an event keeps of it."""
    rules = LimitRules.checked(
        [window], group="g", concurrency=3, members=["eu 1:8080", "key|a", "0*3"], weight=2.5
    )
    for now_ms in (0, 1_795_000_000_000):
        text = rules.text(now_ms)
        for told in (text, plain_rules(text)):
            assert LimitRules.read(told, "g") == rules
        assert plain_rules(text) == plain_rules(rules.text())
    assert plain_rules(rules.text()).endswith("\teu 1:8080\tkey|a\t0*3")
    members = "for each of eu 1:8080, key|a and 1 more"
    assert limit_words(rules, 2)[1:] == ["3 at once", "weight 2.5", members]


def test_a_weight_alone_is_read() -> None:
    """A limit that only has a weight, and one that only has a concurrency, come back."""
    for parts in ({"weight": 1}, {"concurrency": 4}):
        rules = LimitRules.checked(group="g", **parts)  # type: ignore[arg-type]
        assert LimitRules.read(rules.text(), "g") == rules


@pytest.mark.parametrize("text", ["x", "0|a b", "0|1 1000 0", "1|5 1000 1|", "0", ""])
def test_what_is_no_limit_stays_as_it_is(text: str) -> None:
    """A text of another program or of a later DPQ is refused as a limit, and shown as it is."""
    with pytest.raises(ConfigurationError):
        LimitRules.read(text, "g")
    assert rules_words(text, "g") == text
