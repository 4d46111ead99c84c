"""Agents that integrations make by themselves: one for each process and settings.

A framework calls an integration from many places, and none of them learns when the
process ends.  The agents leave the cluster when the process exits, as all agents do;
tests of an application close them with `close`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast
from weakref import WeakMethod

from headgate.agent.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headgate.agent.agent import Agent

_agents: dict[str, Agent] = {}
_closing: list[WeakMethod[Callable[[], None]]] = []
_making = threading.Lock()


def process_agent(options: Mapping[str, object]) -> Agent:
    """Return this process's agent with these arguments of `connect`.

    Raises:
        InvalidSetting: An argument is wrong.
        TypeError: `connect` has no such argument.
    """
    key = repr(sorted(options.items()))
    with _making:
        if key not in _agents:
            _agents[key] = cast("Callable[..., Agent]", connect)(**options)
        return _agents[key]


def before_close(method: Callable[[], None]) -> None:
    """Call a method in `close`, if its object still exists then."""
    with _making:
        _closing[:] = [known for known in _closing if known() is not None]
        _closing.append(WeakMethod(method))


def close() -> None:
    """Close the agents of this process; the next one asked for is a new one."""
    with _making:
        closing, agents = list(_closing), list(_agents.values())
        _closing.clear()
        _agents.clear()
    for reference in closing:
        method = reference()
        if method is not None:
            method()
    for agent in agents:
        agent.close()
