"""Rate policies for each topic, and the broker's dynamic settings, as in Pulsar.

Limits that many share are groups.
"""
