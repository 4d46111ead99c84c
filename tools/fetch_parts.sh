#!/bin/sh
# Fetches once what the real parts need from the network, before a test's own time
# runs: `sh tools/fetch_parts.sh .venv/bin`.  A server that fails is asked three times.
set -eu

bin=$1

fetch() {
    what=$1
    shift
    for pause_s in 5 30 0; do
        if said=$("$@" 2>&1); then return 0; fi
        sleep "$pause_s"
    done
    printf 'headgate: %s could not be fetched:\n%s\n' "$what" "$said" >&2
    exit 1
}

fetch "Kafka" "$bin/python" tools/kafka_broker.py fetch
fetch "Spark's Kafka connector" "$bin/headgate" pipeline setup
fetch "Pulsar's client" "$bin/python" -m tests.api.pulsar_jars
# Compiled, too, so that the test finds it in Go's cache.
fetch "a Go module" sh -c "cd tests/integration/bus/golang && go build -buildvcs=false -o /dev/null ."
