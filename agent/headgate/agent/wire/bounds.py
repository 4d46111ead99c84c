"""Bounds that the writers of reports and the buses must agree on."""

MAX_PAYLOAD_BYTES = 4 << 20
"""Largest message: a report of 150,000 rows of two dimensions; PIP-82's own size
is 10,000 rows.  A Kafka topic must allow as much (``max.message.bytes``)."""

MAX_WEIGHT = 1e6
"""Largest weight of an agent; a larger one would leave the others nothing."""
