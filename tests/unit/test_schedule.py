"""schedule: what a push may name, and the next times of a cron line."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dpq import ConfigurationError, Push
from dpq.model.errors import MOST_QUOTED
from dpq.model.schedule import cron_line, next_times, require_schedule
from dpq.queue.base import operations_named
from dpq.verbs.pushing import PushChecker, with_times
from dpq.views.words import say_schedule

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text, zone=UTC):
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def times(line, after_ms, count):
    """The next times, as the clock on the wall shows them."""
    zone = ZoneInfo(line.split()[-1])
    found = next_times(line, after_ms, count)
    return [datetime.fromtimestamp(at / 1000, zone).strftime("%d %H:%M %z") for at in found]


def checked(**options):
    return PushChecker(operations_named("schedules").description).check(Push(None, **options))[0]


def test_cron():
    """A cron expression becomes a line with its zone, and its first time comes with the clock."""
    options = checked(cron=" */5  * * * * ", timezone="Europe/Berlin", group="@")
    assert options["cron"] == "*/5 * * * * Europe/Berlin"
    timed = with_times(options, ms("2026-01-01T10:02"))
    assert timed == options | {"first": ms("2026-01-01T10:05")}


@pytest.mark.parametrize(
    "cron",
    [
        *("", "* * * *", "* * * * * * *", "@daily", 5, b"* * * * *", "60 * * * *", "* 24 * * *"),
        *("* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *"),
        *("\u00b2 * * * *", "0 0 30 2 *", "0 0 31 2,4,6 *", "*," * 200 + "* * * * *"),
    ],
)
def test_bad_cron(cron):
    """A cron expression that is none, or that nothing ever matches, is refused, and named."""
    with pytest.raises(ConfigurationError) as caught:
        cron_line(cron, "UTC")
    assert str(caught.value).startswith(f"cron is {cron!r}: "[:MOST_QUOTED])


@pytest.mark.parametrize(
    "zone",
    [
        *("", "Mars/Olympus", "Europe/Berlin UTC", "../../etc/passwd", "/etc/localtime", "Europe"),
        *(None, 3, "Zürich", "a\tb", "a\0b"),
        *("localtime", "posixrules", "right/Europe/Berlin", "Right/UTC", "LOCALTIME"),
    ],
)
def test_bad_zone(zone):
    """A zone that is not known is refused, and named, with the way out."""
    with pytest.raises(ConfigurationError, match=r"(must be|give) an IANA name") as e:
        cron_line("* * * * *", zone)
    assert str(e.value).startswith(f"timezone is {zone!r}: ")


def test_what_excludes_each_other():
    """Two schedules, cron and a delay, and a zone without cron are refused."""
    with pytest.raises(ConfigurationError, match="give one of them"):
        require_schedule(5, "* * * * *", "UTC", 0)
    with pytest.raises(ConfigurationError, match="leave out the delay"):
        require_schedule(None, "* * * * *", "UTC", 5)
    with pytest.raises(ConfigurationError, match="without cron"):
        require_schedule(5, None, "Europe/Berlin", 0)


def test_an_hour_that_is_left_out():
    """At the start of summer time a daily task in the missing hour runs once, right after it."""
    before = ms("2026-03-28T12:00", BERLIN)
    assert times("30 2 * * * Europe/Berlin", before, 2) == ["29 03:00 +0200", "30 02:30 +0200"]
    assert times("*/30 * * * * Europe/Berlin", ms("2026-03-29T01:15", BERLIN), 3) == [
        "29 01:30 +0100",
        "29 03:00 +0200",
        "29 03:30 +0200",
    ]


def test_an_hour_that_comes_twice():
    """At its end a daily task runs in the first of the two hours only; */30 in both."""
    before = ms("2026-10-24T12:00", BERLIN)
    assert times("30 2 * * * Europe/Berlin", before, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    first = ms("2026-10-25T00:30")  # 02:30, the first time
    assert times("*/30 * * * * Europe/Berlin", first, 3) == [
        "25 02:00 +0100",
        "25 02:30 +0100",
        "25 03:00 +0100",
    ]
    within = ms("2026-10-25T01:15")  # 02:15, the second time
    assert times("30 2 * * * Europe/Berlin", within, 1) == ["26 02:30 +0100"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 0-4 * * *", "15,45 0-3 * * *", "0 0 * * 0"])
def test_always_on(zone, cron):
    """Through two changes of the clocks, each next time is later than the one before."""
    line = cron_line(cron, zone)
    at, end = ms("2026-01-01T00:00"), ms("2027-01-01T00:00")
    runs = 0
    while at < end:
        [following] = next_times(line, at, 1)
        assert following > at
        at, runs = following, runs + 1
    days = timedelta(milliseconds=end - ms("2026-01-01T00:00")).days
    per_day = {"30 2 * * *": 1, "*/20 0-4 * * *": 15, "15,45 0-3 * * *": 8, "0 0 * * 0": 1 / 7}[
        cron
    ]
    assert abs(runs - days * per_day) <= 8


WORDS = {
    "* * * * *": ("every minute", lambda at: True),
    "*/15 * * * *": ("every 15th minute of every hour", lambda at: at.minute % 15 == 0),
    "0 * * * *": ("at the start of every hour", lambda at: at.minute == 0),
    "0 9 * * *": ("at 09:00 every day", lambda at: clock(at) == "09:00"),
    "0 9 * * 1-5": (
        "at 09:00 every weekday",
        lambda at: clock(at) == "09:00" and at.isoweekday() < 6,
    ),
    "30 6 * * SUN": (
        "at 06:30 on Sunday",
        lambda at: clock(at) == "06:30" and at.isoweekday() == 7,
    ),
    "0 9,17 * * 6,0": (
        "at 09:00 and 17:00 on Saturday and Sunday",
        lambda at: clock(at) in ("09:00", "17:00") and at.isoweekday() > 5,
    ),
    "30 6 1 */3 *": (
        "at 06:30 on the first day of every third month",
        lambda at: clock(at) == "06:30" and at.day == 1 and at.month in (1, 4, 7, 10),
    ),
    "0 0 13 * 1-5": (
        "at 00:00 on the 13th day of month and every weekday",
        lambda at: clock(at) == "00:00" and (at.day == 13 or at.isoweekday() < 6),
    ),
    "0 9 */2 * 1-5": (
        "at 09:00 on every second day of month if it's on Monday through Friday",
        lambda at: clock(at) == "09:00" and at.day % 2 and at.isoweekday() < 6,
    ),
    "5,35 8-18 * * *": (
        "at minutes 5 and 35 past every hour from 8 through 18",
        lambda at: at.minute in (5, 35) and 8 <= at.hour <= 18,
    ),
    "0 0 L * *": (
        "at 00:00 on the last day of every month",
        lambda at: clock(at) == "00:00" and (at + timedelta(1)).day == 1,
    ),
}
"""The words of cron expressions, and the minutes that the words mean, in the zone of the line."""


def clock(at):
    return f"{at:%H:%M}"


@pytest.mark.parametrize("expression", WORDS)
def test_the_words_of_a_cron_line_are_its_times(expression):
    """Each minute that the words mean is a time of the line, and no other one is, for 50 days."""
    words, means = WORDS[expression]
    line = f"{expression} Asia/Kolkata"
    assert say_schedule(None, line) == f"{words} (Asia/Kolkata)"
    start = datetime(2026, 11, 24, tzinfo=ZoneInfo("Asia/Kolkata"))
    minutes = (start + timedelta(minutes=n) for n in range(1, 50 * 1440))
    wanted = [round(at.timestamp() * 1000) for at in minutes if means(at)]
    wanted = wanted[:500]
    assert next_times(line, round(start.timestamp() * 1000), len(wanted)) == wanted
    assert wanted
