"""A client that is turned away tries again, whatever becomes of that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import zmq

from headgate.agent.bus.zeromq.curve import RETRY_S, Handshakes


def test_a_knock_that_fails_is_tried_again() -> None:
    class Refusing(zmq.Socket[bytes]):
        """A socket that refuses every address."""

        knocks = 0

        def connect(self, addr: str) -> Any:
            """Count, and fail as ZeroMQ does."""
            Refusing.knocks += 1
            return super().connect(f"nothing://{addr}")

    with zmq.Context() as context, Refusing(context, zmq.SUB) as socket:
        handshakes = Handshakes("", Counter())
        event = zmq.EVENT_HANDSHAKE_FAILED_AUTH
        handshakes._note(socket, "tcp://127.0.0.1:9", event, 400, 0.0)  # pyright: ignore[reportPrivateUsage]
        for turn in range(1, 4):
            handshakes.hear(turn * RETRY_S, ())
            handshakes.hear(turn * RETRY_S, ())
    assert Refusing.knocks == 3
