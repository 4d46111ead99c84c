"""A server's settings for rights."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsSettings:
    """Whether tokens are required, and which ones are valid.

    Attributes:
        required: Ask for a bearer token on every request but the page's files,
            the documentation and `/healthz`.
        key_set: Path or ``https://`` URL of a JWKS whose keys sign valid tokens;
            None for opaque tokens only.
        issuer: Required issuer of JWTs; None for any.
        audience: Required audience of JWTs; None for any.
        trust_network: Serve other machines although `required` is off.
        allowed_hosts: Names besides those of this machine that a `Host` header may
            have while `required` is off and the network is not trusted.
    """

    required: bool = False
    key_set: str | None = None
    issuer: str | None = None
    audience: str | None = None
    trust_network: bool = False
    allowed_hosts: tuple[str, ...] = ()
