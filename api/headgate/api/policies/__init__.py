"""Rate policies for each topic, and the broker's dynamic settings, as in Pulsar.

Shared limits are groups.
"""
