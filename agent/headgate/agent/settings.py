"""Checks the arguments of `connect` before anything starts.

A wrong setting found later, in a thread, would leave a process that limits nothing
and says so only in a log.  An API that is unreachable is not a wrong setting.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Literal, TypeGuard, get_args

from headgate.agent.errors import InvalidSetting
from headgate.agent.http_connection import EXPECTED_URL, address_of
from headgate.agent.names import is_unicode, is_visible_ascii
from headgate.agent.wire.bounds import MAX_WEIGHT

if TYPE_CHECKING:
    import os

WithoutConfiguration = Literal["admit", "refuse"]
"""What happens to attempts before the first configuration."""

LONGEST_AGENT = 200
"""Longest id, characters: reports carry 256, and a fork appends its process id."""

LONGEST_TOKEN = 4_096
"""Longest token, characters; servers refuse longer headers."""

LONGEST_SHOWN = 60
"""Most characters of a wrong value in an error."""


def check_url(url: object) -> None:
    """Raise for what can't be the address of an API, whether or not it answers."""
    expected = "an address such as http://127.0.0.1:8080"
    if not isinstance(url, str) or not is_unicode(url):
        raise _wrong("url", expected, url)
    try:
        address_of(url)
    except ValueError as error:
        why = "" if str(error) == EXPECTED_URL else f" ({error})"
        raise _wrong("url", f"{expected}{why}", url) from None


def check_settings(given: Mapping[str, object]) -> None:
    """Raise for settings that no agent can have.

    Args:
        given: By their names as arguments of `connect`; others are ignored.

    Raises:
        InvalidSetting: Says which one, and what was expected.
    """
    agent, token, wait_s = given["agent"], given["token"], given["wait_s"]
    without_configuration = given["without_configuration"]
    weight, strict, bus_options = given["weight"], given["strict"], given["bus_options"]
    if not _is_header(agent, LONGEST_AGENT):
        raise _wrong("agent", f"1 to {LONGEST_AGENT} visible ASCII characters", agent)
    if token:
        check_token(token)
    policies = get_args(WithoutConfiguration)
    if without_configuration not in policies:
        raise _wrong(
            "without_configuration",
            f"one of {', '.join(policies)}",
            without_configuration,
        )
    if not _is_number(weight) or not 0.0 < weight <= MAX_WEIGHT:
        raise _wrong("weight", f"a number > 0, at most {MAX_WEIGHT:g}", weight)
    if wait_s is not None and not (_is_number(wait_s) and 0.0 <= wait_s <= TIMEOUT_MAX):
        raise _wrong("wait_s", "a finite number of seconds >= 0, or None", wait_s)
    if not isinstance(strict, bool):
        raise _wrong("strict", "True or False", strict)
    if bus_options is not None and not isinstance(bus_options, Mapping):
        raise InvalidSetting("bus_options: expected a mapping from name to value")


def check_threads() -> None:
    """Raise InvalidSetting where gevent has replaced threads.

    An agent's thread waits in ZeroMQ and in Kafka's client, which would stop all
    greenlets, and `connect` for ever.
    """
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        raise InvalidSetting(
            "threading: expected threads of the operating system, got gevent's; use"
            " gthread workers of gunicorn, or gevent.monkey.patch_all(thread=False,"
            " queue=False)"
        )


def check_token(token: object) -> None:
    """Raise InvalidSetting for what can't be a token."""
    if not _is_header(token, LONGEST_TOKEN):
        # The value is not shown: messages end up in logs.
        raise InvalidSetting(
            f"token: expected 1 to {LONGEST_TOKEN} visible ASCII characters"
        )


def check_timeout(timeout_s: object) -> None:
    """Raise InvalidSetting for what can't be the longest wait for an answer."""
    if not (_is_number(timeout_s) and 0.0 < timeout_s <= TIMEOUT_MAX):
        raise _wrong("timeout_s", "a finite number of seconds > 0", timeout_s)


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of the snapshot; raises InvalidSetting if it is not a path."""
    try:
        checked = Path(path)
    except TypeError:
        raise _wrong("snapshot_path", "a path", path) from None
    if "\0" in str(checked) or not is_unicode(str(checked)):
        raise _wrong("snapshot_path", "a path", path)
    return checked


def _is_header(value: object, longest: int) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= longest and is_visible_ascii(value)
    )


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # 10**400
        return False


def _wrong(name: str, expected: str, got: object) -> InvalidSetting:
    return InvalidSetting(f"{name}: expected {expected}, got {got!r:.{LONGEST_SHOWN}}")
