"""Asks a limiter as Python's grpcio does, and prints what it was told as one line of JSON.

Arguments: target, file of the authority ('' without TLS), request in hexadecimal.
"""

import json
import sys

import grpc

target, ca_file, request_hex = sys.argv[1:]
request = bytes.fromhex(request_hex)
SERVICE = "/envoy.service.ratelimit.v3.RateLimitService/"
HEALTH = "/grpc.health.v1.Health/"
AT_ONCE = 300


def as_is(message):
    return message


def open_channel():
    if ca_file == "":
        return grpc.insecure_channel(target)
    with open(ca_file, "rb") as file:
        return grpc.secure_channel(target, grpc.ssl_channel_credentials(file.read()))


def refusal(method, **options):
    """Status and message of a call that is not answered."""
    try:
        method(request, **options)
    except grpc.RpcError as error:
        return [error.code().name, error.details()]
    return ["OK", ""]


with open_channel() as channel:

    def unary(path):
        return channel.unary_unary(path, request_serializer=as_is, response_deserializer=as_is)

    ask = unary(SERVICE + "ShouldRateLimit")
    answers = [ask(request, timeout=20).hex() for _ in range(4)]
    metadata = (("x-request-id", "1"), ("trace-bin", b"\x00\xff"))
    _, call = ask.with_call(request, timeout=20, metadata=metadata)
    futures = [ask.future(request, timeout=20) for _ in range(AT_ONCE)]
    watch = channel.unary_stream(HEALTH + "Watch", request_serializer=as_is, response_deserializer=as_is)
    watching = watch(b"", timeout=20)
    first_health = next(watching).hex()
    watching.cancel()
    print(
        json.dumps(
            {
                "answers": answers,
                "status": call.code().name,
                "at_once": len([future.result() for future in futures]),
                "health": unary(HEALTH + "Check")(b"", timeout=20).hex(),
                "watched": first_health,
                "unknown": refusal(unary(SERVICE + "Nothing"), timeout=20),
                "compressed": refusal(ask, timeout=20, compression=grpc.Compression.Gzip),
                "malformed": refusal(
                    channel.unary_unary(SERVICE + "ShouldRateLimit", request_serializer=lambda _: b"\xff"),
                    timeout=20,
                ),
            }
        )
    )
