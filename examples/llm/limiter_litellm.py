"""LiteLLM under quotas that all proxies and processes share.

For a proxy, this is the module beside its configuration:

    model_list: [...]
    litellm_settings:
      callbacks: limiter_litellm.limiter

headgate apply -f quotas.yaml, with a tenant for each team, a user for each user, a
client for each key and the topic litellm/models/NAME for each model.

For LiteLLM's library alone, run it: it asks a mock model, offline.

headgate up                                # elsewhere
python examples/llm/limiter_litellm.py
"""

import asyncio
import os

import headgate
from headgate.litellm import LiteLLMLimiter

MANY = 30

agent = headgate.connect(os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080"))
limiter = LiteLLMLimiter(agent)


async def main() -> None:
    """Ask a model for the team acme until the team's quota is used up."""
    import litellm

    litellm.callbacks = [limiter]
    answered = refused = 0
    last = ""
    for _ in range(MANY):
        try:
            await litellm.acompletion(
                model="openai/gpt-4o-mini",
                messages=[{"role": "user", "content": "why do canals have gates?"}],
                mock_response="Water finds its own level.",
                metadata={"user_api_key_team_id": "acme"},  # as a proxy says it
            )
            answered += 1
        except litellm.RateLimitError as error:
            refused += 1
            last = f": {error}"
    print(f"{answered} answered, {refused} refused{last}")


if __name__ == "__main__":
    with agent:
        asyncio.run(main())
