"""Asks a limiter as a client does that is compiled from limitador's proto file, and prints what it was told as JSON.

Arguments: target, folder of Envoy's proto files, an empty folder for what is compiled.
"""

import json
import os
import sys

import grpc
import grpc_tools
from grpc_tools import protoc

target, envoy_protos, compiled = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
google_protos = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
sources = ["kuadrantrls.proto"]
for folder, _, names in os.walk(os.path.join(envoy_protos, "envoy")):
    sources += [os.path.relpath(os.path.join(folder, name), envoy_protos) for name in names]
status = protoc.main(
    ["", f"-I{here}", f"-I{envoy_protos}", f"-I{google_protos}"]
    + [f"--python_out={compiled}", f"--grpc_python_out={compiled}"]
    + sources
)
if status != 0:
    sys.exit("the proto files were not compiled")
sys.path.insert(0, compiled)

import kuadrantrls_pb2 as messages  # noqa: E402
import kuadrantrls_pb2_grpc as service  # noqa: E402
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import RateLimitDescriptor  # noqa: E402
from envoy.service.ratelimit.v3.rls_pb2 import RateLimitRequest, RateLimitResponse  # noqa: E402
from google.protobuf.duration_pb2 import Duration  # noqa: E402

DOMAIN = "llm"
LARGE = 2**53 - 1
code_name = RateLimitResponse.Code.Name


def of(team):
    return [RateLimitDescriptor(entries=[RateLimitDescriptor.Entry(key="team", value=team)])]


with grpc.insecure_channel(target) as channel:
    stub = service.RateLimitServiceStub(channel)

    def check(team="a"):
        request = RateLimitRequest(domain=DOMAIN, descriptors=of(team), hits_addend=0)
        return code_name(stub.CheckRateLimit(request, timeout=20).overall_code)

    def report(hits, team="a"):
        request = RateLimitRequest(domain=DOMAIN, descriptors=of(team), hits_addend=hits)
        return code_name(stub.Report(request, timeout=20).overall_code)

    def reserve(amount, team="a", **more):
        request = messages.ReserveRequest(domain=DOMAIN, descriptors=of(team), amount=amount, **more)
        return stub.Reserve(request, timeout=20)

    def commit(reservation_id, actual, team="a"):
        request = messages.CommitRequest(
            domain=DOMAIN, descriptors=of(team), reservation_id=reservation_id, actual_amount=actual
        )
        return stub.Commit(request, timeout=20).reservation_released

    told = {"fresh": check()}
    first = reserve(60, ttl=Duration(seconds=30))
    second = reserve(60)
    told["reserved"] = [code_name(first.code), len(first.reservation_id)]
    told["refused"] = [code_name(second.code), second.reservation_id]
    # 60 are held: the same again is told the same, and counts nothing more.
    told["committed"] = [commit(first.reservation_id, 40), commit(first.reservation_id, 40)]
    rest = reserve(60)
    told["rest"] = code_name(rest.code)
    told["none_left"] = check()
    told["released"] = commit(rest.reservation_id, 0)
    told["left_again"] = check()
    told["reported"] = [report(50), commit("", 10), check()]
    told["beyond"] = [report(500), check()]
    told["nothing"] = code_name(reserve(0, team="b").code)
    told["unlimited"] = [code_name(reserve(5, team="").code), check(team="")]
    large = reserve(LARGE, team="large")
    told["large"] = [code_name(large.code), check(team="large")]
    told["large"] += [commit(large.reservation_id, LARGE - 1, team="large"), check(team="large")]
    try:
        reserve(LARGE + 1, team="large")
    except grpc.RpcError as error:
        told["too_large"] = [error.code().name, error.details()]
    print(json.dumps(told))
