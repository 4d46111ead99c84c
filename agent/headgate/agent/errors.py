"""The failures of an agent, one tree: each says whose fault it is and what to do.

::

    HeadgateError
    ├── MalformedReport     bytes on the bus that are no report: the sender's fault;
    │                       dropped and counted, never shown to a caller
    ├── MalformedSnapshot   a configuration that can't be read: the API's fault, or
    │                       that of a file on disk; the last good one stays in force
    ├── BusUnavailable      the settings of a bus, or a library that it needs, are
    │                       wrong: the operator's fault; raised when it is opened
    ├── AgentClosed         a limiter was asked for after close(): the caller's fault
    ├── CallerError         the call is wrong: the caller's fault; change the code
    │   ├── InvalidSetting      of connect(): an address, an id, a policy
    │   ├── InvalidCost         negative, not a number, above 2**53
    │   ├── InvalidDimension    not an identifier, or too many different ones
    │   ├── InvalidSubject      a name that can't be resolved
    │   └── AlreadySettled      a reservation that was settled or returned before
    └── Throttled           a quota refuses: nobody's fault; come back later

A refusal is not a failure: it is a `Decision`.  `Throttled` carries one, and is
raised only where a value has no place, such as in a decorated function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.decision import Decision


class HeadgateError(Exception):
    """Anything that Headgate raises on purpose."""


class MalformedReport(HeadgateError, ValueError):
    """Bytes that are no report, or a report that can't be put into bytes."""


class MalformedSnapshot(HeadgateError, ValueError):
    """A snapshot of the configuration that can't be read; says where and why."""


class BusUnavailable(HeadgateError):
    """A bus can't be opened as it is configured; says what to change."""


class AgentClosed(HeadgateError):
    """The agent was closed, or could not be carried across a fork."""


class CallerError(HeadgateError, ValueError):
    """The call is wrong; the message says what was expected."""


class InvalidSetting(CallerError):
    """What `connect` was given can't be: an address, an id, a token, a policy."""


class InvalidCost(CallerError):
    """A cost is negative, not a number, or above 2**53."""


class InvalidDimension(CallerError):
    """A dimension is not an identifier, or there are too many of them."""


class InvalidSubject(CallerError):
    """A tenant, namespace, topic or entity has a name that can't be resolved."""


class AlreadySettled(CallerError):
    """A reservation that was settled, cancelled or returned is settled again."""


class Throttled(HeadgateError):
    """A quota refuses.

    Attributes:
        decision: Which limit refused, and when to come back.
    """

    def __init__(self, decision: Decision) -> None:
        super().__init__(str(decision))
        self.decision = decision
