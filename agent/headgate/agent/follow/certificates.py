"""The certificate authorities that an agent trusts when the API speaks TLS."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from headgate.agent.errors import InvalidSetting

if TYPE_CHECKING:
    import os


def trusting(ca_file: str | os.PathLike[str]) -> ssl.SSLContext:
    """Return a context that trusts only the authorities of a PEM file.

    Raises:
        InvalidSetting: The file can't be read, or holds no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise InvalidSetting(
            f"ca_file: expected PEM certificates in {ca_file!s}"
        ) from error
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InvalidSetting(f"ca_file: {ca_file!s:.60}: {reason}") from error
