"""The last field of a report: a CRC-32 of all bytes before it.

A byte that was flipped on the way would else pass for another agent's name, or for
a counter that is a thousand higher.  A report without the field is taken as it is: a
writer in another language may leave it out where its bus checks by itself.
"""

from __future__ import annotations

import zlib

from headgate.agent.errors import MalformedReport

TAG = b"\x85\x01"
"""Field 16, four bytes: the highest number, so that it is serialized last."""

SIZE = len(TAG) + 4
"""Bytes that the field takes."""


def sealed(payload: bytes) -> bytes:
    """Return `payload` with its checksum appended as the field ``checksum``."""
    return payload + TAG + zlib.crc32(payload).to_bytes(4, "little")


def stripped(payload: bytes) -> bytes:
    """Return `payload` without its checksum, if it ends with one."""
    return payload[:-SIZE] if payload[-SIZE:-4] == TAG else payload


def check(payload: bytes) -> None:
    """Refuse a payload that ends with a checksum of something else.

    Raises:
        MalformedReport: It was changed on the way.
    """
    if payload[-SIZE:-4] != TAG:
        return
    if zlib.crc32(payload[:-SIZE]) != int.from_bytes(payload[-4:], "little"):
        raise MalformedReport("checksum: the bytes were changed on the way")
