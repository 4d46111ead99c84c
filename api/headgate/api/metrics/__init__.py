"""Prometheus metrics of the live view and of this process."""
