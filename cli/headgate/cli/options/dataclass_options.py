"""Options that belong together, written once as a dataclass for many commands.

A parameter whose type is a dataclass becomes one option per field, and the command is
called with an instance of it.  So `headgate attach` and `headgate detach` share seven
options for subjects without listing them twice.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from headgate.cli.options.common import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with each dataclass parameter spread into options.

    A command with an `Api` parameter runs inside `Api.understood`. Fields keep their
    types, which define how they are written, and their defaults. Parameters and fields
    must all have different names.
    """
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    groups = {
        name: kind
        for name, kind in hints.items()
        if isinstance(kind, type) and is_dataclass(kind)
    }
    parameters = list(_spread(command, hints, groups))

    def spread_command(**given: object) -> None:
        for name, kind in groups.items():
            given[name] = kind(
                **{one.name: given.pop(one.name) for one in fields(kind)}
            )
        api = next((one for one in given.values() if isinstance(one, Api)), None)
        with nullcontext() if api is None else api.understood():
            command(**given)

    spread_command.__name__ = command.__name__
    spread_command.__doc__ = command.__doc__
    spread_command.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(spread_command)["__signature__"] = inspect.Signature(parameters)
    return spread_command


def _spread(
    command: Callable[..., None], hints: dict[str, Any], groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    """Yield the parameters of the spread command, all keyword-only."""
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            kinds = get_type_hints(groups[name], include_extras=True)
            for one in fields(groups[name]):
                default = inspect.Parameter.empty
                if one.default is not MISSING:
                    default = one.default
                yield _keyword(one.name, default, kinds[one.name])
        else:
            yield _keyword(name, parameter.default, hints[name])


def _keyword(name: str, default: object, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
