"""requests and aiohttp clients that retry when the service says so.

python examples/services/limiter_clients.py http://127.0.0.1:8001/  # limiter_asgi.py
"""

import asyncio
import sys

import aiohttp
import requests

from headgate.aiohttp import RetryThrottledMiddleware
from headgate.requests import RetryThrottledAdapter

HEADERS = {"X-Tenant": "acme"}


def with_requests(url: str, many: int) -> str:
    """Send requests one after the other."""
    adapter = RetryThrottledAdapter()
    with requests.Session() as session:
        session.mount("http://", adapter)
        answers = [session.get(url, headers=HEADERS).status_code for _ in range(many)]
    return f"requests: {answers.count(200)} of {many}, {adapter.retried} retries"


async def with_aiohttp(url: str, many: int) -> str:
    """Send requests all at once."""
    retry = RetryThrottledMiddleware()
    async with aiohttp.ClientSession(middlewares=(retry,), headers=HEADERS) as session:

        async def get() -> int:
            async with session.get(url) as response:
                return response.status

        answers = await asyncio.gather(*(get() for _ in range(many)))
    return f"aiohttp: {answers.count(200)} of {many}, {retry.retried} retries"


if __name__ == "__main__":
    print(with_requests(sys.argv[1], 20))
    print(asyncio.run(with_aiohttp(sys.argv[1], 20)))
