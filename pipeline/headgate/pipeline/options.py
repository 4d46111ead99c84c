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
    typer.Argument(
        help=f"{' '.join((*JOBS, *BATCH_JOBS))}; by default, those on the stream."
    ),
]
Out: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out", help="Folder or URI (s3a://…) of tables, state and checkpoint."
    ),
]
KeepDays: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="TABLE=DAYS: remove older rows of a table. May be repeated."),
]
ReportKeys: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File of keys from `headgate bus keys`; accepts only signed reports."
    ),
]
SparkOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE for Spark, such as spark.hadoop.fs.s3a.…; may be repeated."
    ),
]
Cores: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Threads of the local Spark.")
]
Memory: TypeAlias = Annotated[str, typer.Option(help="Heap of the local Spark.")]
Bootstrap: TypeAlias = Annotated[
    str, typer.Option(help="Kafka's bootstrap servers, HOST:PORT,…")
]
Topic: TypeAlias = Annotated[str, typer.Option(help="The usage topic.")]
Files: TypeAlias = Annotated[
    str, typer.Option(help="Folder of recorded messages, instead of Kafka.")
]
Once: TypeAlias = Annotated[
    bool, typer.Option("--once", help="Read what is there, then exit.")
]
Starting: TypeAlias = Annotated[
    str, typer.Option(help="Where the first run begins: earliest or latest.")
]
Api: TypeAlias = Annotated[
    str, typer.Option(help="URL of Headgate's API, for names and limits.")
]
Token: TypeAlias = Annotated[
    str, typer.Option(envvar="HEADGATE_TOKEN", help="Bearer token for the API.")
]
Recorded: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="File of recorded snapshots, one per line, instead of the API."),
]
Cluster: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Read the reports of this cluster only; needed if there are several."
    ),
]
Trigger: TypeAlias = Annotated[float, typer.Option(help="Seconds between batches.")]
MaxMessages: TypeAlias = Annotated[int, typer.Option(help="Most messages in a batch.")]
Lateness: TypeAlias = Annotated[
    float, typer.Option(help="Seconds to wait for late reports.")
]
LostIs: TypeAlias = Annotated[
    str,
    typer.Option(
        help="If messages were deleted before they were read: fatal or continue."
    ),
]
AlertTopic: TypeAlias = Annotated[str, typer.Option(help="Kafka topic for alerts.")]
Webhook: TypeAlias = Annotated[str, typer.Option(help="URL to post alerts to.")]
KafkaOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE for Spark's Kafka source and sink; may be repeated."),
]
Prices: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="File of price plans for invoices, YAML or JSON."),
]
InvoiceFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--invoices",
        help="Folder for each invoice as JSON and CSV; by default, OUT/invoices.",
    ),
]
MetricsPort: TypeAlias = Annotated[
    int,
    typer.Option(min=0, max=65535, help="Port for Prometheus metrics; 0 for none."),
]
MetricsHost: TypeAlias = Annotated[
    str, typer.Option(help="Address to serve metrics on.")
]
Since: TypeAlias = Annotated[str, typer.Option(help="How far back: 90s, 5m, 1h, 7d.")]
Page: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Folder for index.html and its plots; by default, OUT/report, or ./report"
        " if OUT is a URI."
    ),
]
Rate: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Limit to try, units per second.")
]
Burst: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0, help="Burst to try, units > 0; by default, one second of the rate."
    ),
]
GroupName: TypeAlias = Annotated[str, typer.Argument(help="Name of the group.")]
Dimension: TypeAlias = Annotated[
    str, typer.Argument(help="Dimension, such as requests.")
]
