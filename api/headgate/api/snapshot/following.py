"""What the agents of one running service follow: revisions, snapshots, each other."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from headgate.api.live.liveness import Presence
from headgate.api.snapshot.service import Snapshots
from headgate.api.watch import RevisionWatch


@dataclass(frozen=True, slots=True)
class Following:
    """The state that agents' blocking queries wait for and are answered from.

    Attributes:
        watch: Requests that wait for the next revision.
        snapshots: The newest snapshot.
        presence: The agents that ask, and those that have gone.
    """

    watch: RevisionWatch
    snapshots: Snapshots
    presence: Presence


def following_of(request: Request) -> Following:
    """Return what agents follow in the application that serves `request`."""
    return cast("Following", request.app.state.following)


FollowingOf = Annotated[Following, Depends(following_of)]
