from typing import Any

from fastapi import Body, FastAPI

from limit import Limit


def visit(request):
    return [[{"remote_address": request.client.host}]] if request.method == "GET" else []


async def login(request):
    """Counts the account and the address. The handler can read the body again."""
    if (request.method, request.url.path) != ("POST", "/login"):
        return []
    try:
        user = (await request.json()).get("user")
    except (ValueError, AttributeError):
        user = None
    return [[{"login_name": user}], [{"page": "login"}, {"remote_address": request.client.host}]]


app = FastAPI()
app.add_middleware(Limit, domain="shop", describe=visit)
# While Weir is unavailable, no client can try passwords.
app.add_middleware(Limit, domain="login-throttling", describe=login, on_error="deny")


@app.get("/")
async def hello():
    return "hello"


@app.post("/login")
async def welcome(user: Any = Body(None, embed=True)):
    return "welcome"
