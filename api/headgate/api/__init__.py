"""The REST service: groups, attachments, the snapshot that agents follow."""

from headgate.api.rights.settings import RightsSettings
from headgate.api.server import run, running
from headgate.api.settings import Addresses, CannotStart, ServerSettings
from headgate.api.tokens.offline import create_token

__all__ = [
    "Addresses",
    "CannotStart",
    "RightsSettings",
    "ServerSettings",
    "create_token",
    "run",
    "running",
]
