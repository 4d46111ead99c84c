"""What the agents of one running service follow: revisions, snapshots, each other."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from headgate.api.live.liveness import Presence
from headgate.api.snapshot.service import Snapshots
from headgate.api.watch import RevisionWatch


@dataclass(frozen=True, slots=True)
class Following:
    """What blocking queries of agents wait for, and are answered from.

    Attributes:
        watch: Who waits for the next revision.
        snapshots: The newest snapshot.
        presence: Which agents ask, and which have gone.
    """

    watch: RevisionWatch
    snapshots: Snapshots
    presence: Presence


def following_of(request: Request) -> Following:
    """Return what the application of `request` lets agents follow."""
    return cast("Following", request.app.state.following)


FollowingOf = Annotated[Following, Depends(following_of)]
