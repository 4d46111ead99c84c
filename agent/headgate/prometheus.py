"""The limits' metrics for a Prometheus client.

See `headgate.agent.integrations.prometheus`.
"""

from headgate.agent.integrations.prometheus import LimitCollector as LimitCollector
