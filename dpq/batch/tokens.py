"""The tokens of a request, estimated before it is sent, and of its answer, as that says them.

Hosts count with tokenizers that are not here. `SHARES` fit OpenAI's `o200k_base` within 1.5 on
Article 1 of the Declaration of Human Rights in 35 languages, on code, JSON, tables and formulas.
Older tokenizers (`cl100k_base`) cut scripts other than Latin and Chinese two to four times finer.
"""

import math
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from dpq.limits.cost import MAX_COST
from dpq.limits.usage import Answer, is_count, openai_usage

ANSWER_TOKENS = 500  # of an answer whose request names no bound: a page of text
DATA_TOKENS = 1100  # of an image or a file: 765 at OpenAI for a large one, 1600 at Anthropic
LOW_DETAIL_TOKENS = 85  # of an image with `"detail": "low"`, in OpenAI's guide
AUDIO_TOKENS, GEMINI_AUDIO_TOKENS = 10, 32  # of a second of sound, in OpenAI's and Google's guides
AUDIO_BYTES = 12_000  # of a packed second of sound, 64 to 128 kbit/s; a WAV file says its own

BOUNDS = {
    *("maxtokens", "maxcompletiontokens", "maxoutputtokens", "maxnewtokens", "maximumtokens"),
    *("maxtokenstosample", "maxgenlen", "maxtokencount", "numpredict", "npredict"),
}
"""The names under which APIs take the longest answer, in tokens, in lower case without `_`."""

ANSWERS = {"n", "candidatecount", "numresults", "numgenerations"}
"""The names under which they take the number of answers."""

_SETTINGS = re.compile("config|options|parameters", re.IGNORECASE)
_NO_ANSWER = re.compile("embed|rerank|moderation")
_TEXTS = {"content", "text", "prompt", "input", "inputs"}
_LINKS = {
    *("url", "image_url", "audio_url", "video_url", "file_url", "document_url"),
    *("uri", "file_uri", "fileUri", "file_id"),
}
_DATA = re.compile(r"[\w+/\n\r-]{1000,}={0,2}\s*", re.ASCII)

SHARES = (
    (0.24, b"abcdefghijklmnopqrstuvwxyz"),
    (0.55, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    (0.6, b"0123456789"),
    (0.05, b" "),
    (0.55, bytes(each for each in range(128) if not re.match("[A-Za-z0-9 ]", chr(each)))),
    # From here on not ASCII
    (0.7, bytes(range(0xC2, 0xCC))),  # accents
    (0.38, bytes(range(0xCC, 0xD0))),  # Greek
    (0.32, bytes(range(0xD0, 0xD4))),  # Cyrillic
    (0.4, bytes(range(0xD4, 0xE1))),  # Hebrew, Arabic, India's, Thai
    (0.45, b"\xe1"),  # Georgian, Khmer, Burmese
    (0.6, b"\xe2"),  # signs
    (0.95, b"\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xef"),  # Chinese, Japanese
    (0.7, b"\xea\xeb\xec\xed"),  # Korean
    (1.5, b"\xf0"),  # emoji
)
"""Tokens of a character, by its first byte in UTF-8."""

ASCII_SHARES = 5

_MORE = (1.4, [b"\xe0\xba", b"\xe0\xbb", *(bytes((0xE1, each)) for each in range(0x88, 0x8F))])
"""Tokens beyond that of a letter of Lao or of Ethiopia, which are in no tokenizer."""


def estimate(body: Mapping[str, Any], url: str = "") -> int:
    """Estimate the tokens of a request: of its content, and of the longest answer it allows."""
    bound = max(_named(body, BOUNDS), default=ANSWER_TOKENS)
    if _NO_ANSWER.search(f"{url} {body.get('model')}"):
        bound = 0
    answers = max(_named(body, ANSWERS), default=1)
    texts: list[str] = []
    given = _tokens_in(body, "", texts) + _tokens_of(texts)
    return min(math.ceil(given) + max(1, answers) * bound, MAX_COST)


def tokens_used(answer: Any) -> int | None:
    """Read what an answer says that it cost: OpenAI's or Anthropic's `usage`; None if nothing."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    said = (
        openai_usage(Answer(200, {}, answer, True, usage)) if isinstance(usage, Mapping) else None
    )
    return None if said is None else min(said["tokens"], MAX_COST)


def _named(body: Mapping[str, Any], names: set[str]) -> Iterator[int]:
    """Yield the numbers of these names in a body, and in its settings."""
    for name, value in body.items():
        if name.lower().replace("_", "") in names and is_count(value):
            yield value
        elif isinstance(value, Mapping) and _SETTINGS.search(name):
            yield from _named(value, names)


def _tokens_in(value: Any, name: str, texts: list[str]) -> float:
    """Collect the texts of a value of this name; return the tokens of all else in it."""
    if isinstance(value, str):
        is_data = value.startswith("data:") or (len(value) >= 1000 and _DATA.fullmatch(value))
        if name not in _TEXTS and (is_data or name in _LINKS):
            return DATA_TOKENS
        texts.append(value)
        return 0
    if isinstance(value, list):
        return sum(1 if is_count(each) else _tokens_in(each, name, texts) for each in value)
    if not isinstance(value, Mapping):
        return 0
    if value.get("detail") == "low":
        return LOW_DETAIL_TOKENS
    kind = str(value.get("mime_type") or value.get("mimeType"))
    if isinstance(value.get("data"), str) and (name == "input_audio" or kind.startswith("audio/")):
        rate = AUDIO_TOKENS if name == "input_audio" else GEMINI_AUDIO_TOKENS
        return _seconds_of(value["data"]) * rate
    texts += value
    return sum(_tokens_in(each, name, texts) for name, each in value.items())


def _tokens_of(texts: list[str]) -> float:
    raw = "".join(texts).encode("utf-8", "surrogatepass")
    shares = SHARES[:ASCII_SHARES] if raw.isascii() else SHARES
    tokens = sum(share * (len(raw) - len(raw.translate(None, each))) for share, each in shares)
    more, pairs = _MORE
    return tokens + (0 if raw.isascii() else more * sum(map(raw.count, pairs)))


def _seconds_of(sound: str) -> float:
    head = b""
    with suppress(ValueError):
        head = b64decode(sound[:64])
    second = int.from_bytes(head[28:32], "little") if head.startswith(b"RIFF") else AUDIO_BYTES
    return len(sound) * 0.75 / max(1, second)
