"""Kafka as a bus: its client, the usage topic and who may use it."""
