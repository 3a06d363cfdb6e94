from typing import Any

from fastapi import Body, FastAPI, Request

from limit import Limit, check

app = FastAPI()
app.add_middleware(Limit, domain="shop", describe=lambda request: [[{"remote_address": request.client.host}]])


@app.get("/")
async def hello():
    return "hello"


@app.post("/login")
async def login(request: Request, user: Any = Body(None, embed=True)):
    address = request.client.host
    descriptors = [[{"login_name": user}], [{"page": "login"}, {"remote_address": address}]]
    # Without Weir, nobody may try passwords.
    refusal, _ = await check("login-throttling", descriptors, on_error="deny")
    return refusal or "welcome"
