"""Writes what clients in other languages are made from, out of DPQ's own files: `make protocol`.

It writes two files:

    docs/protocol.md                                  the parts between `<!-- made: NAME -->` and
                                                      `<!-- end -->`; a person writes all others
    clients/typescript/src/scripts.generated.ts       the scripts as a server gets them

The contracts come from the headers of `dpq/protocol/lua/*.lua`, the options of a push from
`Options` and from `lua/push/options.lua`, and all numbers from the constants that the code uses.
`tests/unit/test_protocol.py` fails if a file is not what this program makes.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from dpq.model.cost import MAX_COST, MAX_UNITS
from dpq.model.payload import MAX_PAYLOAD_BYTES
from dpq.model.validation import MAX_BATCH, MAX_NAME_BYTES, MAX_SECONDS, MAX_TEXT_CHARACTERS
from dpq.operations.partition import POP_BATCH, PUSH_BATCH, UPKEEP_BATCH
from dpq.operations.pushing import Options
from dpq.protocol.keys import INLINE_BYTES, MIN_FORMAT, STORAGE_FORMAT
from dpq.protocol.records import COMMON_ATTEMPTS
from dpq.protocol.refusals import Code
from dpq.protocol.scripts import enclosed, script, script_names, sources

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "protocol.md"
SCRIPTS = ROOT / "clients" / "typescript" / "src" / "scripts.generated.ts"

SHIPPED = ["configure", "register", "push", "pop", "ack", "fail", "rate_limited", "extend", "bury"]
"""The scripts that a client needs."""

FOR_VECTORS = ["cancel", "pause", "set_limit"]
"""Further scripts, which the conformance vectors call."""

DESCRIBED = [
    *SHIPPED,
    *["release", "set_visibility", "spent", "set_limit", "pause", "cancel", "update"],
]
"""The scripts whose whole contract stands on the page; of the others it has the first sentence."""

MEANINGS = {
    Code.LEASE_LOST: "The token is not the live token, or another verb has ended the delivery. "
    "Another consumer may have the task: stop the work on it.",
    Code.NOT_FOUND: "No task has this id or this key.",
    Code.KEY_TAKEN: 'The key is taken, and `on_duplicate` is "error".',
    Code.OTHER_GROUP: "The task that has the key is in another group.",
    Code.AGAIN: "The script has done a part of the work: call it again at once. From a script "
    "whose name ends in `_plain`: call the script without `_plain`.",
    Code.RUNNING: "The task is running, and this change is not possible then.",
    Code.OTHER_PARTITIONS: "The queue has another number of partitions than the client knows. "
    "Behind it: the stored number, the number of the client, and the key `conf`.",
    Code.OTHER_FORMAT: "The queue is stored in another format. Behind it: the stored format, the "
    "format of the script, and the key `conf`.",
    Code.SETTINGS_LOST: "Settings or limits are lost. Call `configure` with `create` 2, then pop "
    "again. If a pop then gives the same reply, a person must set the limits again.",
    Code.BATCH_FINISHED: "The batch of a pushed task is finished.",
    Code.AFTER_RECURRING: "A task cannot wait for a task that recurs.",
    Code.AFTER_LATER: "A task cannot wait for itself, or for a later task of the same push.",
    Code.CANCELLED: "The task was cancelled while it ran: stop the work on it.",
    Code.QUEUE_FULL: "A bound of the queue leaves no room for the tasks.",
    Code.OTHER_FAMILY: "The queue is in a family with other queues than the client knows.",
    Code.HEAD: "The queue is the head of a family that has other queues.",
}
"""The meaning of each refusal, for a person who writes a client."""


WORDS = {
    " (`encode_priority`)": ", see [Priorities](#priorities)",
    "`NO_LIMIT`": "1 000 000 000 000",
    "`FOR_EVER_MS`": "4 000 000 000 000 000",
    "The text of its record (`write_cost`)": 'Requests, then units by name: "1,tokens=1800"',
    ", which `with_times` adds before it is sent": ", ms since 1970: the client computes it",
    " A number stands for an earlier push of the same call; `with_ids` replaces it before it is "
    "sent.": "",
}
"""Names of Python in the meanings of options, and what the page has for each."""


class Contract(NamedTuple):
    """The header of a script.

    Attributes:
        summary: The text behind its name.
        keys: The parts of a queue in the order of KEYS.
        arguments: For each the place in ARGV, its name or "", and its meaning.
        returns: The lines about the reply.
        lost: The text about a lost reply.
    """

    summary: str
    keys: tuple[str, ...]
    arguments: list[tuple[str, str, str]]
    returns: list[str]
    lost: str


def contract_of(name: str) -> Contract:
    """Read the header of a script."""
    summary: list[str] = []
    arguments: list[list[str]] = []
    returns: list[str] = []
    into: list[str] = summary
    for line in sources().operations[name].splitlines():
        if not line.startswith("--") or line.startswith("-- Needs:"):
            break
        text = line[2:].removeprefix(" ").rstrip()
        found = re.match(r"ARGV\[([^]]+)\] +(.*)", text)
        if text.startswith("Keys:"):
            into = []
        elif found:
            into = [found[1], found[2].strip()]
            arguments.append(into)
        elif not text:
            into = into if into is summary else returns
        elif into is not summary and not text.startswith(" "):
            into = returns
            into.append(text)
        else:
            into.append(text.strip())
    told = "\n".join(returns)
    reply, _, lost = told.partition("Lost reply: ")
    first = " ".join(summary).removeprefix(f"{name}: ")
    parts = [_argument(place, " ".join(texts)) for place, *texts in arguments]
    return Contract(first, script(name).parts, parts, reply.splitlines(), lost.replace("\n", " "))


def _argument(place: str, text: str) -> tuple[str, str, str]:
    """Divide the text of an argument into its name and its meaning."""
    if place.endswith(".."):
        return place, "", text
    name, _, meaning = text.partition(" ")
    return place, name, meaning.strip()


def contracts() -> str:
    """Write the contracts of the scripts that clients need."""
    return "\n".join(_contract(name) for name in DESCRIBED)


def _contract(name: str) -> str:
    contract = contract_of(name)
    lines = [f"### {name}", "", _capital(contract.summary), ""]
    lines += [f"Keys: {' '.join(contract.keys)}.", ""]
    for place, argument, meaning in contract.arguments:
        named = f" **{argument}**" if argument else ""
        lines.append(f"* `ARGV[{place}]`{named}{': ' if meaning else ''}{meaning}".rstrip())
    lines += ["", *_with_room(contract.returns), ""]
    lines += [f"Lost reply: {contract.lost}", ""]
    return "\n".join(lines)


def _with_room(lines: list[str]) -> list[str]:
    """Put an empty line before and behind each list, and indent its further lines."""
    found: list[str] = []
    for line in lines:
        inside = bool(found) and found[-1].startswith(("* ", "  "))
        starts = line.startswith("* ")
        if starts and found and not inside:
            found.append("")
        ended = inside and found[-1].endswith(".")
        if inside and not starts and ended:
            found.append("")
        found.append(f"  {line.strip()}" if inside and not starts and not ended else line)
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def others() -> str:
    """Write a line for each script whose contract does not stand on the page."""
    rows = ["| script | what it does |", "|---|---|"]
    for name in script_names():
        if name not in DESCRIBED:
            first = re.split(r"(?<=\.) ", contract_of(name).summary)[0]
            rows.append(f"| `{name}` | {_cell(_capital(first))} |")
    return "\n".join(rows)


def lost_replies() -> str:
    """Write what a second call means, for each script of a client."""
    rows = ["| script | if the reply is lost |", "|---|---|"]
    rows += [f"| `{name}` | {_cell(_capital(contract_of(name).lost))} |" for name in DESCRIBED]
    return "\n".join(rows)


def refusals() -> str:
    """Write the table of refusals.

    Raises:
        KeyError: `MEANINGS` has no text for a refusal.
    """
    rows = ["| number | name | meaning |", "|---|---|---|"]
    for code in sorted(Code, reverse=True):
        rows.append(f"| {int(code)} | `{code.name}` | {MEANINGS[code]} |")
    return "\n".join(rows)


def options() -> str:
    """Write the table of the options of a push.

    Raises:
        ValueError: A name in `WORDS` is not in use any more.
    """
    used: set[str] = set()
    doc = Options.__doc__ or ""
    told = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", doc, re.MULTILINE)
    text = sources().shared["options"]
    tables = {name: _table(text, name) for name in ("LONGEST", "LARGEST")}
    rows = ["| option | form | meaning |", "|---|---|---|"]
    for name, meaning in told:
        if name in tables["LONGEST"]:
            form = f"text, at most {tables['LONGEST'][name]} bytes"
        elif name in tables["LARGEST"]:
            least = int(name == "every" or name.startswith("max_"))
            form = f"a number from {least} to {int(tables['LARGEST'][name]):,}".replace(",", " ")
        elif name == "after":
            form = "a list of 1 to 16 texts"
        else:  # `with_times` replaces it before it is sent
            continue
        meaning = " ".join(meaning.split())
        for word in WORDS:
            if word in meaning:
                meaning = meaning.replace(word, WORDS[word])
                used.add(word)
        rows.append(f"| `{name}` | {form} | {_cell(meaning)} |")
    if used != set(WORDS):
        raise ValueError(f"no option says {sorted(set(WORDS) - used)} any more")
    return "\n".join(rows)


def _table(text: str, name: str) -> dict[str, str]:
    """Read a table of numbers in a Lua text."""
    found = re.search(rf"local {name} = \{{(.*?)\}}", text, re.DOTALL)
    return dict(re.findall(r"(\w+) = (\d+)", found[1])) if found else {}


def bounds() -> str:
    """Write the table of bounds."""
    rows = [
        (
            "the storage format",
            f"`{STORAGE_FORMAT}`; a queue with the order `min` has `{MIN_FORMAT}`",
        ),
        ("bytes of the name of a queue, a group or a key", f"1 to {MAX_NAME_BYTES}"),
        ("bytes of an id", f"1 to {MAX_NAME_BYTES}, ASCII"),
        ("bytes of a payload", f"{MAX_PAYLOAD_BYTES:,}".replace(",", " ")),
        ("bytes of a payload of a plain task", str(INLINE_BYTES)),
        ("characters of an error or a reason", str(MAX_TEXT_CHARACTERS)),
        ("seconds of a duration", f"{MAX_SECONDS:,} (10 years)".replace(",", " ")),
        ("`max_attempts` of a task that names none", str(COMMON_ATTEMPTS)),
        ("requests, or units of one kind, of a cost", f"{MAX_COST:,}".replace(",", " ")),
        ("kinds of units of a cost, beside requests", str(MAX_UNITS)),
        ("tasks of one pop", str(MAX_BATCH)),
        ("tasks of one pop that DPQ itself asks for", str(POP_BATCH)),
        ("tasks of one push that DPQ itself sends", str(PUSH_BATCH)),
        ("steps of upkeep that DPQ itself asks for in a pop", str(UPKEEP_BATCH)),
    ]
    return "\n".join(["| bound | value |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


MADE = {
    "bounds": bounds,
    "options": options,
    "refusals": refusals,
    "lost replies": lost_replies,
    "contracts": contracts,
    "others": others,
}
"""The parts of the page that this program writes."""

_PART = re.compile(r"(<!-- made: ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the text of the page with its parts made anew.

    Raises:
        ValueError: The page lacks a part, or has one that this program does not know.
    """
    there = [found[2] for found in _PART.finditer(text)]
    if sorted(there) != sorted(MADE):
        raise ValueError(f"the page has the parts {there}, and is to have {list(MADE)}")
    return _PART.sub(lambda found: f"{found[1]}\n{MADE[found[2]]()}\n\n{found[4]}", text)


def generated_scripts() -> str:
    """Write the scripts as a module of TypeScript.

    What several scripts share stands in it once: each script is a list of the names of its pieces.
    """
    shared = {enclosed(text): name for name, text in sources().shared.items()}
    longest_first = sorted(shared, key=len, reverse=True)
    cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
    pieces: dict[str, str] = {}
    lines: list[str] = []
    for name in [*SHIPPED, *FOR_VECTORS]:
        made = script(name)
        names: list[str] = []
        for text in filter(None, cut.split(made.text)):
            named = shared.get(text)
            piece = f"lib {named}" if named else f"{name} {sum(n[:4] != 'lib ' for n in names)}"
            pieces[piece] = text
            names.append(piece)
        if "".join(pieces[each] for each in names) != made.text:
            raise ValueError(f"the pieces of {name} do not make it")
        lines.append(f"  {name}: {{")
        lines.append(f"    sha: {json.dumps(made.sha)},")
        lines.append(f"    keys: {json.dumps(made.parts)},")
        lines.append(f"    pieces: {json.dumps(names)},")
        lines.append("  },")
    texts = [f"  {json.dumps(name)}: {json.dumps(text)}," for name, text in pieces.items()]
    return "\n".join(
        [
            "// Made by `make protocol` from dpq/protocol/lua: change those files, not this one.",
            "",
            "/** The storage format that these scripts know. */",
            f"export const STORAGE_FORMAT = {json.dumps(STORAGE_FORMAT)};",
            "",
            "/** The format of a queue with the order `min`; they know it, too. */",
            f"export const MIN_FORMAT = {json.dumps(MIN_FORMAT)};",
            "",
            "/** Pieces of scripts. What several scripts share stands here once. */",
            "export const PIECES: Readonly<Record<string, string>> = {",
            *texts,
            "};",
            "",
            "/** Each script: its SHA-1, the parts of a queue as KEYS has them, and its pieces. */",
            "export const SCRIPTS = {",
            *lines,
            "} as const;",
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCRIPTS.write_text(generated_scripts(), encoding="utf-8")
