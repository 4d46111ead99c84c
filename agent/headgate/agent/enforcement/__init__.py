"""From a subject to its buckets, and from the buckets to the coordinator.

Everything about one process's limits; nothing about other processes.
"""
