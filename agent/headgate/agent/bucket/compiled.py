"""What modules that can be compiled tell mypyc; nothing where they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    # mypyc reads the decorator from the source; it need not be there to run.
    def mypyc_attr(**_: object):
        """Return a decorator that changes nothing."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
