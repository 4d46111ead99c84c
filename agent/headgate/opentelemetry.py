"""The limits' metrics for OpenTelemetry.

See `headgate.agent.integrations.opentelemetry`.
"""

from headgate.agent.integrations.opentelemetry import observe_limits as observe_limits
