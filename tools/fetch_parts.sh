#!/bin/sh
# Downloads what the real parts need, once, before any test's timeout starts:
# `sh tools/fetch_parts.sh .venv/bin`.  A download is tried three times.
set -eu

bin=$1

# fetch WHAT IS-THERE COMMAND...: announces a download, because it may take minutes.
fetch() {
    what=$1
    is_there=$2
    shift 2
    if ! sh -c "$is_there" >/dev/null 2>&1; then
        printf 'headgate: fetching %s once; this may take minutes\n' "$what" >&2
    fi
    for pause_s in 5 30 0; do
        if said=$("$@" 2>&1); then return 0; fi
        sleep "$pause_s"
    done
    printf 'headgate: %s could not be fetched:\n%s\n' "$what" "$said" >&2
    exit 1
}

has() {
    printf '%s -c "%s; raise SystemExit(not (%s))"' "$bin/python" "$1" "$2"
}

go_build="cd tests/integration/bus/golang && go build -buildvcs=false -o /dev/null ."

fetch "Kafka" "$(has 'from tools.kafka_broker import JARS' 'JARS.is_dir()')" \
    "$bin/python" tools/kafka_broker.py fetch
fetch "Spark's connectors" \
    "$(has 'from headgate.pipeline.stream.jars import CONNECTORS, jar_folder' \
        'all((jar_folder() / jar).exists() for jar in CONNECTORS)')" \
    "$bin/headgate" pipeline setup
fetch "an archive of Spark's classes" "$(has 'from tools.spark_classes import archive' 'archive().exists()')" \
    "$bin/python" -m tools.spark_classes
fetch "Pulsar's client" "$(has 'from tests.api.pulsar.pulsar_jars import JARS' 'JARS.exists()')" \
    "$bin/python" -m tests.api.pulsar.pulsar_jars
fetch "Spark's connector for S3" "$(has 'from tests.pipeline.rigs.s3 import JARS' 'JARS.exists()')" \
    "$bin/python" -m tests.pipeline.rigs.s3
fetch "axe-core" "$(has 'from tools.npm_parts import AXE' 'AXE.path.exists()')" \
    "$bin/python" -m tools.npm_parts
fetch "Helm, compiled from source," "$(has 'from tools.helm import HELM' 'HELM.exists()')" \
    "$bin/python" -m tools.helm
fetch "the schema of Spark's operator" "GOPROXY=off $bin/python -m tools.spark_operator" \
    "$bin/python" -m tools.spark_operator
# It is compiled as well, so that the test finds it in Go's cache.
fetch "a Go module" "export GOPROXY=off; $go_build" sh -c "$go_build"
