"""Draws the pictures of docs/pictures/: `make drawings`. Each function is one of them.

What a picture says of limits is reckoned here from the rule that stands beside it.
"""

from pathlib import Path

from tools.docs_site.drawing import Picture
from tools.docs_site.nav import DOCS


def overview() -> Picture:
    """DPQ in one picture: producers, a queue on a server, consumers, hosts."""
    picture = Picture(
        720,
        372,
        "Producers push tasks to a queue on a server; consumers pop the best that may run now",
    )
    for at, name in enumerate(("a crawler", "a web app", "a cron line")):
        y = 88 + 76 * at
        picture.box(16, y, 104, 44, [name], "quiet")
        picture.arrow((120, y + 22), (170, 182))
    picture.text(68, 68, "producers push", "small")
    picture.box(172, 40, 330, 292, [], "quiet")
    picture.text(337, 30, "one queue, on Redis or Valkey", "small")
    lanes = (
        ("a.example: 20 a second", "good", (9, 7, 7, 3), "the best one is next"),
        ("b.example: a 429", "bad", (8, 8, 5), "closed for all, for 12 more seconds"),
        ("no limit", "good", (4, 1), "goes whenever it is the best"),
        ("delayed", "warm", (6, 2), "due at a moment of the server's clock"),
    )
    for at, (name, kind, priorities, says) in enumerate(lanes):
        y = 52 + 69 * at
        picture.box(184, y, 306, 60, [], kind)
        picture.text(194, y + 20, name, "name", "start")
        picture.text(194, y + 38, says, "inner", "start")
        for place, priority in enumerate(priorities):
            x = 474 - 26 * place
            picture.mark(x, y + 16, "ground", 11)
            picture.text(x, y + 20, str(priority), "inner")
    for at, says in enumerate(("pop, under a lease", "ack: it is gone", "dies: it comes back")):
        y = 88 + 76 * at
        picture.box(552, y, 152, 44, [f"consumer {at + 1}", says], "box")
        picture.arrow((502, 182), (550, y + 22))
    picture.text(628, 68, "consumers", "small")
    picture.text(
        360,
        356,
        "Numbers are priorities. All consumers share each limit, on all machines.",
        "small",
    )
    return picture


def states() -> Picture:
    """The states of a task, and what moves it."""
    picture = Picture(
        720, 400, "The states of a task and the calls that move it from one to another"
    )
    picture.box(24, 156, 128, 48, ["DELAYED", "not due yet"], "warm")
    picture.box(250, 156, 128, 48, ["READY", "may run now"], "good")
    picture.box(250, 300, 128, 48, ["WAITING", "behind a limit"], "quiet")
    picture.box(500, 156, 140, 48, ["INVISIBLE", "a consumer has it"], "box")
    picture.box(500, 300, 140, 48, ["DEAD", "a dead letter"], "bad")
    picture.text(314, 40, "push", "name")
    picture.arrow((314, 48), (314, 154))
    picture.arrow((280, 36), (88, 36), (88, 154))
    picture.text(98, 28, "push(delay=, after=)", "small", "start")
    picture.arrow((152, 180), (248, 180))
    picture.text(200, 172, "due", "small")
    picture.arrow((378, 170), (498, 170))
    picture.text(438, 162, "pop", "small")
    picture.arrow((498, 192), (380, 192))
    picture.text(438, 208, "the lease ends,", "small")
    picture.text(438, 223, "release", "small")
    picture.arrow((570, 154), (570, 60))
    picture.text(570, 50, "gone", "name")
    picture.text(580, 104, "ack", "small", "start")
    picture.arrow((520, 154), (520, 110), (120, 110), (120, 154))
    picture.text(420, 102, "fail, release(delay)", "small")
    picture.arrow((290, 204), (290, 298))
    picture.text(282, 248, "limit spent,", "small", "end")
    picture.text(282, 263, "a 429", "small", "end")
    picture.arrow((340, 298), (340, 206))
    picture.text(348, 248, "its group", "small", "start")
    picture.text(348, 263, "opens", "small", "start")
    picture.arrow((500, 200), (440, 244), (440, 312), (380, 312))
    picture.text(448, 284, "rate_limited", "small", "start")
    picture.arrow((590, 204), (590, 298))
    picture.text(598, 248, "bury,", "small", "start")
    picture.text(598, 263, "attempts spent", "small", "start")
    picture.arrow((500, 336), (470, 376), (210, 376), (210, 216), (248, 196))
    picture.text(350, 368, "replay", "small")
    return picture


def life() -> Picture:
    """One task through a crash and a 429."""
    picture = Picture(720, 232, "One task, from its push over a crash and a 429 to its ack")
    parts = (
        (60, "DELAYED", "warm"),
        (40, "READY", "good"),
        (150, "consumer 1 has it", "box"),
        (40, "READY", "good"),
        (98, "consumer 2", "box"),
        (140, "WAITING", "quiet"),
        (98, "consumer 3", "box"),
    )
    told = ("push(delay=10)", "", "pop", "", "pop", "a 429", "the probe")
    below = ("", "", "It dies. The lease", "", "", "The group is closed", "")
    below_too = ("", "", "runs out: attempt 1.", "", "", "for all: no attempt.", "")
    x = 28.0
    for (width, name, kind), above, low, lower in zip(parts, told, below, below_too, strict=True):
        narrow = width < 80
        picture.box(x, 92, width, 44, [] if narrow else [name], kind)
        if narrow:
            picture.text(x + width / 2, 154, name, "small")
        if above:
            picture.line((x, 70), (x, 92))
            picture.text(x + (4 if x > 40 else 0), 62, above, "small", "start")
        picture.text(x + width / 2, 174, low, "small")
        picture.text(x + width / 2, 190, lower, "small")
        x += width
    picture.line((x, 70), (x, 92))
    picture.text(x + 4, 62, "ack", "small", "start")
    picture.text(x + 14, 119, "gone", "name", "start")
    picture.text(
        360, 30, "One task: one attempt lost to a crash, one deferral to a 429, done", "name"
    )
    picture.arrow((28, 212), (692, 212))
    picture.text(360, 226, "time", "small")
    return picture


def too_many() -> Picture:
    """What a 429 does: the group closes for all, and one task goes first."""
    picture = Picture(
        720, 268, "After a 429 the group is closed for all consumers; then one task probes"
    )
    start, second = 150, 12.5
    closed, opens = start + 8 * second, start + 30 * second
    picture.box(closed, 48, opens - closed, 172, [], "quiet")
    picture.text((closed + opens) / 2, 70, "a.example is closed for everybody", "small")
    rows = (
        ("consumer 1", (0, 2, 4, 6, 8), (30, 34, 36, 38, 40)),
        ("consumer 2", (1, 3, 5, 7), (35, 37, 39, 41)),
    )
    for at, (name, before, after) in enumerate(rows):
        y = 104 + 40 * at
        picture.text(134, y + 4, name, "", "end")
        picture.line((start, y), (704, y), kind="thin")
        for moment in (*before, *after):
            kind = "bad" if moment == 8 else "warm" if moment == 30 else "good"
            picture.mark(start + second * moment, y, kind)
    picture.text(134, 194, "other hosts", "", "end")
    picture.line((start, 190), (704, 190), kind="thin")
    for moment in range(44):
        picture.mark(start + second * moment, 190, "good", 4)
    picture.text(closed + 4, 90, "429, Retry-After: 22", "small", "start")
    picture.text(opens, 90, "the probe", "small")
    picture.text(start + 37 * second, 70, "then the limit's pace", "small")
    for moment in (0, 8, 30):
        picture.text(start + second * moment, 240, f"{moment} s", "small")
    picture.text(360, 28, "One 429 costs one request, however many consumers there are", "name")
    picture.text(360, 260, "The task of the 429 keeps its place and loses no attempt.", "small")
    return picture


def even(rate: int, per: float, until: float) -> list[float]:
    """Return when an even pace grants, if all is asked at once."""
    return [per / rate * at for at in range(int(until * rate / per) + 1)]


def windows() -> Picture:
    """Four ways to count 10 in 60 seconds, as each grants what was asked at second 0."""
    picture = Picture(720, 372, "When an even pace, a moving window, a bucket and a calendar grant")
    until, start, second = 90, 236, 5.1
    midnight = 40
    rows = (
        ("even pace", "RateLimit(10, 60)", even(10, 60, until), "good"),
        ("moving window", "RateLimit(10, 60, moving=True)", [0.0] * 10 + [60.0] * 10, "box"),
        ("bucket", "RateLimit(10, 60, burst=4)", [0.0] * 3 + even(10, 60, until), "warm"),
        ("calendar", 'Quota(10, "day")', [0.0] * 10 + [float(midnight)] * 10, "bad"),
    )
    picture.text(
        360, 28, "All is asked for at second 0. Each dot is one task that may run.", "name"
    )
    for at, (name, rule, grants, kind) in enumerate(rows):
        y = 104 + 70 * at
        picture.text(16, y - 8, name, "name", "start")
        picture.text(16, y + 10, rule, "inner", "start")
        picture.line((start, y), (704, y), kind="thin")
        beside: dict[float, int] = {}
        for moment in grants:
            place = beside[moment] = beside.get(moment, 0) + 1
            column, row = divmod(place - 1, 5)
            picture.mark(start + second * moment + 11 * column, y - 10 * row, kind, 5)
    for moment in range(0, until + 1, 15):
        picture.text(start + second * moment, 346, f"{moment} s", "small")
    x = start + second * midnight
    picture.line((x, 258), (x, 330), dashed=True)
    picture.text(x + 34, 278, "midnight", "small", "start")
    picture.text(start + second * 60 + 34, 122, "the first ten are 60 s old", "small")
    return picture


def partitions() -> Picture:
    """A queue in four partitions on two masters."""
    picture = Picture(720, 344, "A queue in four partitions: each group stays in one of them")
    picture.box(16, 138, 112, 48, ["producer", "push(group=)"], "quiet")
    places = []
    for at in range(2):
        y = 44 + 138 * at
        picture.box(210, y, 290, 126, [], "quiet")
        picture.text(220, y + 18, f"master {at + 1}", "small", "start")
        for part in range(2):
            number, top = 2 * at + part, y + 26 + 48 * part
            groups = ("a.example, e.example", "b.example", "c.example, f.example", "d.example")
            kind = "bad" if number == 1 else "good"
            says = "its group is closed" if number == 1 else "its own order and limits"
            picture.box(222, top, 266, 44, [f"{number}: {groups[number]}", says], kind)
            places.append(top + 22)
    for y in places:
        picture.arrow((128, 162), (220, y))
    for at in range(2):
        y = 96 + 104 * at
        picture.box(584, y, 120, 48, [f"consumer {at + 1}", "pops of all"], "box")
        for place in places:
            picture.line((488, place), (582, y + 24), kind="thin")
        picture.arrow((560, y + 24), (582, y + 24))
    picture.text(360, 28, "One queue, four partitions, two masters", "name")
    picture.text(
        360,
        330,
        "Exact within a group: order, limit, concurrency. Between partitions, nearly.",
        "small",
    )
    return picture


PICTURES = {
    "overview": overview,
    "states": states,
    "life": life,
    "429": too_many,
    "windows": windows,
    "partitions": partitions,
}
"""Name of each file in docs/pictures/, without `.svg`, and what draws it."""


def draw(folder: Path = DOCS / "pictures") -> None:
    """Write all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture().svg(), encoding="utf-8")


if __name__ == "__main__":
    draw()
