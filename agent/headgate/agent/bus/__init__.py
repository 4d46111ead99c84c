"""The buses that carry reports: one port, and memory, ZeroMQ and Kafka behind it.

Buses carry bytes; only `reports` knows what they mean.
"""
