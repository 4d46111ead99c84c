"""The command ``headgate pipeline``: run the jobs, print a report, fetch the jars.

What a command needs is imported when it runs: Spark takes seconds to load.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.pipeline.settings import JOBS, Settings, WrongSettings

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pyspark.sql import SparkSession

BATCH_JOBS = ("recommend", "bill")
"""Jobs that are computed from the tables, not on the stream."""

FAILED = 1
"""Exit code of what could not be done; the reason stands on stderr."""

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

app = typer.Typer(
    name="pipeline",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Spark on the usage topic: who used what, was the quota kept, who suffers.",
)

Out = Annotated[
    Path, typer.Option("--out", help="Folder of tables, state and checkpoint.")
]
Store = Annotated[str, typer.Option(help="Kind of the tables: parquet or delta.")]
Cores = Annotated[int, typer.Option(min=1, help="Threads of a Spark of our own.")]
Memory = Annotated[str, typer.Option(help="Heap of that Spark.")]
OUT = Path("usage-tables")


@app.command("run")
def run(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{' '.join((*JOBS, *BATCH_JOBS))}; the stream's by default."
        ),
    ] = None,
    bootstrap: Annotated[str, typer.Option(help="Kafka's servers.")] = "",
    topic: Annotated[str, typer.Option(help="The usage topic.")] = "headgate-usage",
    files: Annotated[str, typer.Option(help="Recorded messages, not Kafka.")] = "",
    out: Out = OUT,
    store: Store = "parquet",
    once: Annotated[
        bool, typer.Option("--once", help="Read what is there, then end.")
    ] = False,
    starting: Annotated[
        str, typer.Option(help="Where the first run begins: earliest or latest.")
    ] = "earliest",
    api: Annotated[str, typer.Option(help="Headgate's API, for names, limits.")] = "",
    token: Annotated[
        str, typer.Option(envvar="HEADGATE_TOKEN", help="Bearer token for it.")
    ] = "",
    history: Annotated[
        Path | None, typer.Option(help="Recorded snapshots, one a line, instead.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="Take reports of this one only.")] = "",
    trigger_s: Annotated[float, typer.Option(help="Seconds between batches.")] = 10.0,
    max_messages: Annotated[int, typer.Option(help="Messages of a batch.")] = 10_000,
    lateness_s: Annotated[float, typer.Option(help="Wait for what is late.")] = 30.0,
    lost_is: Annotated[
        str,
        typer.Option(help="Messages gone before they were read: fatal or continue."),
    ] = "fatal",
    alert_topic: Annotated[str, typer.Option(help="Kafka topic for alerts.")] = "",
    webhook: Annotated[str, typer.Option(help="URL that alerts are posted to.")] = "",
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for Spark's Kafka source and sink; repeat."),
    ] = None,
    cores: Cores = 2,
    memory: Memory = "1g",
) -> None:
    """Run jobs: on the stream until interrupted (or --once), or from the tables."""
    wanted = tuple(jobs or JOBS)
    with _failures():
        _known(wanted)
        streamed = tuple(job for job in JOBS if job in wanted)
        _one_of("store", store, ("parquet", "delta"))
        _one_of("starting", starting, ("earliest", "latest"))
        _one_of("lost-is", lost_is, ("fatal", "continue"))
        settings = Settings(
            out=out.absolute(),
            bootstrap=bootstrap,
            topic=topic,
            files=files if streamed else files or "none",
            kafka_options=_pairs(kafka_option or []),
            starting="latest" if starting == "latest" else "earliest",
            cluster=cluster,
            jobs=streamed,
            store="delta" if store == "delta" else "parquet",
            history=history,
            api=api,
            token=token,
            trigger_s=trigger_s,
            max_messages=max_messages,
            lateness_s=lateness_s,
            lost_is_fatal=lost_is == "fatal",
            alert_topic=alert_topic,
            webhook=webhook,
        )
        session = _session(cores, memory, kafka=bool(streamed and bootstrap))
        try:
            if streamed:
                _stream(session, settings, once=once)
            _from_tables(session, settings, [j for j in wanted if j in BATCH_JOBS])
        finally:
            session.stop()


@app.command("report")
def report(
    out: Out = OUT,
    since: Annotated[str, typer.Option(help="How far back: 90s, 5m, 1h, 7d.")] = "1h",
    store: Store = "parquet",
    history: Annotated[
        Path | None, typer.Option(help="Recorded snapshots, one a line.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Folder for index.html and the PNGs.")
    ] = None,
    cores: Cores = 2,
    memory: Memory = "1g",
) -> None:
    """Print a summary, and write it as a page with plots."""
    with _failures():
        since_s = seconds(since)
        folder = page or out / "report"
        if not (out / "tables").exists():
            raise WrongSettings(f"{out}: no tables; run `headgate pipeline run` first")
        session = _session(cores, memory, kafka=False)
        try:
            from headgate.pipeline.jobs import summary_of

            settings = _reading(out, store, history)
            summary = summary_of(session, settings, since_s)
        finally:
            session.stop()
        from rich.console import Console

        from headgate.pipeline.page import print_summary, write_page

        print_summary(summary, Console())
        sys.stdout.write(f"{write_page(summary, folder)}\n")


@app.command("what-if")
def what_if(
    group: Annotated[str, typer.Argument(help="Name of the group.")],
    dimension: Annotated[str, typer.Argument(help="Such as requests.")],
    rate: Annotated[float, typer.Option(min=0, help="Units a second to try.")],
    burst: Annotated[
        float | None, typer.Option(min=0, help="Units; a second's worth by default.")
    ] = None,
    since: Annotated[str, typer.Option(help="How far back: 5m, 1h.")] = "1h",
    out: Out = OUT,
    store: Store = "parquet",
    history: Annotated[
        Path | None, typer.Option(help="Recorded snapshots, one a line.")
    ] = None,
    cores: Cores = 2,
    memory: Memory = "1g",
) -> None:
    """Replay recorded demand against another limit, through the real ledgers."""
    with _failures():
        from headgate.coordinator import InvalidConfiguration, Limit

        try:
            limit = Limit(dimension=dimension, rate=rate, burst=burst or max(rate, 1.0))
        except InvalidConfiguration as error:
            raise WrongSettings(str(error)) from None
        settings, since_s = _reading(out, store, history), seconds(since)
        session = _session(cores, memory, kafka=False)
        try:
            from headgate.pipeline.jobs import what_if_of

            rows = what_if_of(
                session, settings, group=group, limit=limit, since_s=since_s
            )
        finally:
            session.stop()
        from rich.console import Console

        from headgate.pipeline.page import print_effect

        print_effect(f"{group}: {dimension} at {rate:g}/s", rows, Console())


@app.command("setup")
def setup() -> None:
    """Look for Java and fetch the Kafka connector once; later runs are offline."""
    with _failures():
        from headgate.pipeline.jars import connector_jars, require_java

        java = require_java()
        jars = connector_jars()
        sys.stdout.write(f"Java {java}; {len(jars)} jars in {jars[0].parent}\n")


def seconds(text: str) -> float:
    """Return the length of time that ``90s``, ``5m``, ``1h`` or ``7d`` means.

    Raises:
        WrongSettings: It is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not found:
        raise WrongSettings(f"since: expected 90s, 5m, 1h or 7d, got {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]


def _reading(out: Path, store: str, history: Path | None) -> Settings:
    """Return settings that only say where the tables are."""
    _one_of("store", store, ("parquet", "delta"))
    return Settings(
        out=out.absolute(),
        files="none",
        store="delta" if store == "delta" else "parquet",
        history=history,
    )


def _stream(session: SparkSession, settings: Settings, *, once: bool) -> None:
    from headgate.pipeline.progress import Progress
    from headgate.pipeline.run import Run
    from headgate.pipeline.snapshots import Recorder

    recorder = Recorder(settings.api, settings.recorded, token=settings.token)
    progress = Progress(sys.stderr)
    stream = Run(
        session, settings, before=lambda: _ignore(recorder.look()), after=progress.show
    )
    progress.watch(stream)
    try:
        if once:
            stream.until_caught_up()
        else:
            stream.forever()
    except KeyboardInterrupt:
        stream.stop()
        sys.stderr.write("stopped; the next run goes on from here\n")
        raise typer.Exit(130) from None


def _from_tables(
    session: SparkSession, settings: Settings, jobs: Sequence[str]
) -> None:
    from headgate.pipeline.jobs import run_bill, run_recommend

    for job in jobs:
        line = (
            run_bill(session, settings)
            if job == "bill"
            else run_recommend(session, settings)
        )
        sys.stdout.write(line + "\n")


def _session(cores: int, memory: str, *, kafka: bool) -> SparkSession:
    from headgate.pipeline.session import local_session

    return local_session(cores=cores, memory=memory, kafka=kafka)


@contextmanager
def _failures() -> Generator[None]:
    """Turn what can go wrong into one line on stderr and an exit code."""
    from headgate.agent.errors import MalformedSnapshot
    from headgate.pipeline.jars import SetUpMissing

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        yield
    except (WrongSettings, SetUpMissing, MalformedSnapshot, OSError) as error:
        _fail(str(error))
    except RuntimeError as error:
        from headgate.pipeline.journal import JournalBroken
        from headgate.pipeline.run import StreamFailed

        if not isinstance(error, (StreamFailed, JournalBroken)):
            raise
        _fail(str(error))


def _fail(message: str) -> None:
    sys.stderr.write(f"headgate pipeline: {message}\n")
    raise typer.Exit(FAILED)


def _known(jobs: Sequence[str]) -> None:
    every = (*JOBS, *BATCH_JOBS)
    unknown = [job for job in jobs if job not in every]
    if unknown:
        raise WrongSettings(f"{unknown[0]!r} is no job; expected {', '.join(every)}")


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise WrongSettings(f"{name}: expected {' or '.join(allowed)}, got {value!r}")


def _pairs(options: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=VALUE`` options as a mapping."""
    for option in options:
        if "=" not in option:
            raise WrongSettings(f"kafka-option: expected NAME=VALUE, got {option!r}")
    return dict(option.split("=", 1) for option in options)


def _ignore(_: object) -> None:
    """Take a value and do nothing: a callback that returns none."""


if __name__ == "__main__":
    app()
