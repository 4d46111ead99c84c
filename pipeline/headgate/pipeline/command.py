"""The command ``headgate pipeline``: run the jobs, print a report, fetch the jars.

What a command needs is imported when it runs: Spark takes seconds to load.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.pipeline import options as opt
from headgate.pipeline.settings import (
    JOBS,
    OutputIncomplete,
    PipelineSettings,
    WrongSettings,
)
from headgate.pipeline.tables.filesystem import local_path, uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from headgate.coordinator import Limit
    from headgate.pipeline.invoicing.plans import PriceList
    from headgate.pipeline.stream.metrics import PipelineMetrics

FAILED = 1
"""Exit code for what could not be done; the reason is on stderr."""

SIGNALLED = 128
"""Exit code of a stream that a signal ended, minus the signal's number: 130, 143."""

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

app = typer.Typer(
    name="pipeline",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Analyse the usage topic with Spark: usage, violations, unfairness.",
)


@app.command("run")
def run(
    jobs: opt.Jobs = None,
    bootstrap: opt.Bootstrap = "",
    topic: opt.Topic = "headgate-usage",
    files: opt.Files = "",
    out: opt.Out = opt.OUT,
    once: opt.Once = False,
    starting: opt.Starting = "earliest",
    api: opt.Api = "",
    token: opt.Token = "",
    history: opt.Recorded = None,
    cluster: opt.Cluster = "",
    report_keys: opt.ReportKeys = None,
    keep_days: opt.KeepDays = None,
    trigger_s: opt.Trigger = 10.0,
    max_messages: opt.MaxMessages = 10_000,
    lateness_s: opt.Lateness = 30.0,
    lost_is: opt.LostIs = "fatal",
    alert_topic: opt.AlertTopic = "",
    webhook: opt.Webhook = "",
    prices: opt.Prices = None,
    invoices: opt.InvoiceFolder = None,
    metrics_port: opt.MetricsPort = 0,
    metrics_host: opt.MetricsHost = "127.0.0.1",
    kafka_option: opt.KafkaOption = None,
    spark_option: opt.SparkOption = None,
    cores: opt.Cores = 2,
    memory: opt.Memory = "1g",
) -> None:
    """Run jobs: on the stream until interrupted (or --once), or from the tables."""
    with _failures():
        wanted = _known(jobs or JOBS)
        streamed = tuple(job for job in JOBS if job in wanted)
        _one_of("starting", starting, ("earliest", "latest"))
        _one_of("lost-is", lost_is, ("fatal", "continue"))
        more = _pairs("spark-option", spark_option or [])
        plans = _prices(prices, wanted)
        settings = PipelineSettings(
            out=uri_of(out),
            bootstrap=bootstrap,
            topic=topic,
            files=files if streamed else files or "none",
            kafka_options=_pairs("kafka-option", kafka_option or []),
            starting="latest" if starting == "latest" else "earliest",
            cluster=cluster,
            report_keys=_keys(report_keys),
            keep_days=_days(keep_days or []),
            jobs=streamed,
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
        is_kafka = bool(streamed and bootstrap)
        with _session(cores, memory, more, kafka=is_kafka) as session:
            if streamed:
                with _metrics(metrics_port, metrics_host) as metrics:
                    _stream(session, settings, metrics, once=once)
            for job in wanted:
                if job in opt.BATCH_JOBS:
                    line = _from_tables(session, settings, job, plans, invoices)
                    sys.stdout.write(line + "\n")


@app.command("report")
def report(
    out: opt.Out = opt.OUT,
    since: opt.Since = "1h",
    history: opt.Recorded = None,
    page: opt.Page = None,
    spark_option: opt.SparkOption = None,
    cores: opt.Cores = 2,
    memory: opt.Memory = "1g",
) -> None:
    """Print a summary, and write it as a page with plots."""
    with _failures():
        settings, since_s = _reading(out, history), seconds(since)
        more = _pairs("spark-option", spark_option or [])
        with _session(cores, memory, more, kafka=False) as session:
            from headgate.pipeline.batch_jobs import summary_of

            summary = summary_of(session, settings, since_s)
        from rich.console import Console

        from headgate.pipeline.report.html_report import print_summary, write_page

        print_summary(summary, Console())
        beside = local_path(settings.out)
        folder = page or (beside or Path()) / "report"
        sys.stdout.write(f"{write_page(summary, folder)}\n")


@app.command("what-if")
def what_if(
    group: opt.GroupName,
    dimension: opt.Dimension,
    rate: opt.Rate,
    burst: opt.Burst = None,
    since: opt.Since = "1h",
    out: opt.Out = opt.OUT,
    history: opt.Recorded = None,
    spark_option: opt.SparkOption = None,
    cores: opt.Cores = 2,
    memory: opt.Memory = "1g",
) -> None:
    """Replay recorded demand against another limit, through the real ledgers."""
    with _failures():
        limit = _limit(dimension, rate, burst)
        settings, since_s = _reading(out, history), seconds(since)
        more = _pairs("spark-option", spark_option or [])
        with _session(cores, memory, more, kafka=False) as session:
            from headgate.pipeline.batch_jobs import what_if_of

            rows = what_if_of(
                session, settings, group=group, limit=limit, since_s=since_s
            )
        from rich.console import Console

        from headgate.pipeline.report.html_report import print_effect

        print_effect(f"{group}: {dimension} at {rate:g}/s", rows, Console())


@app.command("setup")
def setup() -> None:
    """Check for Java and fetch Spark's connectors once, so that runs work offline."""
    with _failures():
        from headgate.pipeline.stream.jars import connector_jars, require_java
        from headgate.pipeline.stream.session import SUBMIT, log_option

        java = require_java()
        jars = connector_jars()
        sys.stdout.write(
            f"Java {java}; {len(jars)} jars in {jars[0].parent}\non a cluster:\n"
            f"  spark-submit --driver-java-options {log_option()} "
            f"--jars {','.join(map(str, jars))} {SUBMIT} run …\n"
        )


def seconds(text: str) -> float:
    """Return the duration that ``90s``, ``5m``, ``1h`` or ``7d`` stands for.

    Raises:
        WrongSettings: It is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not found:
        raise WrongSettings(f"since: expected 90s, 5m, 1h or 7d, got {text!r}")
    return float(found[1]) * _UNITS_S[found[2]]


def _limit(dimension: str, rate: float, burst: float | None) -> Limit:
    """Return the limit to try; its burst is a second's worth by default."""
    from headgate.coordinator import InvalidConfiguration, Limit

    if burst is None:
        burst = max(rate, 1.0)
    try:
        return Limit(dimension=dimension, rate=rate, burst=burst)
    except InvalidConfiguration as error:
        raise WrongSettings(str(error)) from None


def _reading(out: str, history: Path | None) -> PipelineSettings:
    """Return settings that only say where the tables are; the tables must exist."""
    uri = uri_of(out)
    folder = local_path(uri)
    if folder is not None and not (folder / "tables").exists():
        raise WrongSettings(f"{out}: no tables; run `headgate pipeline run` first")
    return PipelineSettings(out=uri, files="none", history=history)


def _keys(path: Path | None) -> str:
    """Return the text of a file of keys, after checking that they are keys."""
    from headgate.pipeline.counters.evidence import signing_of

    if path is None:
        return ""
    try:
        keys = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise WrongSettings(f"report-keys: {path} is no text in UTF-8") from None
    signing_of(keys)
    if not keys.strip():
        raise WrongSettings(f"report-keys: {path} is empty")
    return keys


def _days(options: Sequence[str]) -> dict[str, int]:
    """Return ``TABLE=DAYS`` options as a mapping."""
    found: dict[str, int] = {}
    for name, days in _pairs("keep-days", options).items():
        if not days.isdecimal():
            raise WrongSettings(f"keep-days: expected TABLE=DAYS, got {name}={days}")
        found[name] = int(days)
    return found


def _prices(path: Path | None, wanted: Sequence[str]) -> PriceList | None:
    """Return the price list, which invoices need."""
    if path is None:
        if "invoices" in wanted:
            raise WrongSettings("prices: invoices need --prices FILE")
        return None
    from headgate.pipeline.invoicing.plans import read_prices

    return read_prices(path)


@contextmanager
def _metrics(port: int, host: str) -> Generator[PipelineMetrics | None]:
    """Serve metrics while the stream runs, if asked to."""
    if not port:
        yield None
        return
    from headgate.pipeline.stream.metrics import PipelineMetrics

    metrics = PipelineMetrics()
    with metrics.served(port, host):
        yield metrics


def _stream(
    session: SparkSession,
    settings: PipelineSettings,
    metrics: PipelineMetrics | None,
    *,
    once: bool,
) -> None:
    from headgate.pipeline.batch_jobs import history_of
    from headgate.pipeline.configured.history import ConfigurationTable
    from headgate.pipeline.configured.snapshots import SnapshotRecorder
    from headgate.pipeline.stream.progress import Progress
    from headgate.pipeline.stream.run import StreamRun

    history = history_of(session, settings)
    looks: list[SnapshotRecorder] = []
    if isinstance(history, ConfigurationTable):
        looks.append(SnapshotRecorder(settings.api, history, token=settings.token))
    progress = Progress(sys.stderr, metrics)
    stream = StreamRun(
        session,
        settings,
        history,
        before=lambda: _ignore([recorder.look() for recorder in looks]),
        after=progress.show,
    )
    progress.watch(stream)
    with _ended_by_signals(session, stream.end) as caught:
        if once:
            stream.until_caught_up()
        else:
            stream.forever()
        if caught:
            last = "before the first batch"
            if progress.batch is not None:
                last = f"after batch {progress.batch}"
            sys.stderr.write(f"stopped {last}; the next run continues from there\n")
            sys.stderr.flush()
    if caught:
        raise typer.Exit(SIGNALLED + caught[0])


def _from_tables(
    session: SparkSession,
    settings: PipelineSettings,
    job: str,
    prices: PriceList | None,
    folder: Path | None,
) -> str:
    """Run a job on the tables; return its sentence."""
    from headgate.pipeline import batch_jobs

    if job == "invoices":
        assert prices is not None
        beside = local_path(settings.out)
        if folder is None and beside is not None:
            folder = beside / "invoices"
        return batch_jobs.run_invoices(session, settings, prices, folder)
    run = {
        "bill": batch_jobs.run_bill,
        "periods": batch_jobs.run_periods,
        "recommend": batch_jobs.run_recommend,
    }[job]
    return run(session, settings)


@contextmanager
def _ended_by_signals(
    session: SparkSession, end: Callable[[], None]
) -> Generator[list[int]]:
    """Call `end` on SIGTERM and Ctrl-C; give the list of signals received.

    Under spark-submit, Java gets the signal and waits until this context is left.
    Nothing is raised: if an exception cut a request to Spark short, the next request
    would read its answer.
    """
    from headgate.pipeline.stream.run import STOP_S
    from headgate.pipeline.tables.jvm import before_exit

    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return

    def handle(number: int, _: object) -> None:
        caught.append(number)
        end()

    over = threading.Event()

    def java_ends() -> None:
        handle(signal.SIGTERM, None)  # Java doesn't say which signal it was
        over.wait(2 * STOP_S)

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        with before_exit(session, java_ends, timeout_s=2 * STOP_S):
            yield caught
            over.set()
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _session(
    cores: int, memory: str, more: Mapping[str, str], *, kafka: bool
) -> Generator[SparkSession]:
    from headgate.pipeline.stream.session import local_session

    sys.stderr.write("starting Spark …\n")
    sys.stderr.flush()
    session = local_session(cores=cores, memory=memory, kafka=kafka, more=more)
    try:
        yield session
    finally:
        with suppress(Exception):  # the earlier failure matters, not this
            session.stop()


@contextmanager
def _failures() -> Generator[None]:
    """Turn every expected failure into one line on stderr and an exit code."""
    from headgate.agent.errors import MalformedSnapshot
    from headgate.pipeline.stream.jars import SetUpMissing

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    # py4j logs each failure of a batch as a traceback, besides the line that we print.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_news)
    try:
        yield
    except (
        WrongSettings,
        OutputIncomplete,
        SetUpMissing,
        MalformedSnapshot,
    ) as error:
        _fail(str(error))
    except OSError as error:
        from headgate.pipeline.stream.spark_errors import said

        if gone := said(error):
            _fail(gone)
        where = error.filename and error.strerror
        _fail(f"{error.filename}: {error.strerror}" if where else str(error))
    except RuntimeError as error:
        from headgate.pipeline.stream.run import StreamFailed

        if not isinstance(error, StreamFailed):
            raise
        _fail(str(error))
    except Exception as error:
        from headgate.pipeline.stream.spark_errors import said

        sentence = said(error)
        if not sentence:
            raise
        _fail(sentence)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line is more than Py4J's traceback when Java has gone."""
    return record.msg != "Exception while sending command."


def _fail(message: str) -> None:
    sys.stderr.write(f"headgate pipeline: {message}\n")
    raise typer.Exit(FAILED)


def _known(jobs: Sequence[str]) -> tuple[str, ...]:
    """Return `jobs` after checking that all of them exist."""
    every = (*JOBS, *opt.BATCH_JOBS)
    unknown = [job for job in jobs if job not in every]
    if unknown:
        raise WrongSettings(
            f"jobs: expected one of {', '.join(every)}, got {unknown[0]!r}"
        )
    return tuple(jobs)


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise WrongSettings(f"{name}: expected {' or '.join(allowed)}, got {value!r}")


def _pairs(name: str, options: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=VALUE`` options as a mapping."""
    for option in options:
        if "=" not in option:
            raise WrongSettings(f"{name}: expected NAME=VALUE, got {option!r}")
    return dict(option.split("=", 1) for option in options)


def _ignore(_: object) -> None:
    """Take a value and do nothing, as a callback."""
