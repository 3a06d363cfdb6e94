"""Middleware that asks Weir before the application handles a request."""
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
    """`describe`, async or not, returns the descriptors to count. Without any, the request passes. `on_error`: see `check`."""

    def __init__(self, app, domain, describe, on_error="allow"):
        super().__init__(app)
        self.domain, self.describe, self.on_error = domain, describe, on_error

    async def dispatch(self, request, call_next):
        descriptors = self.describe(request)
        if inspect.isawaitable(descriptors):
            descriptors = await descriptors
        if not descriptors:
            return await call_next(request)
        denial, headers = await check(self.domain, descriptors, self.on_error)
        response = denial or await call_next(request)
        response.headers.update(headers)
        return response


async def check(domain, descriptors, on_error="allow"):
    """Returns a denial or None, and headers for the client. `on_error`, "allow" or "deny", applies if Weir cannot decide."""
    if on_error not in ("allow", "deny"):
        raise ValueError(f"on_error must be allow or deny, not {on_error}")
    texts = [[{key: text(value) for key, value in entry.items()} for entry in entries] for entries in descriptors]
    try:
        answer = await client.post(URL, json={"domain": domain, "descriptors": texts})
        # The content of a request can cause 400 and 413, so the request is denied regardless of on_error.
        denial = JSONResponse({"error": "too many requests"}, 429) if answer.status_code in (400, 413, 429) else None
        if answer.status_code in (200, 429):
            return denial, {name: value for name, value in answer.headers.items() if name.startswith("ratelimit") or name == "retry-after"}
        logging.error("Weir answers %s: %s", answer.status_code, answer.text)
        if denial:
            return denial, {}
    except httpx.HTTPError as error:
        logging.error("Weir does not answer: %r", error)
    return JSONResponse({"error": "try again later"}, 503) if on_error == "deny" else None, {}


def text(value):
    """Converts a value to a string, the only type that Weir accepts. A client cannot pass by sending another type."""
    value = value if isinstance(value, str) else json.dumps(value, default=str, separators=(",", ":"))
    return value.encode("utf-8", "replace").decode()
