from fastapi import FastAPI

from limit import Limit

app = FastAPI()
app.add_middleware(Limit, domain="shop", describe=lambda request: [[{"remote_address": request.client.host}]])


@app.get("/")
async def hello():
    return "hello"
