"""The last field of a report: a CRC-32 of all bytes before it.

Without it, a byte flipped in transit could pass for another agent's name or a counter
a thousand higher.  A report without the field is accepted as it is: a writer in
another language may leave it out if its bus does its own checking.
"""

from __future__ import annotations

import zlib

from headgate.agent.errors import MalformedReport

TAG = b"\x85\x01"
"""Field 16, four bytes; the highest number, so that it is serialized last."""

SIZE = len(TAG) + 4
"""Size of the field in bytes."""


def sealed(payload: bytes) -> bytes:
    """Return `payload` with its checksum appended as the field ``checksum``."""
    return payload + TAG + zlib.crc32(payload).to_bytes(4, "little")


def stripped(payload: bytes) -> bytes:
    """Return `payload` without its checksum, if it ends with one."""
    return payload[:-SIZE] if payload[-SIZE:-4] == TAG else payload


def check(payload: bytes) -> None:
    """Raise if a payload ends with a checksum that is not its own.

    Raises:
        MalformedReport: The payload was changed in transit.
    """
    if payload[-SIZE:-4] != TAG:
        return
    if zlib.crc32(payload[:-SIZE]) != int.from_bytes(payload[-4:], "little"):
        raise MalformedReport("checksum: the bytes were changed in transit")
