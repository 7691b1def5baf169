"""Refusals that go beyond their own request: of every request of the account, or of the model."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import from_json

ACCOUNT_STATUSES = (401, 402)
"""Statuses that no other request would escape: the key is wrong, or there is no money."""

ACCOUNT = (
    *("insufficient_quota", "billing_not_active", "billing_hard_limit"),  # OpenAI
    *("account is not active", "account_deactivated", "unsupported_country"),
    *("credit balance is too low", "specified api usage limits"),  # Anthropic
    *("organization has been disabled",),
    *("key limit exceeded",),  # OpenRouter
    *(
        "invalid_api_key",
        "api key not valid",
        "service_disabled",
        "location is not supported",
    ),  # Google
    *("spending limit", "used all available credits", "blocked_api_access"),  # xAI, Groq
    *("exceeded_current_quota_error", "insufficient balance", "arrearage"),  # Moonshot, Alibaba
    *("expiredtokenexception", "unrecognizedclientexception"),  # Amazon
)
"""Words of hosts whose account, or key, gets no more answers: of their pages of error codes."""

MODEL = (
    *("model_not_found", "model_decommissioned", "has been deprecated", "been decommissioned"),
    *("invalid_model", "model not exist", "model not found", "deploymentnotfound"),
    *("no endpoints found", "is not found for api version"),  # OpenRouter, Google
)
"""Words of hosts that do not have the model, or no more; Anthropic names it: `model: NAME`."""


def refuses(status: int, text: str) -> Literal["account", "model", ""]:
    """Say what an answer refuses for good: each request of the account, or each of the model."""
    said = " ".join(_said(text)).lower()
    if status in ACCOUNT_STATUSES or any(word in said for word in ACCOUNT):
        return "account"
    gone = any(word in said for word in MODEL)
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
