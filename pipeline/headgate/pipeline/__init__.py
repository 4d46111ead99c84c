"""Spark on the usage topic: a streaming job, batch jobs on its tables, a report.

What stands here is public, as ``headgate.pipeline.TableStore`` and so on; where a thing
is defined may change.  Names are loaded when they are first used: a Spark worker
imports only what its functions need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.pipeline.configured.history import (
        ConfigurationFile as ConfigurationFile,
    )
    from headgate.pipeline.configured.history import (
        ConfigurationTable as ConfigurationTable,
    )
    from headgate.pipeline.configured.limits_frame import limited as limited
    from headgate.pipeline.configured.limits_frame import limits_frame as limits_frame
    from headgate.pipeline.jobs.recommend import recommend as recommend
    from headgate.pipeline.jobs.whatif import what_if as what_if
    from headgate.pipeline.stream.session import local_session as local_session
    from headgate.pipeline.tables.filesystem import uri_of as uri_of
    from headgate.pipeline.tables.store import TableStore as TableStore

_HOMES = {
    "ConfigurationFile": "configured.history",
    "ConfigurationTable": "configured.history",
    "TableStore": "tables.store",
    "limited": "configured.limits_frame",
    "limits_frame": "configured.limits_frame",
    "local_session": "stream.session",
    "recommend": "jobs.recommend",
    "uri_of": "tables.filesystem",
    "what_if": "jobs.whatif",
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    """Return the public name `name`, importing it on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names too that nobody has used yet."""
    return sorted({*globals(), *_HOMES})
