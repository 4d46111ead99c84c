"""The buses that carry reports: one port, and memory, ZeroMQ and Kafka behind it.

Bytes in, bytes out; only `reports` knows what they mean.
"""
