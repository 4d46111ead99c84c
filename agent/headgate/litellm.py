"""LiteLLM: `LiteLLMLimiter` for the proxy's ``callbacks``.

See `headgate.agent.integrations.llm.litellm`.
"""

from headgate.agent.integrations.llm.litellm import GatewayCall as GatewayCall
from headgate.agent.integrations.llm.litellm import LiteLLMLimiter as LiteLLMLimiter
from headgate.agent.integrations.llm.litellm import default_subjects as default_subjects
