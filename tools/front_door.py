"""Headgate: one quota for a whole cluster, enforced in every process.

``agent = headgate.connect(url)``, ``limiter = agent.limiter(tenant="acme")``,
``limiter.try_acquire(requests=1)``.  Names are loaded when they are first used,
so that a Spark worker or the coordinator alone never imports a bus.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent import Agent as Agent
    from headgate.agent import Decision as Decision
    from headgate.agent import HeadgateError as HeadgateError
    from headgate.agent import Limiter as Limiter
    from headgate.agent import connect as connect
    from headgate.agent import connect_async as connect_async

__all__ = [
    "Agent",
    "Decision",
    "HeadgateError",
    "Limiter",
    "connect",
    "connect_async",
]


def __getattr__(name: str) -> object:
    """Return the agent's public name `name`, importing it on first use."""
    if name not in __all__:
        message = f"module 'headgate' has no attribute {name!r}"
        raise AttributeError(message)
    from headgate import agent

    value: object = getattr(agent, name)
    globals()[name] = value
    return value
