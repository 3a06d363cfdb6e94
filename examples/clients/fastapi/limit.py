"""Asks Weir before a request goes on."""
import inspect
import json
import logging
import os

import httpx
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse

URL = os.environ.get("WEIR_URL", "http://localhost:8080") + "/v1/check"
TOKEN = os.environ.get("WEIR_TOKEN")
# One client for all requests: it keeps connections alive.
client = httpx.AsyncClient(timeout=0.25, headers={"authorization": f"Bearer {TOKEN}"} if TOKEN else {})


class Limit(BaseHTTPMiddleware):
    """`describe`, async or not, returns the descriptors to count; none: the request goes on. `on_error` is as in `check`."""

    def __init__(self, app, domain, describe, on_error="allow"):
        super().__init__(app)
        self.domain, self.describe, self.on_error = domain, describe, on_error

    async def dispatch(self, request, call_next):
        descriptors = self.describe(request)
        if inspect.isawaitable(descriptors):
            descriptors = await descriptors
        if not descriptors:
            return await call_next(request)
        refusal, headers = await check(self.domain, descriptors, self.on_error)
        response = refusal or await call_next(request)
        response.headers.update(headers)
        return response


async def check(domain, descriptors, on_error="allow"):
    """The refusal, or None, and headers for the client. `on_error`, "allow" or "deny": what happens if Weir cannot decide."""
    if on_error not in ("allow", "deny"):
        raise ValueError(f"on_error must be allow or deny, not {on_error}")
    texts = [[{key: text(value) for key, value in entry.items()} for entry in entries] for entries in descriptors]
    try:
        answer = await client.post(URL, json={"domain": domain, "descriptors": texts})
        # The content of a request can cause 400 and 413, so these reject it regardless of on_error.
        refusal = JSONResponse({"error": "too many requests"}, 429) if answer.status_code in (400, 413, 429) else None
        if answer.status_code in (200, 429):
            return refusal, {name: value for name, value in answer.headers.items() if name.startswith("ratelimit") or name == "retry-after"}
        logging.error("Weir answers %s: %s", answer.status_code, answer.text)
        if refusal:
            return refusal, {}
    except httpx.HTTPError as error:
        logging.error("Weir does not answer: %r", error)
    return JSONResponse({"error": "try again later"}, 503) if on_error == "deny" else None, {}


def text(value):
    """Weir takes strings only. A client that sends a number, a list or nothing must not pass for that."""
    value = value if isinstance(value, str) else json.dumps(value, default=str, separators=(",", ":"))
    return value.encode("utf-8", "replace").decode()
