"""An output that lacks something is an error that says what, and nothing is written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.pipeline.rigs import recording as rec
from tests.pipeline.rigs.runs import engine_of, run_of

from headgate.agent.wire.codec import decode, encode
from headgate.pipeline.batch_jobs import run_bill
from headgate.pipeline.settings import (
    OutputIncomplete,
    PipelineSettings,
    WrongSettings,
)
from headgate.pipeline.stream.engine import MixedClusters
from headgate.pipeline.stream.spark_errors import said
from headgate.pipeline.tables.filesystem import uri_of
from headgate.pipeline.tables.jvm import execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headgate.coordinator.messages.report import Report


def settings_for(folder: Path) -> PipelineSettings:
    return PipelineSettings(
        out=uri_of(str(folder / "out")),
        files=str(folder / "files"),
        lateness_s=10.0,
        silence_s=8.0,
        partitions=2,
        max_files=1,
    )


def recorded(folder: Path) -> list[rec.Message]:
    found = rec.messages_of(rec.simulated(), lost=0, doubled=0, stale=0, skew_s=0)
    rec.write_files(found, folder / "files", batches=2)
    return found


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output of two batches, with a bill."""
    folder = tmp_path_factory.mktemp("whole")
    recorded(folder)
    settings = settings_for(folder)
    run_of(spark, settings).until_caught_up()
    assert "equal" in run_bill(spark, settings)
    return folder


def remove(*names: str) -> Callable[[Path], None]:
    def cut(out: Path) -> None:
        for name in names:
            shutil.rmtree(out / name)

    return cut


def forget_last_batch(out: Path) -> None:
    """As if the checkpoint came from an older backup."""
    for kind in ("offsets", "commits"):
        for name in ("1", ".1.crc"):
            (out / "checkpoint" / kind / name).unlink()


CUTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "state": (remove("steps"), "the state .* is missing"),
    "checkpoint": (remove("checkpoint"), "checkpoint is missing"),
    "older checkpoint": (
        forget_last_batch,
        "checkpoint is at batch 0, but the state at",
    ),
    "a table": (remove("tables/usage_10s"), "usage_10s is missing"),
    "state and checkpoint": (remove("steps", "checkpoint"), r"the state .* is missing"),
}


def files(out: Path) -> list[str]:
    return sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())


@pytest.mark.parametrize("cut", CUTS)
def test_a_run_on_an_output_that_was_cut_is_refused_and_writes_nothing(
    spark: SparkSession, whole: Path, tmp_path: Path, cut: str
) -> None:
    remove_part, sentence = CUTS[cut]
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    settings = settings_for(tmp_path)
    remove_part(tmp_path / "out")
    before = files(tmp_path / "out")
    with pytest.raises(OutputIncomplete, match=sentence):
        run_of(spark, settings)
    assert files(tmp_path / "out") == before


@pytest.mark.parametrize("cut", ["state", "a table", "state and checkpoint"])
def test_no_bill_is_made_of_an_output_that_was_cut(
    spark: SparkSession, whole: Path, tmp_path: Path, cut: str
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    CUTS[cut][0](tmp_path / "out")
    before = files(tmp_path / "out")
    with pytest.raises(OutputIncomplete, match=CUTS[cut][1]):
        run_bill(spark, settings_for(tmp_path))
    assert files(tmp_path / "out") == before


def test_a_missing_data_file_is_one_sentence(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    for day in (tmp_path / "out/tables/usage_10s").glob("date=*"):
        shutil.rmtree(day)
    with pytest.raises(Exception, match="exist") as error:
        run_bill(spark, settings_for(tmp_path))
    assert "file of the output is missing" in said(error.value)
    assert "\n" not in said(error.value)


def test_rows_that_were_removed_make_no_bill_and_are_named(
    spark: SparkSession, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    settings = settings_for(tmp_path)
    table = engine_of(spark, settings).tables.uri("usage_10s")
    execute(spark, f"DELETE FROM delta.`{table}` WHERE agent = 'agent-3'")
    with pytest.raises(OutputIncomplete, match="no bill was made: agent 'agent-3'"):
        run_bill(spark, settings)


def test_a_state_of_another_version_is_refused_and_what_a_new_one_costs_is_said(
    spark: SparkSession, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.pipeline.stream.batch_log.FORMAT", 5)
    with pytest.raises(WrongSettings, match=r"format 4, expected 5; give .* overlap"):
        run_of(spark, settings_for(whole))


def test_two_clusters_on_one_topic_are_refused_until_one_is_chosen(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recorded(tmp_path)
    other = [
        rec.Message(m.second, encode(_of_cluster(m.value, "other"))) for m in found
    ]
    frame = spark.createDataFrame(
        [
            (b"", bytearray(m.value), "usage", 0, n, None, 1)
            for n, m in enumerate([*found[:9], *other[:9]])
        ],
        "key binary, value binary, topic string, partition int, offset long, "
        "timestamp timestamp, timestampType int",
    ).selectExpr("* except (timestamp)", "current_timestamp() as timestamp")
    settings = settings_for(tmp_path)
    with pytest.raises(MixedClusters, match=r"'other'.*choose one with --cluster"):
        engine_of(spark, settings).batch(frame, 0)
    assert not (tmp_path / "out").exists()
    first = spark.read.parquet(str(tmp_path / "files" / "0000.parquet"))
    engine = engine_of(spark, settings)
    engine.batch(first, 0)  # of one cluster, which is that of the output from now on
    engine.batch(frame, 1)
    reasons = {row["reason"] for row in engine.tables.read("dead_letters").collect()}
    assert reasons == {f"cluster 'other', expected {decode(found[0].value).cluster!r}"}


def test_the_output_of_one_cluster_takes_no_reports_of_another(
    spark: SparkSession, whole: Path
) -> None:
    settings = settings_for(whole)
    before = files(whole / "out")
    with pytest.raises(WrongSettings, match=r"holds reports of .*give 'other' another"):
        run_of(spark, replace(settings, cluster="other"))
    assert files(whole / "out") == before


def _of_cluster(value: bytes, cluster: str) -> Report:
    return replace(decode(value), cluster=cluster)
