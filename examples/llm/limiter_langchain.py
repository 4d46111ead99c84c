"""A LangChain model under a quota of requests that all processes share.

headgate up                                # elsewhere
python examples/llm/limiter_langchain.py
"""

import os
import time

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import headgate
from headgate.langchain import HeadgateRateLimiter

MANY = 20


def main() -> None:
    """Ask a model, as fast as the quota lets."""
    url = os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080")
    with headgate.connect(url) as agent:
        model = GenericFakeChatModel(
            messages=iter(AIMessage(f"answer {n}") for n in range(MANY)),
            rate_limiter=HeadgateRateLimiter(agent.limiter(tenant="acme")),
        )
        began = time.monotonic()
        answers = [model.invoke("why do canals have gates?") for _ in range(MANY)]
        print(f"{len(answers)} answers in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
