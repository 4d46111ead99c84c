"""The hands: enforces in a process, reports to the others, follows the API.

::

    agent = connect("http://127.0.0.1:8080")
    limiter = agent.limiter(tenant="acme")
    decision = limiter.try_acquire(requests=1)
"""

from headgate.agent.agent import Agent as Agent
from headgate.agent.agent import AgentStatus as AgentStatus
from headgate.agent.connect import connect as connect
from headgate.agent.connect import connect_async as connect_async
from headgate.agent.decision import Decision as Decision
from headgate.agent.decision import Partial as Partial
from headgate.agent.decision import Refusal as Refusal
from headgate.agent.errors import AgentClosed as AgentClosed
from headgate.agent.errors import HeadgateError as HeadgateError
from headgate.agent.errors import Throttled as Throttled
from headgate.agent.limiter.limiter import Limiter as Limiter
