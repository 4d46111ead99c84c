"""What compilable modules tell mypyc; it has no effect where they are not compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    # mypyc reads the decorator from the source; at run time it does nothing.
    def mypyc_attr(**_: object):
        """Return a decorator that changes nothing."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
