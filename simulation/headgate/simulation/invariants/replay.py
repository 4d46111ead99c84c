"""Determinism: some incarnations are recorded, and a replay must act the same."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from headgate.simulation.world.record import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headgate.coordinator import Effect, Event
    from headgate.simulation.controllers.controller import Birth, Controller
    from headgate.simulation.scenario.scenario import Scenario

MOST_STEPS = 20_000
"""Most steps recorded of one incarnation: about ten minutes."""


@dataclass(slots=True)
class RecordingController:
    """A controller that records its inputs and outputs.

    Attributes:
        controller: The one that does the work.
        birth: What it began with.
        steps: (now, event, wall clock, fingerprint of the effects).
    """

    controller: Controller
    birth: Birth
    steps: list[tuple[float, Event, float, bytes]] = field(
        default_factory=list["tuple[float, Event, float, bytes]"]
    )

    def step(self, now: float, event: Event, *, wall_s: float) -> list[Effect]:
        """Step the controller and record the step."""
        effects = self.controller.step(now, event, wall_s=wall_s)
        if len(self.steps) < MOST_STEPS:
            self.steps.append((now, event, wall_s, fingerprint(effects)))
        return effects


def check_replay(
    recorder: RecordingController,
    scenario: Scenario,
    make_controller: Callable[[Scenario, Birth], Controller],
) -> Iterator[Violation]:
    """Replay a recorded incarnation and yield the first difference."""
    controller = make_controller(scenario, recorder.birth)
    for now, event, wall_s, before in recorder.steps:
        effects = controller.step(now, event, wall_s=wall_s)
        if fingerprint(effects) != before:
            yield Violation(
                now,
                "deterministic",
                f"{recorder.birth.agent}: other effects of the same "
                f"{type(event).__name__}",
            )
            return


def fingerprint(value: object) -> bytes:
    """Return a digest of a value: dataclasses, sequences, arrays bit for bit."""
    digest = blake2b(digest_size=16)
    for piece in _pieces(value):
        digest.update(piece)
    return digest.digest()


def _pieces(value: object) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, (list, tuple)):
        for item in value:  # pyright: ignore[reportUnknownVariableType] (any values)
            yield from _pieces(item)  # pyright: ignore[reportUnknownArgumentType]
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _pieces(getattr(value, each.name))
    else:
        yield repr(value).encode()
