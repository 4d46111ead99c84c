"""A gRPC server that answers RESOURCE_EXHAUSTED, and a client that is told when.

python examples/services/limiter_grpc.py [URL of the API]
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import headgate
from headgate.grpc import Call, LimitInterceptor

grpc: Any = import_module("grpc")


def who(call: Call) -> dict[str, str | None]:
    """Return the subject of a call."""
    return {"tenant": call.metadata.get("tenant", "anonymous")}


def echo(request: bytes, _: object) -> bytes:
    """Answer with the request."""
    return request


def main(url: str) -> None:
    """Serve, and call until it is refused."""
    with headgate.connect(url) as agent:
        server = grpc.server(
            ThreadPoolExecutor(4), interceptors=[LimitInterceptor(agent, subject=who)]
        )
        handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("example.Echo", handlers)]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/example.Echo/Echo")
            for number in range(100):
                try:
                    call(b"hello", metadata=(("tenant", "acme"),))
                except grpc.RpcError as error:
                    trailers = dict(error.trailing_metadata())
                    print(f"call {number}: {error.details()}")
                    time.sleep(int(trailers["retry-after-ms"]) / 1e3)
        server.stop(None).wait()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
