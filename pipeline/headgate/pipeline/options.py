"""The options of ``headgate pipeline``, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from headgate.pipeline.settings import JOBS

BATCH_JOBS = ("recommend", "bill", "periods", "invoices")
"""Jobs that are computed from the tables, not on the stream."""

OUT = "usage-tables"
"""Where tables are put unless told otherwise."""

Jobs: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help=f"{' '.join((*JOBS, *BATCH_JOBS))}; the stream's by default."),
]
Out: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out", help="Folder or URI (s3a://…) of tables, state and checkpoint."
    ),
]
KeepDays: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="TABLE=DAYS: retire older rows of a table; repeat."),
]
ReportKeys: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File of keys, from `headgate bus keys`: take signed reports only."
    ),
]
SparkOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE for Spark, such as spark.hadoop.fs.s3a.…; repeat."),
]
Cores: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Threads of a Spark of our own.")
]
Memory: TypeAlias = Annotated[str, typer.Option(help="Heap of that Spark.")]
Bootstrap: TypeAlias = Annotated[str, typer.Option(help="Kafka's servers.")]
Topic: TypeAlias = Annotated[str, typer.Option(help="The usage topic.")]
Files: TypeAlias = Annotated[str, typer.Option(help="Recorded messages, not Kafka.")]
Once: TypeAlias = Annotated[
    bool, typer.Option("--once", help="Read what is there, then end.")
]
Starting: TypeAlias = Annotated[
    str, typer.Option(help="Where the first run begins: earliest or latest.")
]
Api: TypeAlias = Annotated[str, typer.Option(help="Headgate's API, for names, limits.")]
Token: TypeAlias = Annotated[
    str, typer.Option(envvar="HEADGATE_TOKEN", help="Bearer token for it.")
]
Recorded: TypeAlias = Annotated[
    Path | None, typer.Option(help="Recorded snapshots, one a line, instead.")
]
Cluster: TypeAlias = Annotated[
    str,
    typer.Option(help="Take reports of this one only; needed if there are several."),
]
Trigger: TypeAlias = Annotated[float, typer.Option(help="Seconds between batches.")]
MaxMessages: TypeAlias = Annotated[int, typer.Option(help="Messages of a batch.")]
Lateness: TypeAlias = Annotated[float, typer.Option(help="Wait for what is late.")]
LostIs: TypeAlias = Annotated[
    str,
    typer.Option(help="Messages gone before they were read: fatal or continue."),
]
AlertTopic: TypeAlias = Annotated[str, typer.Option(help="Kafka topic for alerts.")]
Webhook: TypeAlias = Annotated[str, typer.Option(help="URL that alerts are posted to.")]
KafkaOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE for Spark's Kafka source and sink; repeat."),
]
Prices: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="File of price plans (YAML, JSON), for invoices."),
]
InvoiceFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--invoices", help="Folder for a JSON and a CSV of each; OUT/invoices."
    ),
]
MetricsPort: TypeAlias = Annotated[
    int,
    typer.Option(min=0, max=65535, help="Serve Prometheus metrics there; 0: don't."),
]
MetricsHost: TypeAlias = Annotated[
    str, typer.Option(help="Address that they are served on.")
]
Since: TypeAlias = Annotated[str, typer.Option(help="How far back: 90s, 5m, 1h, 7d.")]
Page: TypeAlias = Annotated[
    Path | None, typer.Option(help="Folder for index.html and the PNGs.")
]
Rate: TypeAlias = Annotated[float, typer.Option(min=0, help="Units a second to try.")]
Burst: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="Units; a second's worth by default.")
]
GroupName: TypeAlias = Annotated[str, typer.Argument(help="Name of the group.")]
Dimension: TypeAlias = Annotated[str, typer.Argument(help="Such as requests.")]
