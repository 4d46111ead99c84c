"""JSON web tokens, valid if a key of the key set signed them.

Claims: ``sub`` (who), ``exp``, ``headgate_role``, and optionally for an operator
``headgate_tenants``.  Keys are asymmetric: whoever can check a token can't make one.
"""

import json
import logging
from pathlib import Path
from typing import cast

import jwt

from headgate.api.rights.principal import ROLES, Principal, Role
from headgate.api.rights.settings import RightsSettings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Accepted signatures; neither ``none`` nor a shared secret."""

LEEWAY_S = 30
"""Tolerated difference between the issuer's clock and ours, seconds."""

ROLE_CLAIM = "headgate_role"
TENANTS_CLAIM = "headgate_tenants"

FETCH_TIMEOUT_S = 5
"""For a key set at a URL; while it can't be fetched, its tokens are invalid."""

_log = logging.getLogger(__name__)


def check_key_set(settings: RightsSettings) -> None:
    """Check that the key set can be read, if it is in a file.

    Raises:
        OSError: The file can't be read.
        ValueError: It is not a key set.
    """
    if settings.key_set is not None:
        KeySet(settings)


class KeySet:
    """The keys that sign valid tokens, from a file or a URL."""

    def __init__(self, settings: RightsSettings) -> None:
        """Read the key set of `settings`.

        Raises:
            OSError: The file can't be read.
            ValueError: It is not a key set.
        """
        self._settings = settings
        self._client: jwt.PyJWKClient | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}
        place = settings.key_set or ""
        if place.startswith(("https://", "http://")):
            self._client = jwt.PyJWKClient(place, timeout=FETCH_TIMEOUT_S)
            return
        try:
            found = jwt.PyJWKSet.from_dict(json.loads(Path(place).read_text("utf-8")))
        except (jwt.PyJWTError, TypeError, AttributeError) as error:
            raise ValueError(f"{place}: {error}") from error
        self._keys = {key.key_id: key for key in found.keys}

    def bearer(self, token: str) -> Principal | None:
        """Return the principal of `token`, or None if it is not valid."""
        try:
            key = self._key(token)
            if key is None:
                return None
            claims = cast("dict[str, object]", self._claims(token, key))
        except (jwt.PyJWTError, ValueError) as error:
            _log.debug("a token was refused: %s", type(error).__name__)
            return None
        role, name = claims.get(ROLE_CLAIM), claims["sub"]
        for known in ROLES:
            if role == known and isinstance(name, str):
                return _principal(name, known, claims)
        return None

    def _key(self, token: str) -> jwt.PyJWK | None:
        if self._client is not None:
            return self._client.get_signing_key_from_jwt(token)
        return self._keys.get(jwt.get_unverified_header(token).get("kid"))

    def _claims(self, token: str, key: jwt.PyJWK) -> object:
        settings = self._settings
        return jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            issuer=settings.issuer,
            audience=settings.audience,
            leeway=LEEWAY_S,
            options={
                "require": ["exp", "sub"],
                "verify_aud": settings.audience is not None,
            },
        )


def _principal(name: str, role: Role, claims: dict[str, object]) -> Principal | None:
    """Return the principal; tenants that can't be read make the token invalid."""
    tenants = claims.get(TENANTS_CLAIM)
    ends_at_s = float(str(claims["exp"])) + LEEWAY_S
    if tenants is None:
        return Principal(name=name, role=role, ends_at_s=ends_at_s)
    if not isinstance(tenants, list):
        return None
    named = frozenset(str(tenant) for tenant in cast("list[object]", tenants))
    return Principal(name=name, role=role, tenants=named, ends_at_s=ends_at_s)
