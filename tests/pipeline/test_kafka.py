"""The pipeline on a real broker: real agents, restarts, lost messages, alerts."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.structs import TopicPartition
from tests.pipeline.rigs import recording as rec
from tests.pipeline.rigs.brokers import Stamped, bus, produce, produce_recorded
from tests.pipeline.rigs.runs import known_usage, run_of
from tools.kafka_broker import PASSWORDS, Broker

from headgate.agent.bus.kafka.topic import TopicShape, ensure_topic
from headgate.agent.follow.snapshot import configuration_to_json
from headgate.agent.wire.codec import decode
from headgate.api import ServerSettings, running
from headgate.coordinator.config.configuration import Configuration, Group, Limit
from headgate.pipeline.batch_jobs import history_of
from headgate.pipeline.configured.history import ConfigurationTable
from headgate.pipeline.configured.snapshots import SnapshotRecorder
from headgate.pipeline.jobs.bill import differences, unhealed
from headgate.pipeline.settings import OutputIncomplete, PipelineSettings
from headgate.pipeline.stream.run import StreamFailed, StreamRun
from headgate.pipeline.tables.filesystem import uri_of
from headgate.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pyspark.sql import SparkSession

    from headgate.pipeline.stream.batch_log import BatchSummary
    from headgate.pipeline.stream.engine import StreamEngine

PATIENCE_S = 180.0
"""For a process to start, or a broker to come back, on a busy machine."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def settings_for(
    broker: Broker, topic: str, out: Path, **more: object
) -> PipelineSettings:
    fixed: dict[str, object] = {
        "bootstrap": broker.bootstrap,
        "topic": topic,
        "partitions": 2,
        "max_messages": 60,
        "lateness_s": 10.0,
        "silence_s": 8.0,
    }
    return PipelineSettings(out=uri_of(str(out)), **(fixed | more))  # type: ignore[arg-type]  # Settings checks


@pytest.fixture(scope="module")
def recorded(broker: Broker) -> str:
    """A topic that holds a simulated cluster's reports."""
    produce_recorded(broker, "recorded")
    return "recorded"


class Operator:
    """Decides things through the API."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1"

    def put(self, path: str, **body: object) -> int:
        """Return the revision that this made."""
        answer = httpx.put(f"{self._url}{path}", json=body, timeout=PATIENCE_S)
        assert answer.is_success, answer.text
        return int(answer.headers["Headgate-Revision"])

    def limit(self, rate: int) -> int:
        limit = {"dimension": "requests", "rate": rate, "burst": rate}
        return self.put("/groups/gold", limits=[limit])


@contextmanager
def callers(folder: Path, url: str) -> Generator[dict[str, subprocess.Popen[bytes]]]:
    """Three processes that call until their standard input is closed."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    for name in ("a", "b", "c"):
        command = [
            sys.executable,
            str(Path(__file__).parent / "rigs" / "caller.py"),
            url,
        ]
        command += [name, str(folder / f"{name}.json"), str(folder / f"{name}.log")]
        running[name] = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


class Listener:
    """Reads the topic on its own, to know what has been written to it."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self.sequences: dict[str, int] = {}

    def until_reports(self, *agents: str) -> None:
        """Wait for two reports more of each agent than this knows of."""
        wanted = {agent: self.sequences.get(agent, 0) + 2 for agent in agents}
        end_s = time.monotonic() + PATIENCE_S
        consumer = KafkaConsumer(bootstrap_servers=self._broker.bootstrap)
        consumer.assign([TopicPartition(self._topic, 0)])
        consumer.seek_to_beginning()
        while any(self.sequences.get(agent, 0) < wanted[agent] for agent in agents):
            assert time.monotonic() < end_s, (self.sequences, wanted)
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    report = decode(record.value)
                    self.sequences[report.agent] = report.sequence
        consumer.close()


class Live:
    """The pipeline at work, on a thread, with the API asked before each batch."""

    def __init__(self, spark: SparkSession, settings: PipelineSettings) -> None:
        self._batches: queue.SimpleQueue[BatchSummary] = queue.SimpleQueue()
        history = ConfigurationTable(spark, TableStore(spark, settings.tables))
        recorder = SnapshotRecorder(settings.api, history)
        self.run = StreamRun(
            spark,
            settings,
            history,
            before=lambda: _ignore(recorder.look()),
            after=self._batches.put,
        )
        self._thread = threading.Thread(target=self.run.forever)
        self._thread.start()

    def until_offset(self, offset: int) -> None:
        """Wait until messages up to `offset` are in the tables."""
        while self._batches.get(timeout=PATIENCE_S).offsets["live/0"] < offset:
            pass

    def until_missed(self, agent: str) -> None:
        """Wait until an agent's end is in the list of gaps."""
        tables = self.run.engine.tables
        while unhealed(tables.read("gaps")).where(f"agent = '{agent}'").isEmpty():
            self._batches.get(timeout=PATIENCE_S)

    def stop(self) -> None:
        self.run.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def _ignore(_: object) -> None:
    """Take a value and do nothing."""


def end_of(broker: Broker, topic: str) -> int:
    """Return the offset after the last message."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    place = TopicPartition(topic, 0)
    offset: int = consumer.end_offsets([place])[place]
    consumer.close()
    return offset


@pytest.mark.timeout(900)
def test_a_broker_that_restarts_costs_the_bill_of_real_agents_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "kafka"))
        shape = TopicShape(retention_s=3600.0)
        ensure_topic(bus(broker, "live"), shape)
        api = stack.enter_context(
            running(
                ServerSettings(
                    database=str(tmp_path / "api.db"), port=0, bus=bus(broker, "live")
                )
            )
        )
        operator = Operator(api.api)
        operator.limit(200)
        operator.put("/tenants/acme")
        operator.put("/attachments", subject={"tenant": "acme"}, group="gold")
        agents = stack.enter_context(callers(tmp_path, api.api))
        listener = Listener(broker, "live")
        listener.until_reports("a", "b", "c")
        settings = settings_for(
            broker, "live", tmp_path / "out", api=api.api, trigger_s=0.0,
            lateness_s=0.5, silence_s=2.0, max_messages=1000,
        )  # fmt: skip
        live = Live(spark, settings)
        stack.callback(live.stop)
        live.until_offset(end_of(broker, "live"))
        broker.stop(kill=True)
        operator.limit(300)
        newest = operator.limit(150)
        broker.start()
        listener.until_reports("a", "b", "c")
        live.until_offset(end_of(broker, "live"))
        agents["c"].kill()
        agents["c"].wait(PATIENCE_S)
        live.until_missed("c")
        for name in "ab":
            agents[name].communicate(timeout=PATIENCE_S)  # closes its input
        live.stop()
        last = run_of(spark, settings)
        last.until_caught_up()
    assert [c.revision for c in history_of(spark, settings).read()][-2:] == [
        newest - 1,
        newest,
    ]
    billed_as_told(last.engine, tmp_path)


def billed_as_told(engine: StreamEngine, folder: Path) -> None:
    """Compare with the callers' own logs; c was killed, its gap is bounded."""
    usage = known_usage(engine)
    names = usage.select("group", "tenant").distinct().collect()
    assert [tuple(row) for row in names] == [("gold", "acme")]
    sums = usage.groupBy("agent").sum("admitted", "refused").collect()
    found = {row["agent"]: (row[1], row[2]) for row in sums}
    truth = {name: told(folder / f"{name}.log") for name in "abc"}
    assert {name: found[name] for name in "ab"} == {name: truth[name] for name in "ab"}
    missing = truth["c"][0] - found["c"][0]
    assert missing >= 0
    gaps = unhealed(engine.tables.read("gaps")).where("agent = 'c'").collect()
    assert [gap["bound"] >= missing for gap in gaps] == [True]
    assert differences(usage, engine.counters()).count() == 0


def told(log: Path) -> tuple[float, float]:
    """Return admitted and refused as the last whole line of a caller's log says."""
    _, admitted, refused = log.read_text().splitlines()[-1].split()
    return float(admitted), float(refused)


def test_an_empty_topic_is_no_failure(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    ensure_topic(bus(broker, "empty"), TopicShape())
    run = run_of(spark, settings_for(broker, "empty", tmp_path))
    summary = run.until_caught_up()
    assert summary is None or summary.messages == 0
    assert run.engine.tables.read("usage_10s").count() == 0


def test_lost_messages_are_fatal_unless_told_otherwise_and_counted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "short"
    ensure_topic(bus(broker, topic), Stamped())
    run = rec.simulated()
    messages = rec.messages_of(run, lost=0, doubled=0, stale=0, skew_s=0)
    produce(broker, topic, messages[:100])
    settings = settings_for(broker, topic, tmp_path, max_messages=1000)
    run_of(spark, settings).until_caught_up()
    produce(broker, topic, messages[100:])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 140})
    admin.close()
    with pytest.raises(StreamFailed, match="40 messages were deleted"):
        run_of(spark, settings).until_caught_up()
    going_on = settings_for(
        broker, topic, tmp_path, max_messages=1000, lost_is_fatal=False
    )
    last = run_of(spark, going_on)
    last.until_caught_up()
    (loss,) = last.engine.tables.read("losses").collect()
    assert (loss["expected_offset"], loss["messages"]) == (100, 40)
    # Counters are cumulative: what came later carries what was lost.
    told = rec.last_told(run)
    total = sum(p.report.rows[0].admitted[0] for p in told.values())
    sums = known_usage(last.engine).groupBy().sum("admitted").collect()
    assert sums[0][0] == total


class Hook(BaseHTTPRequestHandler):
    """A webhook that remembers."""

    got: list[dict[str, object]]

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        Hook.got += json.loads(self.rfile.read(length))["alerts"]
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_alerts_reach_the_topic_and_the_webhook(
    spark: SparkSession, broker: Broker, recorded: str, tmp_path: Path
) -> None:
    ensure_topic(bus(broker, "alerts"), TopicShape(retention_s=3600.0))
    strict = Limit(dimension="requests", rate=50, burst=50)
    group = Group(id=1, name="gold", limits=(strict,))
    history = tmp_path / "history.jsonl"
    judged = Configuration(revision=1, groups=(group,))
    history.write_text(json.dumps(configuration_to_json(judged)) + "\n")
    Hook.got = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = settings_for(
            broker,
            recorded,
            tmp_path / "out",
            history=history,
            alert_topic="alerts",
            webhook=f"http://127.0.0.1:{server.server_port}/",
            max_messages=150,
            jobs=("usage", "violations", "starved"),
        )
        run = run_of(spark, settings)
        run.until_caught_up()
        server.shutdown()
    closed = run.engine.tables.read("violations").count()
    sent = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", "alerts")
        .load()
        .selectExpr("cast(key as string) as id", "cast(value as string) as body")
        .collect()
    )
    ids = {row["id"] for row in sent}
    assert len(ids) == closed + run.engine.tables.read("starved").count() > 0
    assert ids == {alert["id"] for alert in Hook.got}
    body = json.loads(next(row["body"] for row in sent if "violation" in row["id"]))
    assert body["allowed"] == 550


def test_a_topic_that_was_made_anew_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "anew"
    ensure_topic(bus(broker, topic), Stamped())
    messages = rec.messages_of(rec.simulated(), lost=0, doubled=0, stale=0, skew_s=0)
    produce(broker, topic, messages[:50])
    settings = settings_for(broker, topic, tmp_path, max_messages=1000)
    run_of(spark, settings).until_caught_up()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics([topic])  # pyright: ignore[reportUnknownMemberType]  # its stub is open
    end_s = time.monotonic() + PATIENCE_S
    while topic in admin.list_topics():
        assert time.monotonic() < end_s, "the topic was not deleted"
    admin.close()
    ensure_topic(bus(broker, topic), Stamped())
    produce(broker, topic, messages[:60])
    with pytest.raises(OutputIncomplete, match="anew was deleted and re-created"):
        run_of(spark, settings)


def test_a_topic_whose_id_cannot_be_looked_up_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(StreamFailed, match="nowhere: the topic does not exist"):
        run_of(spark, settings_for(broker, "nowhere", tmp_path))


REFUSED = {
    "a wrong password": ("agent", "guessed"),
    "a user without rights": ("intruder", PASSWORDS["intruder"]),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("guarded"), auth="scram") as running:
        yield running


@pytest.mark.parametrize("refused", REFUSED)
def test_a_broker_that_refuses_the_user_is_one_line(
    spark: SparkSession, guarded: Broker, tmp_path: Path, refused: str
) -> None:
    name, password = REFUSED[refused]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            f'{module} required username="{name}" password="{password}";'
        ),
    }
    settings = settings_for(guarded, "usage", tmp_path, kafka_options=options)
    with pytest.raises(
        StreamFailed, match="usage: Kafka refuses this user: "
    ) as failed:
        run_of(spark, settings)
    assert "\n" not in str(failed.value)
    assert "Exception" not in str(failed.value)
    assert password not in str(failed.value)
