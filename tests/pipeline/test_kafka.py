"""The pipeline on a real broker: real agents, kill -9, lost messages, alerts."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.structs import TopicPartition
from tests.pipeline import recording as rec
from tools.kafka_broker import Broker

from headgate.agent.bus import BusSettings
from headgate.agent.kafka_topic import TopicShape, ensure_topic
from headgate.agent.snapshot import Snapshot, configuration_to_json
from headgate.agent.snapshot_file import store
from headgate.coordinator.configuration import Attachment, Configuration, Group, Limit
from headgate.pipeline.bill import differences
from headgate.pipeline.run import Run, StreamFailed
from headgate.pipeline.settings import Settings, WrongSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headgate.pipeline.stream import Engine

KILLS = int(os.environ.get("HEADGATE_KILLS", "2"))
"""How often the driver is killed; ten when there is time."""

TABLES = ("usage_10s", "usage_1m", "unfairness", "starved", "noisy", "gaps")

PATIENCE_S = 120.0
"""For a driver to start and get to its next batch on a busy machine."""


class Stamped(TopicShape):
    """A topic that keeps the time which its writer gives."""

    def options(self) -> dict[str, str]:
        kept = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
        return super().options() | kept


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def bus(broker: Broker, topic: str) -> BusSettings:
    return BusSettings(kind="kafka", bootstrap=broker.bootstrap, topic=topic)


def produce(broker: Broker, topic: str, messages: list[rec.Message]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for message in messages:
        when_ms = round(message.second * 1e3)
        producer.send(topic, message.value, timestamp_ms=when_ms)
    producer.flush(timeout=30)
    producer.close()


def settings_for(broker: Broker, topic: str, out: Path, **more: object) -> Settings:
    fixed: dict[str, object] = {
        "bootstrap": broker.bootstrap,
        "topic": topic,
        "partitions": 2,
        "max_messages": 60,
        "lateness_s": 10.0,
        "silence_s": 8.0,
    }
    return Settings(out=out, **(fixed | more))  # type: ignore[arg-type]  # Settings checks


def rows(engine: Engine, name: str) -> list[str]:
    return sorted(map(str, engine.tables.read(name).collect()))


@pytest.fixture(scope="module")
def recorded(broker: Broker) -> str:
    """A topic that holds a simulated cluster's reports."""
    ensure_topic(bus(broker, "recorded"), Stamped())
    run = rec.simulated()
    found = rec.messages_of(run, lost=0.1, doubled=0.05, stale=0.05, skew_s=0.0)
    produce(broker, "recorded", found)
    return "recorded"


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession,
    broker: Broker,
    recorded: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Engine:
    out = tmp_path_factory.mktemp("undisturbed")
    run = Run(spark, settings_for(broker, recorded, out))
    assert run.until_caught_up() is not None
    return run.engine


CONFIGURATION = Configuration(
    revision=1,
    groups=(
        Group(
            id=1,
            name="gold",
            limits=(Limit(dimension="requests", rate=200, burst=200),),
        ),
    ),
    attachments=(Attachment((("tenant", "acme"),), 1),),
)


def test_real_agents_are_billed_what_their_callers_were_told(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "real"
    ensure_topic(bus(broker, topic), TopicShape(retention_s=3600.0))
    callers: dict[str, subprocess.Popen[bytes]] = {}
    for name in ("a", "b", "c"):
        snapshot = Snapshot(configuration=CONFIGURATION, bus=bus(broker, topic))
        store(tmp_path / f"{name}.json", snapshot)
        command = [sys.executable, str(Path(__file__).with_name("caller.py")), name]
        command += [str(tmp_path / f"{name}.json"), str(tmp_path / f"{name}.log"), "14"]
        callers[name] = subprocess.Popen(command)
    time.sleep(7)
    callers["c"].kill()
    for process in callers.values():
        process.wait(60)
    history = tmp_path / "history.jsonl"
    history.write_text(json.dumps(configuration_to_json(CONFIGURATION)) + "\n")
    settings = settings_for(
        broker, topic, tmp_path / "out", history=history, lateness_s=0.5, silence_s=2.0,
        max_messages=15,
    )  # fmt: skip
    run = Run(spark, settings)
    run.until_caught_up()
    usage = run.engine.tables.read("usage_10s")
    assert {row["group"] for row in usage.collect()} == {"gold"}
    assert {row["tenant"] for row in usage.collect()} == {"acme"}
    sums = usage.groupBy("agent").sum("admitted", "refused").collect()
    found = {row["agent"]: (row[1], row[2]) for row in sums}
    truth = {name: told(tmp_path / f"{name}.log") for name in callers}
    assert {name: found[name] for name in "ab"} == {name: truth[name] for name in "ab"}
    missing = truth["c"][0] - found["c"][0]
    assert missing >= 0
    gaps = run.engine.tables.read("gaps").where("not healed and agent = 'c'").collect()
    assert [gap["bound"] >= missing for gap in gaps] == [True]
    assert differences(usage, run.engine.counters()).count() == 0


def told(log: Path) -> tuple[float, float]:
    """Return admitted and refused as the last whole line of a caller's log says."""
    _, admitted, refused = log.read_text().splitlines()[-1].split()
    return float(admitted), float(refused)


def test_a_driver_killed_in_the_middle_of_batches_changes_no_row(
    spark: SparkSession,
    broker: Broker,
    recorded: str,
    tmp_path: Path,
    undisturbed: Engine,
) -> None:
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "headgate.pipeline.command", "run", "--once"]
    command += ["--bootstrap", broker.bootstrap, "--topic", recorded, "--out", str(out)]
    command += ["--max-messages", "60", "--lateness-s", "10", "--memory", "512m"]
    chance = random.Random(3)
    kills = 0
    while kills < KILLS:
        driver = subprocess.Popen(
            command, start_new_session=True, stdout=-1, stderr=subprocess.STDOUT
        )
        reached = has_begun(out, driver)
        time.sleep(chance.uniform(0.0, 1.5) if reached else 0.0)
        if driver.poll() is not None:
            break  # it was faster than we
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
        kills += 1
    assert kills > 0
    settings = settings_for(broker, recorded, out, silence_s=30.0)
    run = Run(spark, settings)
    run.until_caught_up()
    for name in TABLES[:-1]:
        assert rows(run.engine, name) == rows(undisturbed, name), name


def has_begun(out: Path, driver: subprocess.Popen[bytes]) -> bool:
    """Wait until a batch has been planned that was not before."""
    offsets = out / "checkpoint" / "offsets"
    before = len(list(offsets.glob("[0-9]*")))
    done = len(list((out / "checkpoint" / "commits").glob("[0-9]*")))
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s and driver.poll() is None:
        planned = len(list(offsets.glob("[0-9]*")))
        committed = len(list((out / "checkpoint" / "commits").glob("[0-9]*")))
        if planned > before or committed > done:
            return True
        time.sleep(0.05)
    return False


def test_an_empty_topic_is_no_failure(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    ensure_topic(bus(broker, "empty"), TopicShape())
    run = Run(spark, settings_for(broker, "empty", tmp_path))
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
    Run(spark, settings).until_caught_up()
    produce(broker, topic, messages[100:])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 140})
    admin.close()
    with pytest.raises(StreamFailed, match="40 messages were gone"):
        Run(spark, settings).until_caught_up()
    going_on = settings_for(
        broker, topic, tmp_path, max_messages=1000, lost_is_fatal=False
    )
    last = Run(spark, going_on)
    last.until_caught_up()
    (loss,) = last.engine.tables.read("losses").collect()
    assert (loss["expected_offset"], loss["messages"]) == (100, 40)
    # Counters are cumulative: what came later carries what was lost.
    told = rec.last_told(run)
    total = sum(p.report.rows[0].admitted[0] for p in told.values())
    sums = last.engine.tables.read("usage_10s").groupBy().sum("admitted").collect()
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
        run = Run(spark, settings)
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
    assert 0 < len(ids) <= closed + run.engine.tables.read("starved").count()
    assert ids == {alert["id"] for alert in Hook.got}
    body = json.loads(next(row["body"] for row in sent if "violation" in row["id"]))
    assert body["allowed"] == 550


def test_two_runs_never_work_on_one_folder(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    settings = settings_for(broker, "empty", tmp_path)
    first = Run(spark, settings)
    with pytest.raises(WrongSettings, match="another run"):
        Run(spark, settings)
    first.stop()
    Run(spark, settings).stop()
