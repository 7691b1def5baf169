"""What answers mean: a table of statuses, headers and bodies, and the signals made of them."""

import importlib
import math
import re
import sys
import time
import urllib.error
from collections.abc import Iterator
from copy import copy
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any, NamedTuple

import aiohttp
import httpx
import pytest
import requests
from hypothesis import example, given
from hypothesis import strategies as st

from dpq import ConfigurationError, RateLimited, Reject, Retry
from dpq.limits.answers import MAX_RETRY_AFTER, Meaning, meaning_of
from dpq.limits.signals import signal_of
from dpq.types import Budget

DATE = {"Date": "Tue, 29 Oct 2024 16:56:40 GMT"}
RFC_9110 = "https://www.rfc-editor.org/rfc/rfc9110"
DRAFT = "https://www.ietf.org/archive/id/draft-ietf-httpapi-ratelimit-headers-"
GITHUB = "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api"
X = "https://docs.x.com/fundamentals/rate-limits"
DISCORD = "https://docs.discord.com/developers/topics/rate-limits"
OPENAI = "https://platform.openai.com/docs/guides/rate-limits"
ANTHROPIC = "https://docs.anthropic.com/en/api/rate-limits"
SHOPIFY = "https://shopify.dev/docs/api/admin-rest/usage/rate-limits"
ZENDESK = (
    "https://developer.zendesk.com/documentation/api-basics/best-practices/"
    "best-practices-for-avoiding-rate-limiting"
)
ATLASSIAN = "https://developer.atlassian.com/cloud/jira/platform/rate-limiting"
GITLAB = "https://gitlab.com/gitlab-org/gitlab/-/issues/199738"
LINEAR = "https://linear.app/developers/rate-limiting"
COSMOS = (
    "https://learn.microsoft.com/en-us/rest/api/cosmos-db/common-cosmosdb-rest-response-headers"
)
AZURE_SDK = "https://github.com/Azure/azure-sdk-for-js, throttlingRetryStrategy.ts"
LEMLIST = "https://developer.lemlist.com/api-reference/getting-started/rate-limits"
WHOOP = "https://developer.whoop.com/docs/developing/rate-limiting"
KONG = "https://developer.konghq.com/plugins/rate-limiting/"
OURS = "dpq/limits/answers.py"
OPENAI_LIBRARY = "https://github.com/openai/openai-python, _should_retry"


ANSWERS = r"""
# Which answers are limits
429 bare | 429 | resource 5? | https://www.rfc-editor.org/rfc/rfc6585#section-4
503 bare | 503 | host - | RFC_9110 #section-15.6.4
529 bare | 529 | host - | ANTHROPIC
503 | 503 | host 120 | RFC_9110 #section-10.2.3
  Retry-After: 120
503 spent | 503 | host 9 | DRAFT 10.txt
  RateLimit: "a";r=0;t=9
503 with a reset only | 503 | host 50 | DRAFT 03.txt
  RateLimit-Reset: 50
200 spent | 200 | nobody - | GITHUB
  x-ratelimit-remaining: 0
  x-ratelimit-reset: 1730221009
  = - 0 9
301 spent | 301 | nobody - | DRAFT 10.txt
  RateLimit: "problemPolicy";r=0;t=10
  = - 0 10
500 | 500 | request 120 | OURS
  Retry-After: 120
403 forbidden | 403 | request - | GITHUB

# Retry-After
seconds | 429 | resource 120 | RFC_9110 #section-10.2.3
  Retry-After: 120
zero | 429 | resource 1? | RFC_9110 #section-10.2.3
  Retry-After: 0
past date | 429 | resource 1? | OURS
  Retry-After: Tue, 29 Oct 2024 16:56:39 GMT
IMF-fixdate | 429 | resource 37 | RFC_9110 #section-5.6.7
  Date: Sun, 06 Nov 1994 08:49:00 GMT
  Retry-After: Sun, 06 Nov 1994 08:49:37 GMT
RFC 850 date | 429 | resource 37 | RFC_9110 #section-5.6.7
  Date: Sunday, 06-Nov-94 08:49:00 GMT
  Retry-After: Sunday, 06-Nov-94 08:49:37 GMT
asctime date | 429 | resource 37 | RFC_9110 #section-5.6.7
  Date: Sun Nov  6 08:49:00 1994
  Retry-After: Sun Nov  6 08:49:37 1994
no such day | 429 | resource 5? | OURS
  Retry-After: Fri, 30 Feb 2026 00:00:00 GMT
repeated | 429 | resource 60 | OURS
  Retry-After: 30
  Retry-After: 60
  Retry-After: x
decimals | 429 | resource 2 | SHOPIFY
  Retry-After: 2.0
  X-Shopify-Shop-Api-Call-Limit: 40/40
Cosmos DB | 429 | resource 1? | COSMOS
  x-ms-retry-after-ms: 540
Azure OpenAI | 429 | resource 1 | AZURE_SDK
  retry-after-ms: 540
  retry-after: 1
Retry-After wins | 429 | resource 7 | DRAFT 10.txt
  RateLimit: "default";r=0;t=30
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 1730221060
  Retry-After: 7
  X-RateLimit-Retry-After: 8

# The IETF drafts
draft 10 | 429 | resource 30 | DRAFT 10.txt
  RateLimit: "default";r=0;t=30
draft 08 | 429 | resource 30 | DRAFT 08.txt
  RateLimit: default;r=0;t=30
several policies | 429 | resource 23 | DRAFT 10.txt
  RateLimit: "permin";r=0;t=23, "persec";r=0;t=1, "perhr";r=399;t=2402
the window of the one that is spent | 429 | resource 3600 | DRAFT 10.txt
  RateLimit-Policy: "permin";q=50;w=60,"perhr";q=1000;w=3600
  RateLimit: "permin";r=20;t=23, "perhr";r=0
windows only: the shortest | 429 | resource 60 | DRAFT 10.txt
  RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
draft 07 | 429 | resource 30 | DRAFT 07.txt
  RateLimit: limit=100, remaining=0, reset=30
draft 03 | 429 | resource 50 | DRAFT 03.txt
  RateLimit-Limit: 100, 100;w=60
  RateLimit-Remaining: 0
  RateLimit-Reset: 50

# Real hosts
GitHub primary | 403 | resource 1200 | GITHUB
  x-ratelimit-limit: 5000
  x-ratelimit-remaining: 0
  x-ratelimit-used: 5000
  x-ratelimit-reset: 1730222200
  x-ratelimit-resource: core
GitHub secondary | 403 | resource 60 | GITHUB
  retry-after: 60
GitLab | 429 | resource 61 | GITLAB
  RateLimit-Limit: 600
  RateLimit-Observed: 600
  RateLimit-Remaining: 0
  RateLimit-Reset: 1730221061
  RateLimit-ResetTime: Tue, 29 Oct 2024 16:57:41 GMT
X, Twitter | 429 | resource 900 | X
  x-rate-limit-limit: 900
  x-rate-limit-remaining: 0
  x-rate-limit-reset: 1730221900
X, Twitter, by day | 429 | resource 43200 | X
  x-rate-limit-remaining: 847
  x-rate-limit-reset: 1730221900
  x-app-limit-24hour-remaining: 0
  x-app-limit-24hour-reset: 1730264200
Discord | 429 | resource 1 | DISCORD
  X-RateLimit-Limit: 5
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 1730221001
  X-RateLimit-Reset-After: 1
  X-RateLimit-Bucket: abcd1234
Reddit | 429 | resource 171 | https://github.com/reddit-archive/reddit/wiki/API
  X-Ratelimit-Used: 600
  X-Ratelimit-Remaining: 0.0
  X-Ratelimit-Reset: 171
OpenAI, both | 429 | resource 360 | OPENAI
  x-ratelimit-remaining-requests: 0
  x-ratelimit-remaining-tokens: 0
  x-ratelimit-reset-requests: 1s
  x-ratelimit-reset-tokens: 6m0s
OpenAI, requests | 429 | resource 1? | OPENAI
  x-ratelimit-remaining-requests: 0
  x-ratelimit-remaining-tokens: 149984
  x-ratelimit-reset-requests: 20ms
  x-ratelimit-reset-tokens: 6m0s
Anthropic | 429 | resource 20 | ANTHROPIC
  anthropic-ratelimit-requests-limit: 1000
  anthropic-ratelimit-requests-remaining: 0
  anthropic-ratelimit-requests-reset: 2024-10-29T16:57:00Z
  anthropic-ratelimit-input-tokens-remaining: 80000
  anthropic-ratelimit-input-tokens-reset: 2024-10-29T16:59:00Z
Zendesk | 429 | resource 41 | ZENDESK
  x-rate-limit: 700
  ratelimit-limit: 700
  x-rate-limit-remaining: 0
  ratelimit-remaining: 0
  ratelimit-reset: 41
Atlassian | 429 | resource 1800 | ATLASSIAN
  Beta-RateLimit-Policy: "global-app-quota";q=65000;w=3600
  Beta-RateLimit: "global-app-quota";r=0;t=1800
  RateLimit-Reason: jira-quota-global-based
Atlassian, reset without seconds | 429 | resource 200 | https://jira.atlassian.com/browse/JRACLOUD-69262
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 2024-10-29T17:00Z
Linear, epoch milliseconds | 429 | resource 1800.5 | LINEAR
  X-RateLimit-Requests-Remaining: 0
  X-RateLimit-Requests-Reset: 1730222800500
lemlist, as JavaScript prints dates | 429 | resource 2 | LEMLIST
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: Tue Oct 29 2024 17:56:42 GMT+0100 (Central European Standard Time)
WHOOP | 429 | resource 3 | WHOOP
  X-RateLimit-Limit: 100, 100;window=60, 10000;window=86400
  X-RateLimit-Remaining: 0
  X-RateLimit-Reset: 3
Kong | 429 | resource 37 | KONG
  X-RateLimit-Remaining-Hour: 0
  X-RateLimit-Remaining-Minute: 20
  RateLimit-Remaining: 0
  RateLimit-Reset: 37

# Two hands wrote the headers
gateway and service, joined | 429 | resource 30 | OURS
  X-RateLimit-Remaining: 12, 0
  X-RateLimit-Reset: 10, 30
Azure's -1 for unknown | 429 | resource 1? | https://learn.microsoft.com/en-us/answers/questions/5625878/
  x-ratelimit-remaining-tokens: -1
  x-ratelimit-reset-tokens: 0

# What other statuses mean
420 | 420 | resource 5? | https://developer.x.com/ja/docs/basics/response-codes
430 | 430 | host 30 | https://shopify.dev/docs/api/usage/response-codes
  Retry-After: 30
509 | 509 | host 30 | https://docs.cpanel.net/ea4/apache/bandwidth-limit-exceeded/
  Retry-After: 30
408, 413, 425, 502, 504, 520 are alike | 413 | request 30 | RFC_9110 #section-15.5.14
  Retry-After: 30
408 bare | 408 | request - | RFC_9110 #section-15.5.9
401 | 401 | account - | RFC_9110 #section-15.5.2
402 | 402 | account - | RFC_9110 #section-15.5.3
never again | 429 | request -! | OPENAI_LIBRARY
  x-should-retry: false
again, whatever the status is | 400 | request - | OPENAI_LIBRARY
  x-should-retry: true

# Times as people write them
words | 429 | resource 30 | https://github.com/urllib3/urllib3/issues/1822
  Retry-After: 30 seconds
ISO 8601 | 429 | resource 30 | OURS
  Retry-After: PT30S
ISO 8601, a day | 429 | resource 86400 | OURS
  Retry-After: P1DT2H
a clock | 429 | resource 30 | OURS
  Retry-After: 00:00:30
quoted | 429 | resource 30 | OURS
  Retry-After: "30"
signed | 429 | resource 30 | OURS
  Retry-After: +30
UTC | 429 | resource 60 | OURS
  Retry-After: 2024-10-29 16:57:40 UTC
thousands | 429 | resource 1000 | OURS
  Retry-After: 1,000
epoch microseconds | 429 | resource 60 | OURS
  Retry-After: 1730221060000000
no time at all | 429 | resource 5? | OURS
  Retry-After: 17302210600000000000000000

# Times in bodies
Gemini | 429 | resource 31 | https://ai.google.dev/gemini-api/docs/rate-limits
  < {"error": {"details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "31s"}]}}
Azure | 429 | resource 45 | https://learn.microsoft.com/en-us/azure/ai-services/openai/quotas-limits
  < {"error": {"code": "429", "message": "Please retry after 45 seconds."}}
Discord, a body | 429 | resource 64.57 | DISCORD
  < {"message": "You are being rate limited.", "retry_after": 64.57, "global": true}
Matrix | 429 | resource 2 | https://spec.matrix.org/latest/client-server-api/#rate-limiting
  < {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2000}
Django REST framework | 429 | resource 12 | https://www.django-rest-framework.org/api-guide/throttling/
  < {"detail": "Request was throttled. Expected available in 12 seconds."}
OpenAI, a text | 429 | resource 432 | OPENAI
  < {"error": {"message": "Rate limit reached. Limit 200, Used 200. Please try again in 7m12s."}}
Replicate | 429 | resource 30 | https://replicate.com/docs/topics/predictions/rate-limits
  < {"detail":"Request was throttled. Your rate limit resets in ~30s."}
Akamai | 429 | resource 21 | https://techdocs.akamai.com/cps/reference/429
  < {"detail": "You have exhausted your API Request Quota. Retry after: 21 seconds."}
a moment | 429 | resource 60 | OURS
  < {"retryAfter": "2024-10-29T16:57:40Z"}
epoch seconds | 429 | resource 60 | OURS
  < {"retry_after": 1730221060}
two units | 429 | resource 65 | OURS
  < {"message": "Retry after 1 minute and 5 seconds, up to 3 times"}
monday.com | 429 | resource 12 | https://developer.monday.com/api-reference/docs/rate-limits
  < {"error_message": "Complexity budget exhausted, reset in 12 seconds"}
a model that loads | 503 | host 20 | https://huggingface.co/docs/inference-providers
  < {"error": "Model is currently loading", "estimated_time": 20.0}
a header is believed first | 429 | resource 2 | OURS
  Retry-After: 2
  < {"retry_after": 60}
no time of a request that is wrong | 400 | request -! | OURS
  < {"error": "Please try again in 5 minutes"}
no time in a page | 429 | resource 5? | OURS
  < <html>Too many requests. Please try again later.</html>
GitHub secondary, no time | 403 | resource 60? | GITHUB
  < {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}
Google, a 403 | 403 | resource 5? | https://developers.google.com/workspace/drive/api/guides/handle-errors
  < {"error": {"errors": [{"domain": "usageLimits", "reason": "userRateLimitExceeded"}]}}
YouTube, a day's quota | 403 | resource 300? | https://developers.google.com/youtube/v3/docs/errors
  < {"error": {"errors": [{"domain": "youtube.quota", "reason": "quotaExceeded"}]}}
a full Drive | 403 | request - | in code
  < {"error": {"errors": [{"domain": "global", "reason": "storageQuotaExceeded"}]}}
Meta | 403 | resource 60? | https://github.com/python-social-auth/social-core/issues/859
  < {"error": {"message": "(#4) Application request limit reached", "code": 4}}
Meta, an account's ads | 400 | resource 60? | https://github.com/singer-io/tap-facebook/issues/192
  < {"error": {"message": "(#80004) There have been too many calls to this ad-account."}}
another limit of requests | 403 | request - | OURS
  < {"message": "Friend request limit reached"}
hours that are no wait | 503 | host - | OURS
  < <html>Our support is available 24 hours a day.</html>
Salesforce, a day's calls | 403 | resource 300? | in code
  < [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests Limit exceeded."}]

# Whom a body is about
larger than the limit | 429 | request -! | OPENAI
  x-ratelimit-remaining-tokens: 29999
  x-ratelimit-reset-tokens: 0s
  < {"error": {"message": "Request too large for m: Limit 30000, Requested 45000."}}
no money | 429 | account 5? | OPENAI
  < {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}
not active | 429 | account 5? | OPENAI
  < {"error": {"message": "Your account is not active.", "code": "billing_not_active"}}
a spend limit | 429 | account 5? | https://developers.openai.com/api/docs/guides/spend-limits
  < {"error": {"type": "insufficient", "code": "project_spend_limit_exceeded"}}
no more credits | 429 | account 5? | https://learn.microsoft.com/en-us/microsoft-cloud/dev/dev-proxy/
  < {"error": {"code": "credit_balance_exhausted"}}
a month's limit | 429 | account 5? | https://developers.openai.com/api/docs/guides/spend-limits
  < {"error": {"code": "organization_usage_limit_exceeded"}}
Groq, a spend limit | 400 | account - | https://console.groq.com/docs/spend-limits
  < {"error": {"message": "blocked", "code": "blocked_api_access"}}
a plan without long context | 429 | request -! | https://github.com/gsd-build/gsd-2/issues/3257
  < {"error": {"message": "Usage credits are required for long context requests."}}
no credit | 400 | account - | ANTHROPIC
  < {"error": {"message": "Your credit balance is too low to access the Anthropic API."}}
a key's limit | 403 | account - | https://openrouter.ai/docs/api-reference/limits
  < {"error": {"message": "Key limit exceeded (total limit).", "code": 403}}
a model that is gone | 404 | resource - | OPENAI
  < {"error": {"message": "The model `m` has been deprecated", "code": "model_not_found"}}

# What is left
Anthropic's subscriptions | 429 | resource 7860 | https://github.com/anthropics/claude-code/issues/12829
  anthropic-ratelimit-unified-status: rejected
  anthropic-ratelimit-unified-reset: 1730228860
  anthropic-ratelimit-unified-5h-status: rejected
  anthropic-ratelimit-unified-5h-reset: 1730228860
  anthropic-ratelimit-unified-5h-utilization: 1.0
  anthropic-ratelimit-unified-7d-status: allowed
  anthropic-ratelimit-unified-7d-reset: 1730721000
  anthropic-ratelimit-unified-overage-status: rejected
  = - 0 7860
Mistral | 200 | nobody - | https://docs.mistral.ai/deployment/ai-studio/tier
  x-ratelimit-limit-req-minute: 60
  x-ratelimit-remaining-req-minute: 0
  x-ratelimit-remaining-tokens-minute: 400
  = - 0 60 - 60
  = tokens 400 60
HubSpot | 200 | nobody - | https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines
  X-HubSpot-RateLimit-Max: 100
  X-HubSpot-RateLimit-Remaining: 0
  X-HubSpot-RateLimit-Interval-Milliseconds: 10000
  = - 0 10 - 100 10
Trello | 200 | nobody - | https://developer.atlassian.com/cloud/trello/guides/rest-api/rate-limits/
  x-rate-limit-api-token-remaining: 0
  x-rate-limit-api-token-max: 100
  x-rate-limit-api-token-interval-ms: 10000
  x-rate-limit-api-key-remaining: 9
  x-rate-limit-api-key-interval-ms: 10000
  = - 0 10 - 100 10
Composio | 200 | nobody - | https://docs.composio.dev/reference/rate-limits
  X-RateLimit-Remaining: 0
  X-RateLimit-Window-Size: 600s
  = - 0 600 - - 600
Strava | 200 | nobody - | https://developers.strava.com/docs/rate-limits/
  X-RateLimit-Limit: 100,1000
  X-RateLimit-Usage: 100,400
  = - 0 200 - 100
Strava, by reading | 200 | nobody - | https://developers.strava.com/docs/rate-limits/
  X-RateLimit-Limit: 200,2000
  X-RateLimit-Usage: 100,400
  X-ReadRateLimit-Limit: 100,1000
  X-ReadRateLimit-Usage: 100,400
  = - 0 200 - 100
Shopify | 200 | nobody - | SHOPIFY
  X-Shopify-Shop-Api-Call-Limit: 40/40
  = - 0 20 40
BigCommerce | 200 | nobody - | https://developer.bigcommerce.com/docs/start/best-practices/api-rate-limits
  X-Rate-Limit-Requests-Left: 5
  X-Rate-Limit-Requests-Quota: 25
  X-Rate-Limit-Time-Reset-Ms: 15000
  = - 5 15 - 25
Bybit | 200 | nobody - | https://bybit-exchange.github.io/docs/v5/rate-limit
  X-Bapi-Limit: 10
  X-Bapi-Limit-Status: 9
  X-Bapi-Limit-Reset-Timestamp: 1730221001000
  = - 9 1
Etsy | 200 | nobody - | https://developers.etsy.com/documentation/essentials/rate-limits
  X-Remaining-This-Second: 0
  X-Remaining-Today: 99
  = - 0 1
Xero | 200 | nobody - | https://developer.xero.com/documentation/guides/oauth2/limits/
  X-MinLimit-Remaining: 0
  X-DayLimit-Remaining: 99
  = - 0 60
Salesforce | 200 | nobody - | https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/headers_api_usage.htm
  Sforce-Limit-Info: api-usage=5000/5000
  = - 0 3600 - 5000
OpenAI, left | 200 | nobody - | OURS
  x-ratelimit-limit-requests: 60
  x-ratelimit-limit-tokens: 150000
  x-ratelimit-remaining-requests: 59
  x-ratelimit-remaining-tokens: 149984
  x-ratelimit-reset-requests: 6m0s
  x-ratelimit-reset-tokens: 21ms
  = - 59 360 60
  = tokens 149984 0.021 150000
OpenAI by usage, and other names, left | 200 | nobody - | in code
  x-ratelimit-remaining-tokens_usage_based: 20
  x-ratelimit-reset-tokens_usage_based: 20ms
  x-ratelimit-remaining-complexity-points-of-all: 1
  x-ratelimit-reset-complexity-points-of-all: 1s
  x-ratelimit-remaining-monthly-requests-per-user: 99
  x-ratelimit-reset-monthly-requests-per-user: 1s
  = - 99 1
  = tokens 20 0.02
Anthropic, left | 200 | nobody - | OURS
  anthropic-ratelimit-requests-limit: 50
  anthropic-ratelimit-requests-remaining: 49
  anthropic-ratelimit-requests-reset: 2024-10-29T16:57:00Z
  anthropic-ratelimit-tokens-remaining: 40000
  anthropic-ratelimit-tokens-reset: 2024-10-29T16:57:10Z
  anthropic-ratelimit-input-tokens-remaining: 30000
  anthropic-ratelimit-input-tokens-reset: 2024-10-29T16:57:20+00:00
  anthropic-ratelimit-output-tokens-remaining: 8000
  anthropic-ratelimit-output-tokens-reset: 2024-10-29T16:57:20Z
  = - 49 20 50
  = tokens 40000 30
  = input_tokens 30000 40
  = output_tokens 8000 40
draft 10, left | 200 | nobody - | OURS
  RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
  RateLimit: "burst";r=50;t=30, "daily";r=700;t=9000
  = - 50 30 - 100 60
draft 10, a unit, left | 200 | nobody - | OURS
  RateLimit-Policy: "peruser";q=65535;w=10;qu="content-bytes", "now";q=5;qu="concurrent-requests"
  RateLimit: "peruser";r=30000, "now";r=1;t=3
  = content_bytes 30000 10 - 65535 10
a limit below what is left, left | 200 | nobody - | OURS
  x-ratelimit-limit: 5
  x-ratelimit-remaining: 7
  x-ratelimit-reset: 9
  = - 7 9
a window of years, left | 200 | nobody - | OURS
  RateLimit-Policy: "d";q=9;w=999999999
  RateLimit: "d";r=7;t=9
  = - 7 9 - 9 86400
the tightest, left | 200 | nobody - | OURS
  X-RateLimit-Remaining-Minute: 40
  X-RateLimit-Reset-Minute: 7
  X-RateLimit-Remaining-Day: 3
  X-RateLimit-Reset-Day: 7000
  = - 3 7000
spent, left | 200 | nobody - | OURS
  X-RateLimit-Remaining: -1
  X-RateLimit-Reset: 7
  = - 0 7
no reset, left | 200 | nobody - | OURS
  X-RateLimit-Remaining: 9
only a reset, left | 200 | nobody - | OURS
  X-RateLimit-Reset: 7
over, left | 200 | nobody - | OURS
  X-RateLimit-Remaining: 9
  X-RateLimit-Reset: 1730221000
"""
"""Each: its name, the status, what it means, and the source; then its headers, its body behind "<",
and behind "=" each budget: its unit, what is left, the seconds, and the rest as far as it is said.
A meaning is whom it is about and the seconds; "?" is a guess, "!" is final."""

HOSTILE = {
    "-1": 5,
    "1e999": 5,
    "nan": 5,
    "": 5,
    "1_000": 5,
    "٣٠": 5,
    "Tue, ٢٩ Oct 2024 16:57:40 GMT": 5,
    f"Tue, 29 Oct 2024 {'9' * 20}:00:00 GMT": 5,
    "30,": 5,
    "99999-01-01T00:00:00Z": 5,
    "1" * 1_000_000: 5,
    "1" * 999: 5,
    "9" * 400 + "h": 5,
    "9999-12-31T23:59:59-23:59": 86_400,
    "0001-01-01T00:00:00+23:59": 1,
    "1000000000": 1,
}
"""Values of headers, and the seconds that they are read as."""


class Case(NamedTuple):
    name: str
    source: str
    status: int
    meaning: str
    headers: list[tuple[str, str]]
    body: str
    budgets: dict[str, tuple[float | None, ...]]


def read(answers: str) -> Iterator[Case]:
    """Read the answers; each has a Date."""
    for block in re.split(r"\n(?! )", re.sub(r"^(#.*)?\n", "", answers, flags=re.M).rstrip()):
        head, *lines = (line.strip() for line in block.split("\n"))
        name, status, meaning, source = head.split(" | ")
        page, _, section = source.partition(" ")
        said = [line[2:].split() for line in lines if line.startswith("= ")]
        body = "".join(line[2:] for line in lines if line.startswith("< "))
        pairs = [tuple(line.split(": ", 1)) for line in lines if line[:2] not in ("= ", "< ")]
        yield Case(
            name,
            globals().get(page, page) + section,
            int(status),
            meaning,
            [*({} if "Date" in dict(pairs) else DATE).items(), *pairs],
            body,
            {
                unit.strip("-"): tuple(None if n == "-" else float(n) for n in [*more, *"---"][:5])
                for unit, *more in said
            },
        )


CASES = list(read(ANSWERS))


def in_short(meaning: Meaning) -> str:
    """A meaning as the table writes it."""
    wait = "-" if meaning.wait is None else f"{meaning.wait:g}"
    return f"{meaning.about or 'nobody'} {wait}{'?' * meaning.guessed}{'!' * meaning.final}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case):
    """Every documented answer is read as its source means it, of any client, in any case."""
    assert case.source
    assert in_short(meaning_of(case.status, case.headers, case.body)) == case.meaning
    raw = [(name.upper().encode(), value.encode()) for name, value in case.headers]
    assert in_short(meaning_of(case.status, raw, case.body.encode())) == case.meaning
    if case.status < 400 or case.budgets:
        told = Budget.from_headers(case.headers, case.status)
        assert {each.unit: astuple(each)[1:] for each in told} == case.budgets


@pytest.mark.parametrize("more", ["", "x" * 9000])
def test_a_request_that_an_answer_repeats_says_nothing(more):
    """A text of the request is not the host's word, also where the body is cut."""
    body = f'{{"detail": "slow", "input": "my account is not active {more}"}}'
    assert in_short(meaning_of(429, {}, body)) == "resource 5?"
    body = f'{{"error": {{"metadata": {{"flagged_input": "try again in 5 minutes {more}"}}}}}}'
    assert in_short(meaning_of(403, {}, body)) == "request -"
    body = f'{{"error": {{"failed_generation": "a secondary rate limit {more}"}}}}'
    assert in_short(meaning_of(400, {}, body)) == "request -!"
    assert in_short(meaning_of(429, {}, "429 insufficient_quota")) == "account 5?"


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values(value):
    """They are bounded, or as if absent."""
    headers = {**DATE, "Retry-After": value, "X-RateLimit-Reset": value}
    assert meaning_of(429, headers).wait == HOSTILE[value]


STATUSES = {  # statuses of the caller, the status, Retry-After: what it means
    ((429, 503), 503, None): "host 5?",
    ((429,), 529, "7"): "host 7",
    ((418,), 418, "7"): "resource 7",
    ((403,), 403, None): "resource 5?",
    ((), 403, "3"): "resource 3",
    ((), 429, None): "request -",
}


@pytest.mark.parametrize("case", STATUSES, ids=str)
def test_statuses_of_the_caller(case):
    """What else is a limit, or is none, is the caller's to say."""
    statuses, status, told = case
    headers = {} if told is None else {"Retry-After": told}
    assert in_short(meaning_of(status, headers, statuses=statuses)) == STATUSES[case]


def test_the_least_wait():
    """A wait is at least as long as the caller says."""
    soon = {"Retry-After": "0.2"}
    assert RateLimited.from_headers(429, soon).retry_after == 1
    assert RateLimited.from_headers(429, soon, least=0).retry_after == 0.2
    assert RateLimited.from_headers(429, {}, least=9).retry_after == 9


def test_signals():
    """An answer is read of any client, with as much of its body as the client has read."""
    limited = RateLimited.from_response(SimpleNamespace(status=529, headers={"retry-after": "7"}))
    assert (limited.retry_after, limited.status, limited.guessed) == (7, 529, False)
    retry = RateLimited.from_headers(500, {"Retry-After": "7"}, "queue")
    assert (type(retry), retry.delay, retry.retry_after) == (Retry, 7, 7)
    answer = httpx.Response(429, json={"retry_after": 3})
    limited = copy(RateLimited.from_response(answer, "queue"))
    assert (limited.retry_after, limited.scope) == (3, "queue")
    assert copy(RateLimited()).guessed
    assert RateLimited.from_response(httpx.Response(503, stream=httpx.ByteStream(b""))) is None
    scrapy = SimpleNamespace(status=429, headers={b"Retry-After": [b"3", b"5"]}, body=b"")
    assert RateLimited.from_response(scrapy).retry_after == 5
    for nothing in ("no", SimpleNamespace(status=429)):
        with pytest.raises(ConfigurationError, match="it must have headers, and an int as"):
            RateLimited.from_response(nothing)


def test_a_failed_answer_leaves_no_budget():
    """It may come from a machine before the host; a refusal of the host itself says it."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7"}
    assert Budget.from_headers(headers, 502) == []
    assert Budget.from_headers(headers, 429) == [Budget("", 0, 7)]
    assert Budget.from_response(SimpleNamespace(status=200, headers=headers)) == [Budget("", 0, 7)]


def of_httpx(status: int, **more: Any) -> Exception:
    request = httpx.Request("GET", "http://h/")
    answer = httpx.Response(status, request=request, **more)
    return httpx.HTTPStatusError("refused", request=request, response=answer)


def of_requests(status: int, headers: dict[str, str]) -> Exception:
    answer = requests.Response()
    answer.status_code, answer.headers = status, requests.structures.CaseInsensitiveDict(headers)
    return requests.HTTPError("refused", response=answer)


def of_a_library(name: str) -> Exception:
    kind = importlib.import_module(name).RateLimitError  # not above: it takes a second
    answer = of_httpx(429, headers={"retry-after": "9"}).response
    return kind("refused", response=answer, body=None)


WAIT = {"Retry-After": "9"}
ERRORS = {
    "httpx": (of_httpx(429, headers=WAIT), RateLimited, 9),
    "httpx, a body": (of_httpx(429, json={"retry_after": 9}), RateLimited, 9),
    "requests": (of_requests(429, WAIT), RateLimited, 9),
    "requests, 503": (of_requests(503, WAIT), RateLimited, 9),
    "urllib": (urllib.error.HTTPError("http://h/", 429, "", WAIT, None), RateLimited, 9),
    "aiohttp": (aiohttp.ClientResponseError(None, (), status=429, headers=WAIT), *(RateLimited, 9)),
    "openai": ("openai", RateLimited, 9),
    "anthropic": ("anthropic", RateLimited, 9),
    "a failure with a time": (of_httpx(500, headers=WAIT), Retry, 9),
    "final": (of_httpx(429, headers={"x-should-retry": "false"}), Reject, None),
    "too large": (of_httpx(429, json={"error": "Request too large"}), Reject, None),
    "a failure": (of_httpx(500), httpx.HTTPStatusError, None),
    "not found": (of_httpx(404), Reject, None),
    "forbidden": (of_httpx(403), httpx.HTTPStatusError, None),
    "a wrong key": (of_httpx(401), httpx.HTTPStatusError, None),
    "another error": (ValueError("no"), ValueError, None),
    "a signal": (Retry(9), Retry, 9),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_that_carry_an_answer(case):
    """The error of a client is the signal that its answer means, unless the caller says no."""
    error, kind, seconds = ERRORS[case]
    if isinstance(error, str):
        error = of_a_library(error)
    signal = signal_of(error)
    assert type(signal) is kind
    assert getattr(signal, "retry_after", None) == seconds
    assert signal is error or signal.__cause__ is error
    assert type(signal_of(ExceptionGroup("", [error]))) in (kind, ExceptionGroup)
    assert signal_of(error, from_errors=False) is error


def test_a_signal_says_the_text_of_the_answer():
    """A dead letter has the host's own words, also where the client's error leaves them out."""
    signal = signal_of(of_httpx(404, text="no such\n page"))
    assert str(signal).endswith("no such page")


@pytest.fixture
def in_tokyo(monkeypatch):
    """The local time of this process is far from UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("moment", ["Tue Oct 29 16:57:40 2024", "2024-10-29 16:57:40"])
def test_a_moment_without_a_zone_is_utc(in_tokyo, moment):
    """Where this process is makes no difference to a moment that names no zone."""
    assert meaning_of(429, {**DATE, "Retry-After": moment}).wait == 60


@pytest.mark.parametrize("status", [99, 1000, "503", 5.0])
def test_wrong_status(status):
    """A status that is none is named with its bounds, before a task is given back with it."""
    with pytest.raises(ConfigurationError, match="it must be an int from 100 to 999"):
        RateLimited(1, status=status)
    if isinstance(status, int):
        with pytest.raises(ConfigurationError, match="it must be an int from 100 to 999"):
            RateLimited.from_headers(status, {}, statuses=[status])


# Whatever a host sends

NAMES = sorted({name for case in CASES for name, _ in dict(case.headers).items()})
VALUES = sorted({v for case in CASES for v in dict(case.headers).values() if len(v) < 1000})
mixed_case = st.sampled_from(NAMES).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.upper(), name.swapcase()])
)
fragments = st.lists(st.sampled_from([*'"\\,;=-.:rtw019 ', *VALUES]), max_size=12).map("".join)
values = st.sampled_from(VALUES) | fragments | st.text() | st.integers().map(str)
nonsense = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)
statuses = st.sampled_from([429, 503, 529, 403, 200, True, "429", None, math.nan]) | st.integers()
pairs = st.lists(st.tuples(mixed_case, values), max_size=8)
raw_pairs = st.lists(st.tuples(mixed_case.map(str.encode), st.binary()), max_size=8)
wild_pairs = st.lists(st.tuples(mixed_case | nonsense, values | nonsense) | nonsense, max_size=8)


@given(statuses, pairs | raw_pairs | wild_pairs | pairs.map(dict) | nonsense)
@example(429, dict)
@example(429, [("Retry-After", "1" * 2_000_000)])
@example(429, [("Retry-After", "1" * 2_000)] * 200)
@example(429, [("RateLimit", '"' + "\\" * 998)] * 200)
@example(429, [("X-RateLimit-Remaining", "9"), ("X-RateLimit-Reset", "9" * 99)])
def test_bounds(status, headers):
    """No status and no headers raise; a wait is up to a day, and budgets are in their bounds."""
    signal = RateLimited.from_headers(status, headers)
    assert signal is None or (1 <= signal.retry_after <= MAX_RETRY_AFTER and status >= 400)
    assert signal is not None or status != 429 or "should-retry" in str(headers).lower()
    for budget in Budget.from_headers(headers):
        assert budget.unit == "" or (budget.unit.islower() and len(budget.unit) <= 16)
        assert isinstance(budget.left, int)
        assert 0 <= budget.left <= 10**15
        assert 0 < budget.seconds <= MAX_RETRY_AFTER


@given(st.binary() | st.text() | st.lists(fragments).map("again in ".join))
@example("again in " + "9" * 8000)
@example('"retry_after": ' + "9. " * 3000)
@example("again in " + "9 s, " * 3000)
def test_bounds_of_bodies(body):
    """No body raises, and none takes long: only its beginning is read."""
    meaning = meaning_of(429, {}, body)
    assert meaning.wait is None or 1 <= meaning.wait <= MAX_RETRY_AFTER


SHORTEST = ["a;r;t=1,", '"";r=0,', "a;w=1,", "1,", "1s", "a=,", ",", ";", '"', '"\\', "1", "a;a;a,"]
"""What costs most for each character, as far as anybody has found."""


@given(
    st.sampled_from([*NAMES, "RateLimit", "RateLimit-Policy", "X-RateLimit-Foo"]),
    st.sampled_from(SHORTEST) | st.text('ar01st;,=" .:-', min_size=1, max_size=12),
)
@example("RateLimit", '"";r=0,')
@example("X-RateLimit-Foo", "a;w=1,")
def test_hostile_headers_cost_little(name, piece):
    """A hundred headers full of short pieces are no more work than a few, counted in calls."""
    calls = 0

    def count(_frame, event, _arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    hostile = [(name, piece * (1000 // len(piece)))] * 128
    sys.setprofile(count)
    try:
        RateLimited.from_headers(429, hostile, body='"retry_after": 1x, ' * 999)
    finally:
        sys.setprofile(None)
    assert calls < 100_000  # some 10 ms; without a bound on the text 1 700 000


def test_the_text_of_a_refusal_is_kept():
    """It is the last error of a task that is given up; what is no text says nothing."""
    refused = RateLimited.from_headers(429, {}, body=b"Too \xff many")
    assert refused.reason == "HTTP 429 Too \ufffd many"
    assert RateLimited.from_headers(429, {}, body=None).reason == "HTTP 429"
