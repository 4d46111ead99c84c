"""One process's limits: from subjects to buckets, and from buckets to the coordinator.

Nothing here knows about other processes.
"""
