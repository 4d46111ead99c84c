"""The module beside a LiteLLM proxy's configuration that limits it with the others.

    model_list: [...]
    litellm_settings:
      callbacks: limiter_litellm.limiter

headgate apply -f quotas.yaml, with a tenant for each team, a user for each user, a
client for each key and the topic litellm/models/NAME for each model.
"""

import os

import headgate
from headgate.litellm import LiteLLMLimiter

agent = headgate.connect(os.environ.get("HEADGATE_URL", "http://127.0.0.1:8080"))
limiter = LiteLLMLimiter(agent)
