"""Asks Weir before a request goes on."""
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
    """`describe` says what of a request is counted."""

    def __init__(self, app, domain, describe):
        super().__init__(app)
        self.domain, self.describe = domain, describe

    async def dispatch(self, request, call_next):
        answer = await check({"domain": self.domain, "descriptors": self.describe(request)})
        if answer is None:
            return await call_next(request)
        refused = answer.status_code == 429
        response = JSONResponse({"error": "too many requests"}, 429) if refused else await call_next(request)
        told = {name: value for name, value in answer.headers.items() if name.startswith("ratelimit") or name == "retry-after"}
        response.headers.update(told)
        return response


async def check(question):
    """None where nobody can say: the request passes."""
    try:
        answer = await client.post(URL, json=question)
        if answer.status_code in (200, 429):
            return answer
        logging.error("Weir answers %s: %s", answer.status_code, answer.text)
    except httpx.HTTPError as error:
        logging.error("Weir does not answer: %r", error)
