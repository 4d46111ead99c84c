"""An OpenAI-style client that slows down before it is refused, and retries a 429.

python examples/llm/limiter_openai.py http://127.0.0.1:4000/v1     # any such service
"""

import os
import sys
import time

import httpx
from openai import OpenAI

from headgate.openai import PacedTransport

MANY = 6


def main(url: str) -> None:
    """Ask a service as fast as its x-ratelimit headers let."""
    transport = PacedTransport(httpx.HTTPTransport())
    with httpx.Client(transport=transport) as http:
        client = OpenAI(
            base_url=url,
            api_key=os.environ.get("OPENAI_API_KEY", "none"),
            http_client=http,
            max_retries=0,  # the transport retries
        )
        began = time.monotonic()
        for _ in range(MANY):
            client.chat.completions.create(
                model="canal",
                messages=[{"role": "user", "content": "why do canals have gates?"}],
            )
        took_s = time.monotonic() - began
    pacing = transport.pacing
    print(
        f"{MANY} answers in {took_s:.1f} s, held {pacing.held} times, "
        f"{pacing.retried} retries"
    )


if __name__ == "__main__":
    main(sys.argv[1])
