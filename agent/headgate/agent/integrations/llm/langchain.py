"""LangChain: a rate limiter whose quota is that of the whole cluster.

::

    limiter = HeadgateRateLimiter(agent.limiter(tenant="acme"))
    model = init_chat_model("gpt-4o-mini", rate_limiter=limiter)

LangChain asks before each request and reports nothing afterwards, so this is for
requests per minute.  For tokens, reserve and settle (`Limiter.reserve`), or limit at
the gateway.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from langchain_core.rate_limiters import BaseRateLimiter

from headgate.agent.errors import Throttled
from headgate.agent.integrations.web.answers import ONE_REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headgate.agent.decision import Decision
    from headgate.agent.limiter.limiter import Limiter


class HeadgateRateLimiter(BaseRateLimiter):
    """Waits in the limiter's fair queue, or says at once whether it would have to."""

    def __init__(
        self,
        limiter: Limiter,
        *,
        timeout_s: float = inf,
        costs: Mapping[str, float] = ONE_REQUEST,
    ) -> None:
        """Prepare.

        Args:
            limiter: Its quota applies.
            timeout_s: Longest wait of a blocking request.
            costs: Units by dimension that each request costs.
        """
        self._limiter = limiter
        self._timeout_s = timeout_s
        self._costs = dict(costs)

    def acquire(self, *, blocking: bool = True) -> bool:
        """Charge a request; wait for it if `blocking`.

        Raises:
            Throttled: The wait was in vain; LangChain ignores what a blocking call
                returns.
        """
        wait_s = self._timeout_s if blocking else 0.0
        decision = self._limiter.wait(timeout_s=wait_s, **self._costs)
        return _answered(decision, blocking=blocking)

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Do what `acquire` does without blocking the event loop.

        Raises:
            Throttled: The wait was in vain.
        """
        wait_s = self._timeout_s if blocking else 0.0
        decision = await self._limiter.wait_async(timeout_s=wait_s, **self._costs)
        return _answered(decision, blocking=blocking)


def _answered(decision: Decision, *, blocking: bool) -> bool:
    if blocking and not decision:
        raise Throttled(decision)
    return bool(decision)
