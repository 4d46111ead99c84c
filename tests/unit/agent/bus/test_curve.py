"""A client that is turned away tries again; the keys that may enter are followed."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import zmq

from headgate.agent.bus.zeromq.curve import RETRY_S, Handshakes, KnownClients

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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


def test_a_list_of_keys_that_can_not_be_read_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, key = tmp_path / "keys.json", zmq.curve_keypair()[0]
    path.write_text(json.dumps([key.decode()]))
    known = KnownClients({"file": str(path)})

    def said() -> int:
        return caplog.text.count("keeping the previous keys")

    for times in (1, 2):
        path.write_text("[")
        assert all(key in known for _ in range(3))
        assert said() == times
        path.write_text(json.dumps([key.decode()]))
        assert key in known
