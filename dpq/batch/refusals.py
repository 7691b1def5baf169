"""Refusals that go beyond their own request: of every request of the account, or of the model."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic_core import from_json

ACCOUNT_STATUSES = (401, 402)
"""Statuses that no other request would escape: the key is wrong, or there is no money."""

MODEL_STATUSES = (400, 403, 404, 410)

ACCOUNT = {
    "all": r"account\b.{0,40}\b(?:not active|suspended|deactivated|disabled|in arrears)"
    r"|insufficient[ _](?:balance|credits?|funds)|out of credits|invalid_api_key",
    "OpenAI": "insufficient_quota|billing_not_active|billing_hard_limit|account_deactivated"
    "|unsupported_country",
    "Anthropic": "credit balance is too low|specified api usage limits|organization has been dis",
    "Google": "api key not valid|service_disabled|location is not supported",
    "OpenRouter": "key limit exceeded",
    "xAI": "spending limit|used all available credits",
    "Groq": "blocked_api_access",
    "Moonshot": "exceeded_current_quota_error|access_terminated",
    "Alibaba": "arrearage",
    "Amazon": "expiredtokenexception|unrecognizedclientexception",
    "LiteLLM": "budget_exceeded|budget has been exceeded",
}
"""Words of an account, or of a key, that gets no more answers: of the hosts' pages of errors."""

MODEL = {
    "all": r"models?\b.{0,80}\b(?:not found|not exist|has been deprecated|decommissioned|retired)",
    "OpenAI": "model_not_found",
    "Groq": "model_decommissioned",
    "Mistral": "invalid_model",
    "Azure": "deploymentnotfound",
    "OpenRouter": "no endpoints found",
    "Anthropic": "^not_found_error model:",
}
"""Words of a model that is not there, or no more."""

_ACCOUNT, _MODEL = (re.compile("|".join(each.values())) for each in (ACCOUNT, MODEL))


def refuses(status: int, text: str) -> Literal["account", "model", ""]:
    """Say what an answer refuses for good: each request of the account, or each of the model."""
    said = " ".join(_said(text))[:2000].lower()
    if status in ACCOUNT_STATUSES or _ACCOUNT.search(said):
        return "account"
    return "model" if status in MODEL_STATUSES and _MODEL.search(said) else ""


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
