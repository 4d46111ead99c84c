"""The caller, as far as rights are concerned."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["admin", "operator", "viewer", "agent"]

ROLES: tuple[Role, ...] = get_args(Role)
"""``admin`` may do everything, ``operator`` change things, of all or of named tenants,
``viewer`` read, ``agent`` follow the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller whose token is valid.

    Attributes:
        name: Subject of the token, for the audit.
        role: What the token is for.
        tenants: An operator's tenants; None for all.
        ends_at_s: When the token ends, seconds since the epoch; None for never.
    """

    name: str
    role: Role
    tenants: frozenset[str] | None = None
    ends_at_s: float | None = None


ANYONE = Principal(name="anonymous", role="admin")
"""The caller while rights are off; the server then listens on loopback only."""
