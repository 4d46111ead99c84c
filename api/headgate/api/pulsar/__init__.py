"""Pulsar's Admin v2 paths: a façade over the same services."""
