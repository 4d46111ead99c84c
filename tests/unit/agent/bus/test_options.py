"""What the options of a bus refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headgate.agent.bus.options import resolved
from headgate.agent.bus.port import BusSettings
from headgate.agent.errors import BusUnavailable

if TYPE_CHECKING:
    from pathlib import Path


KEY = ".F3raa0z2JHg>1i/16{Vfn5(Id^qoGrVa9Vab!%"
"""All but the first character of a CURVE key."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"Z{KEY}\n", f"Z{KEY}"),
        (f"[{KEY}\n", f"[{KEY}"),
        (f"{{{KEY}\n", f"{{{KEY}"),
        (" secret \n", "secret"),
        ('{"web": "key"}', {"web": "key"}),
        ('[\n "a",\n "b"\n]\n', ["a", "b"]),
    ],
)
def test_a_file_is_json_or_the_text_of_a_secret(
    tmp_path: Path, text: str, value: object
) -> None:
    file = tmp_path / "option"
    file.write_text(text, encoding="utf-8")
    assert resolved(referring(file)).options == {"key": value}


@pytest.mark.parametrize("content", [b'{\n "web": "key"', b"\xff\xfe"])
def test_what_is_neither_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "option"
    file.write_bytes(content)
    with pytest.raises(BusUnavailable, match=f"key: {file}: "):
        resolved(referring(file))


def referring(file: Path) -> BusSettings:
    """Settings with one option, the content of a file."""
    return BusSettings(kind="memory", options={"key": {"file": str(file)}})
