"""Refusals that go beyond their own request: of every request of the account, or of the model."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import from_json

ACCOUNT_STATUSES = (401, 402)
"""Statuses that no other request would escape: the key is wrong, or there is no money."""

ACCOUNT = """
insufficient_quota; billing_not_active; billing_hard_limit; account is not active;
account_deactivated; invalid_api_key; unsupported_country (OpenAI)
credit balance is too low; specified api usage limits; organization has been disabled (Anthropic)
api key not valid; service_disabled; location is not supported (Google)
key limit exceeded (OpenRouter)
spending limit; used all available credits (xAI)
blocked_api_access (Groq)
exceeded_current_quota_error; insufficient balance (Moonshot, DeepSeek)
arrearage (Alibaba)
expiredtokenexception; unrecognizedclientexception (Amazon)
"""
"""Words of an account, or of a key, that gets no more answers: of the hosts' pages of errors."""

MODEL = """
model_not_found; has been deprecated (OpenAI)
model_decommissioned; been decommissioned (Groq)
invalid_model (Mistral)
model not exist (DeepSeek)
model not found; deploymentnotfound (Azure)
no endpoints found (OpenRouter)
is not found for api version (Google)
"""
"""Words of a model that is not there, or no more. Anthropic says only `model: NAME`."""


def _words(table: str) -> list[str]:
    return [each.strip() for each in re.split(r";|\(.*\)", table) if each.strip()]


_ACCOUNT, _MODEL = _words(ACCOUNT), _words(MODEL)


def refuses(status: int, text: str) -> Literal["account", "model", ""]:
    """Say what an answer refuses for good: each request of the account, or each of the model."""
    said = " ".join(_said(text)).lower()
    if status in ACCOUNT_STATUSES or any(word in said for word in _ACCOUNT):
        return "account"
    gone = any(word in said for word in _MODEL)
    gone = gone or (status == 404 and said.startswith("not_found_error model:"))
    return "model" if gone else ""


def _said(text: str) -> list[str]:
    """Find the codes and the message of an error; nothing of a request that it repeats."""
    try:
        error = from_json(text)
    except ValueError:
        return [text[:500]]
    error = error[0] if isinstance(error, list) and error else error
    inner: Any = error.get("error") if isinstance(error, Mapping) else None
    places = [each for each in (inner, error) if isinstance(each, Mapping)]
    names = ("type", "code", "status", "message", "detail", "msg", "__type")
    words = [each.get(name) for each in places for name in names]
    return [each for each in (*words, inner) if isinstance(each, str)]
