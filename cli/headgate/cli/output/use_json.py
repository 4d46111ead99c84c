"""The use of a limit as the API's JSON tells it."""

from __future__ import annotations

from typing import TypedDict


class AgentJson(TypedDict, total=False):
    """One agent's part of a limit, in the API's JSON."""

    agent: str
    demand: float
    share: float | None
    admitted: float
    refused: float
    held: float
    state: str


class UseJson(TypedDict, total=False):
    """One limit of a group in use, in the API's JSON."""

    dimension: str
    rate: float | str
    period_s: float
    period: str | None
    level: float | None
    agents: list[AgentJson]
