"""OpenAI-style clients: transports that heed ``x-ratelimit-*`` and 429.

See `headgate.agent.integrations.llm.openai_transport`.
"""

from headgate.agent.integrations.llm.openai_transport import (
    AsyncPacedTransport as AsyncPacedTransport,
)
from headgate.agent.integrations.llm.openai_transport import (
    PacedTransport as PacedTransport,
)
from headgate.agent.integrations.llm.openai_transport import Pacing as Pacing
