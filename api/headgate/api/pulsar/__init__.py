"""Pulsar's Admin v2 paths, on the same services as `/api/v1`.

No rule of its own but Pulsar's wording and statuses.
"""
