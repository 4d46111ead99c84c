"""LangChain: `HeadgateRateLimiter` for a chat model's ``rate_limiter``.

See `headgate.agent.integrations.llm.langchain`.
"""

from headgate.agent.integrations.llm.langchain import (
    HeadgateRateLimiter as HeadgateRateLimiter,
)
