"""The settings of a run of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

JOBS: tuple[str, ...] = ("usage", "violations", "unfairness", "starved", "noisy")
"""Jobs on the stream; ``recommend`` and ``bill`` are computed from its tables."""

KEPT_TABLES: tuple[str, ...] = (
    "usage_10s", "usage_1m", "usage_1h", "violations", "unfairness", "starved", "noisy",
    "dead_letters", "losses", "bill",
)  # fmt: skip
"""Tables whose rows may be retired.  ``counters`` stays: it refuses the reports of
lives that ended.  ``gaps`` go with ``usage_10s``: bills need both."""

MOST_DAYS = 36_525
"""Longest time that rows are kept, a century: beyond the year 1 there are no dates."""

WINDOW_S = 10
"""Length of the shortest window: ten heartbeats at T = 1 s, so that the edges of
the intervals between reports blur it by a tenth at most."""

NO_TOPIC = ""


class WrongSettings(ValueError):
    """A setting can't be accepted; says which and what was expected."""


class OutputIncomplete(RuntimeError):
    """Part of the output is missing, so that going on would bill wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Options of a run.

    Attributes:
        out: URI of tables, state and checkpoint, such as ``file:///data/usage`` or
            ``s3a://bucket/usage``; on a cluster, one that all machines can reach.
        bootstrap: Kafka's servers; empty reads `files` instead.
        topic: The usage topic.
        files: Folder of recorded messages (Parquet, columns of Spark's Kafka
            source), read instead of Kafka.
        kafka_options: Further options of Spark's Kafka source and sink, such as
            ``kafka.security.protocol``.
        starting: ``earliest`` or ``latest``; counts in the first run only.
        cluster: Reports of another cluster are dead letters; empty takes the
            cluster of the first reports, which must be one.
        report_keys: Keys that verify the signatures of reports, as JSON; see
            `counters.evidence.signing_of`.  Empty verifies nothing.
        keyed: Messages carry the agent's id as their key: saves a decoding.
        jobs: What to compute.
        history: File of recorded snapshots, one per line, read instead of the API.
        api: Address of the API to ask for newer revisions, or empty.
        token: Bearer token for it.
        trigger_s: Seconds between two batches.
        max_messages: Messages of one batch; bounds memory and state.
        max_files: Recorded files of one batch.
        lateness_s: How long a window waits for late reports.
        silence_s: M: an agent that is silent for longer is presumed dead.
        keep_s: How long counters of a life that ended are kept.
        lost_is_fatal: Stop when the topic dropped messages before they were read.
        alert_topic: Kafka topic for alerts, or empty.
        webhook: URL that alerts are posted to, or empty.
        partitions: Tasks of the step; 0 means twice the cores.
        keep_days: Days that the rows of a table are kept, by its name; a table that
            is not named keeps them for ever.
    """

    out: str
    bootstrap: str = ""
    topic: str = "headgate-usage"
    files: str = ""
    kafka_options: Mapping[str, str] = field(default_factory=dict[str, str])
    starting: Literal["earliest", "latest"] = "earliest"
    cluster: str = ""
    report_keys: str = field(default="", repr=False)
    keyed: bool = False
    jobs: tuple[str, ...] = JOBS
    history: Path | None = None
    api: str = ""
    token: str = field(default="", repr=False)
    trigger_s: float = 10.0
    max_messages: int = 10_000
    max_files: int = 100
    lateness_s: float = 30.0
    silence_s: float = 30.0
    keep_s: float = 86_400.0
    lost_is_fatal: bool = True
    alert_topic: str = NO_TOPIC
    webhook: str = field(default="", repr=False)
    partitions: int = 0
    keep_days: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        if bool(self.bootstrap) == bool(self.files):
            raise WrongSettings("source: expected Kafka's servers or a folder of files")
        unknown = sorted(set(self.jobs) - set(JOBS))
        if unknown:
            raise WrongSettings(
                f"jobs: expected one of {', '.join(JOBS)}, got {unknown[0]!r}"
            )
        if self.alert_topic and not self.bootstrap:
            raise WrongSettings("alert_topic: expected Kafka's servers as well")
        _check_url("api", self.api)
        _check_url("webhook", self.webhook)
        for name in ("max_messages", "max_files", "lateness_s", "silence_s", "keep_s"):
            if not 0 < getattr(self, name) < inf:
                raise WrongSettings(
                    f"{name}: expected a number > 0, got {getattr(self, name)}"
                )
        for name, days in self.keep_days.items():
            if name not in KEPT_TABLES or not 1 <= days <= MOST_DAYS:
                raise WrongSettings(
                    f"keep_days: expected TABLE=DAYS, 1 to {MOST_DAYS}, got "
                    f"{name}={days}; tables are {', '.join(KEPT_TABLES)}"
                )
        if not 0 <= self.trigger_s < inf:
            raise WrongSettings(
                f"trigger_s: expected a number ≥ 0, got {self.trigger_s}"
            )

    @property
    def tables(self) -> str:
        """The URI of the tables."""
        return f"{self.out}/tables"

    @property
    def checkpoint(self) -> str:
        """The URI of Spark's checkpoint."""
        return f"{self.out}/checkpoint"

    @property
    def steps(self) -> str:
        """The URI of the newest step."""
        return f"{self.out}/steps"


def _check_url(name: str, url: str) -> None:
    """Refuse what no request can be sent to, without a word of it: it may be secret."""
    if not url:
        return
    from httpx import URL, InvalidURL

    expected = WrongSettings(f"{name}: expected a URL such as http://host:8080/path")
    try:
        parts = URL(url)
        # A request decodes the name, and its look-up encodes it again.
        host = parts.host and parts.raw_host.decode().encode("idna")
    except (InvalidURL, ValueError):
        raise expected from None
    is_port = parts.port is None or 0 < parts.port < 65_536
    if not (parts.scheme in ("http", "https") and host and is_port):
        raise expected
