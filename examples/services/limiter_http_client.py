"""An HTTP client that comes back when it is told to, until its deadline (KIP-599).

python examples/services/limiter_http_client.py URL
"""

import sys

import httpx

from headgate.httpx import RetryThrottled


def main(url: str) -> None:
    """Ask fifty times; each answer comes, however often it was throttled."""
    transport = RetryThrottled(httpx.HTTPTransport(), deadline_s=30.0)
    with httpx.Client(transport=transport, headers={"X-Tenant": "acme"}) as client:
        codes = [client.get(url).status_code for _ in range(50)]
    print(f"{codes.count(200)} of {len(codes)} answered, {transport.retried} retries")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8001/")
