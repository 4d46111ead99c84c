"""The errors of an agent, as one tree; each says whose fault it is and what to do.

::

    HeadgateError
    ├── MalformedReport     bytes on the bus that are not a report: the sender's
    │                       fault; dropped and counted, never shown to a caller
    ├── MalformedSnapshot   a configuration that can't be read: the fault of the API
    │                       or of a file on disk; the last good one stays in force
    ├── BusUnavailable      wrong settings of a bus, or a library that it needs is
    │                       missing: the operator's fault; raised on opening it
    ├── AdminError          the API refused or did not answer `Admin`: it says whose
    │                       fault; see the field or the status that it names
    ├── AgentClosed         the agent was used after close(): the caller's fault
    ├── CallerError         the call is wrong: the caller's fault; change the code
    │   ├── InvalidSetting      of connect(): an address where no API of Headgate
    │   │                       answers, a token that it refuses, an id, a policy
    │   ├── InvalidCost         negative, not a number, above 2**53
    │   ├── InvalidDimension    not an identifier, or too many different ones
    │   ├── InvalidSubject      a name that can't be resolved
    │   ├── NoLimitApplies      with strict=True: a subject, a dimension or an
    │   │                       attempt that no limit counts, probably a typo
    │   ├── AlreadySettled      a reservation was settled or returned before
    │   └── AlreadyReleased     a slot in flight was released before
    └── Throttled           a quota refused: nobody's fault; try again later

A refusal is not an error but a `Decision`.  `Throttled` carries one, and is raised
only where no value can be returned, such as in a decorated function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.agent.decision import Decision


class HeadgateError(Exception):
    """Anything that Headgate raises on purpose."""


class MalformedReport(HeadgateError, ValueError):
    """Bytes that are not a report, or a report that can't be encoded."""


class MalformedSnapshot(HeadgateError, ValueError):
    """A snapshot of the configuration that can't be read; says where and why."""


class BusUnavailable(HeadgateError):
    """A bus can't be opened with these settings; says what to change."""


class AgentClosed(HeadgateError):
    """The agent is closed."""


class CallerError(HeadgateError, ValueError):
    """The call is wrong; the message says what was expected."""


class InvalidSetting(CallerError):
    """An argument is wrong: an address, an id, a token, a policy, a time."""


class InvalidCost(CallerError):
    """A cost is negative, not a number, or above 2**53."""


class InvalidDimension(CallerError):
    """A dimension is not an identifier, or there are too many of them."""


class InvalidSubject(CallerError):
    """The name of a tenant, namespace, topic or entity can't be resolved."""


class NoLimitApplies(CallerError):
    """With ``connect(strict=True)``: an attempt that no limit counts."""


class AlreadySettled(CallerError):
    """A reservation was settled a second time, or after it was cancelled."""


class AlreadyReleased(CallerError):
    """A slot in flight was released a second time."""


class Throttled(HeadgateError):
    """A quota refused the attempt.

    An application that forwards to a controller, and is refused there, raises it with
    the controller's delay: the middleware answers with the longer of both (KIP-599).

    Attributes:
        decision: Which limit refused, and when to come back.
        at_s: When it refused, on the monotonic clock: the delay counts from then.  None
            means just now.
    """

    def __init__(self, decision: Decision, *, at_s: float | None = None) -> None:
        super().__init__(str(decision))
        self.decision = decision
        self.at_s = at_s
