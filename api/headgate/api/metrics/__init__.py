"""Prometheus metrics of the cluster and of this process.

They only read what `live/` has seen.
"""
