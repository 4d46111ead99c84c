"""The REST service: groups, attachments, the snapshot that agents follow."""

import gc

_collecting = gc.isenabled()
gc.disable()  # importing makes hardly any garbage; looking for it takes a third of this
try:
    from headgate.api.rights.settings import RightsSettings
    from headgate.api.server import run, running
    from headgate.api.settings import Addresses, CannotStart, ServerSettings
    from headgate.api.tokens.offline import create_token, delete_token, list_tokens
finally:
    if _collecting:
        if not gc.get_freeze_count():
            # Together these make all objects old; else all were looked at right now.
            gc.freeze()
            gc.unfreeze()
        gc.enable()

__all__ = [
    "Addresses",
    "CannotStart",
    "RightsSettings",
    "ServerSettings",
    "create_token",
    "delete_token",
    "list_tokens",
    "run",
    "running",
]
